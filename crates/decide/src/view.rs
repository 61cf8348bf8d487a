//! What is out there now: the ladder with the state of its devices and endpoints, at one instant.
//!
//! Building one for each request is cheap: facts of the snapshot are shared (`Arc`), state is plain numbers.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use terrace_contract::load::Load;
use terrace_contract::tier::Tier;

/// The fleet at one instant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FleetView {
    /// The ladder, nearest first.
    pub tiers: Vec<TierView>,
    /// Now, microseconds on the clock that the other instants of the view use.
    pub now_us: u64,
    /// Age of the snapshot; past the policy's `maxPolicyAge`, Public is only for class Public.
    pub snapshot_age_us: u64,
    /// The router's own topology domain; empty: unknown, and tiers with a locality are out of reach.
    pub domain: String,
    /// How much overflowed in the last minute.
    pub overflow: OverflowWindow,
    /// What is left of the policy's daily spend, micro-units; none: no limit.
    pub spend_left_micros: Option<u64>,
}

/// Requests of the last minute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OverflowWindow {
    /// All of them.
    pub requests: u32,
    /// Those that overflowed.
    pub overflowed: u32,
}

/// One rung.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TierView {
    /// The compiled Tier.
    pub tier: Arc<Tier>,
    /// Requests decided for it so far: whose turn it is with `RoundRobin`.
    pub turn: u64,
    /// What answers, and its state.
    pub serving: Serving,
}

/// What answers in a tier, and its state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Serving {
    /// Edge agents. Their order does not matter to the outcome but for `RoundRobin`.
    Devices(Vec<DeviceView>),
    /// An endpoint.
    Endpoint(EndpointView),
}

/// One device: facts, its last report, and what this router did since.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceView {
    /// Who it is and where.
    pub facts: Arc<DeviceFacts>,
    /// Whether it takes requests: the snapshot says so and it is not draining.
    pub ready: bool,
    /// Its last load report and the report's age; none: it has not reported yet (cold).
    pub report: Option<Report>,
    /// This router's requests in flight to it.
    pub own_in_flight: u32,
    /// Those of this router's dispatches that the report cannot know yet.
    pub own_since_report: u32,
    /// Their prompt tokens.
    pub own_prompt_tokens_since_report: u64,
    /// What the answer from here that is nearest to its deadline has to spare; none: none has begun.
    pub own_slack_us: Option<u64>,
    /// Tokens of this request's prompt that its prefix cache holds, as far as this router knows.
    pub cached_tokens: u32,
    /// Round trip to it; none: not measured yet.
    pub rtt_us: Option<u64>,
    /// Its breaker.
    pub breaker: BreakerState,
    /// By how much forecasts of its first tokens are stretched ([`crate::correction::Correction`]); 1: not at all.
    pub correction: f64,
    /// The same for what follows the first token: its decode steps are held up by others' prompts.
    pub pace: f64,
    /// `correction` as it must be for forty-nine first tokens of fifty: by this a budget is kept.
    pub tail_correction: f64,
    /// The same of `pace`.
    pub tail_pace: f64,
}

/// Who a device is and where: what the snapshot says of it, shared by all views of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceFacts {
    /// UID of its pod.
    pub pod_uid: Arc<str>,
    /// Its node.
    pub node: Arc<str>,
    /// Its topology domain; empty: unknown.
    pub domain: Arc<str>,
}

/// A device's load line and its age.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// What it said.
    pub load: Load,
    /// How long ago.
    pub age_us: u64,
}

/// How far a device's report can be relied on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Freshness {
    /// It has not reported yet: a neutral forecast, neither idle nor loaded.
    Cold,
    /// At most 2 s old: the forecast counts.
    Fresh,
    /// Older: only own requests in flight count, and two choices at random.
    Stale,
    /// Older than 10 s: out.
    Silent,
}

/// Reports up to this age are used as they are.
pub const FRESH_US: u64 = 2_000_000;
/// Reports past this age rule the device out.
pub const SILENT_US: u64 = 10_000_000;

impl DeviceView {
    /// How far its report can be relied on.
    #[inline]
    pub fn freshness(&self) -> Freshness {
        match &self.report {
            None => Freshness::Cold,
            Some(r) if r.age_us <= FRESH_US => Freshness::Fresh,
            Some(r) if r.age_us <= SILENT_US => Freshness::Stale,
            Some(_) => Freshness::Silent,
        }
    }
}

/// An endpoint's state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointView {
    /// Round trip, fitted; none: not measured yet.
    pub rtt_us: Option<u64>,
    /// Time in its queue, fitted.
    pub queue_us: u64,
    /// Its rates, fitted; none: not measured yet.
    pub rates: Option<Rates>,
    /// This router's requests in flight to it.
    pub in_flight: u32,
    /// This replica's part of the concurrency that is left; none: no limit.
    pub concurrency_left: Option<u32>,
    /// This replica's part of this minute's requests that is left; none: no limit.
    pub requests_left: Option<u32>,
    /// This replica's part of this minute's tokens that is left; none: no limit.
    pub tokens_left: Option<u64>,
    /// After a 429: not before this instant; 0: not cooling.
    pub cooling_until_us: u64,
    /// Its breaker.
    pub breaker: BreakerState,
    /// Whether the credential that the tier names is there and not refused.
    pub credential: bool,
    /// By how much its forecasts are stretched; 1: not at all.
    pub correction: f64,
}

/// How fast something answers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rates {
    /// Prompt tokens a second.
    pub prefill_rate: f64,
    /// One decode step, microseconds, without what grows with the batch.
    pub step_base_us: f64,
    /// What each sequence of the batch adds.
    pub step_per_sequence_us: f64,
}

/// What a breaker lets through now ([`crate::breaker::Breaker::state`]).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum BreakerState {
    /// Everything.
    #[default]
    Closed,
    /// One probe.
    HalfOpen,
    /// Nothing.
    Open,
}
