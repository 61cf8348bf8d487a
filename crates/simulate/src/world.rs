//! What is simulated: a policy with its ladder, the true speed of everything on it, and what goes wrong when.

use std::sync::Arc;

use terrace_contract::policy::{Budget, Policy};
use terrace_contract::tier::Tier;
use terrace_contract::trust::Class;

/// A fleet and its traffic.
#[derive(Debug, Clone, PartialEq)]
pub struct World {
    /// The policy.
    pub policy: Policy,
    /// Its budgets.
    pub budgets: Vec<Budget>,
    /// Its ladder, nearest first, with what really answers there.
    pub rungs: Vec<Rung>,
    /// What requests are beyond their lengths.
    pub traffic: Traffic,
    /// Router replicas; requests go to each in turn.
    pub routers: u32,
    /// How often a quiet device is asked for its load.
    pub reports_every_us: u64,
    /// Whether routers count what they sent since the last report; false only to show what that is worth.
    pub own_dispatches: bool,
    /// Spread of a device's speed around its rated one (sigma of a log-normal, drawn anew every few seconds).
    pub drift: f64,
    /// What goes wrong.
    pub faults: Vec<Fault>,
}

/// One rung.
#[derive(Debug, Clone, PartialEq)]
pub struct Rung {
    /// The compiled Tier.
    pub tier: Arc<Tier>,
    /// What answers there.
    pub places: Places,
}

/// What answers at a rung.
#[derive(Debug, Clone, PartialEq)]
pub enum Places {
    /// Devices.
    Devices(Vec<Device>),
    /// An endpoint.
    Endpoint(Endpoint),
}

/// The truth about one device.
#[derive(Debug, Clone, PartialEq)]
pub struct Device {
    /// Its node.
    pub node: Arc<str>,
    /// Sequences at once.
    pub slots: u32,
    /// Requests that may wait.
    pub queue_limit: u32,
    /// Prompt tokens a second while nothing is decoded.
    pub prefill_rate: f64,
    /// One decode step without what grows with the batch, microseconds.
    pub step_base_us: f64,
    /// What each sequence of the batch adds, microseconds.
    pub step_per_sequence_us: f64,
    /// Prompt tokens of one step at most.
    pub prefill_chunk: u32,
    /// Time of one step while answers wait for their next token: how much of a prompt goes beside them.
    pub step_limit_us: u64,
    /// Prompt tokens that its prefix cache holds; 0: it has none.
    pub prefix_cache_tokens: u64,
    /// Round trip from the routers.
    pub rtt_us: u64,
}

/// The truth about one endpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct Endpoint {
    /// Round trip.
    pub rtt_us: u64,
    /// Time in its queue, on average (exponential).
    pub queue_us: u64,
    /// Prompt tokens a second.
    pub prefill_rate: f64,
    /// One output token, microseconds.
    pub step_us: f64,
}

/// What requests are beyond their lengths: shares of features and classes.
#[derive(Debug, Clone, PartialEq)]
pub struct Traffic {
    /// Features by weight; empty: all `other`.
    pub features: Vec<(String, u32)>,
    /// Classes by weight; empty: the policy's `unlabelled`.
    pub classes: Vec<(Class, u32)>,
    /// Share of requests judged complex, percent.
    pub complex_percent: u8,
    /// `max_tokens` that every client sends; none: they send none.
    pub max_output_tokens: Option<u32>,
}

/// Something that goes wrong, and ends.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// Rung.
    pub rung: usize,
    /// Device of a fleet, by index; none: all of the rung.
    pub device: Option<usize>,
    /// What.
    pub kind: FaultKind,
    /// When it begins, microseconds of the trace's own time.
    pub from_us: u64,
    /// When it ends.
    pub until_us: u64,
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FaultKind {
    /// It refuses connections, and what it was doing is lost.
    Down,
    /// Its reports do not arrive.
    Silent,
    /// It is so many times slower.
    Slow(f64),
}

impl World {
    /// The budget that covers a feature: the one that names it, else the default one.
    pub fn budget(&self, feature: &str) -> Option<&Budget> {
        let named = self.budgets.iter().find(|budget| budget.features.iter().any(|f| f == feature));
        named.or_else(|| self.budgets.iter().find(|budget| budget.features.is_empty()))
    }

    /// Devices of all rungs.
    pub fn devices(&self) -> impl Iterator<Item = (usize, usize, &Device)> {
        self.rungs.iter().enumerate().flat_map(|(rung, r)| match &r.places {
            Places::Devices(devices) => devices.iter().enumerate().map(|(i, d)| (rung, i, d)).collect::<Vec<_>>(),
            Places::Endpoint(_) => Vec::new(),
        })
    }
}
