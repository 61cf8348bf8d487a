//! Sums over some time: of one minute, or of many.

use std::collections::BTreeMap;

use terrace_contract::report::{Outcome, Report};
use terrace_contract::sketch::Sketch;
use terrace_contract::trust::Class;

/// One minute's sums.
#[derive(Debug, Default)]
pub(super) struct Minute {
    /// Minutes since the Unix epoch.
    pub(super) index: u64,
    pub(super) window: Window,
}

/// What became of requests of one kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fate {
    /// UID of the tier that answered; empty: none.
    pub tier: String,
    /// Class.
    pub class: Class,
    /// Outcome.
    pub outcome: Outcome,
    /// The reason that says most.
    pub reason: String,
    /// Why the class was forced up; empty: it was not.
    pub forced: String,
}

/// Latencies of one tier and feature.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Latencies {
    /// Time to the first token.
    pub first_token: Sketch,
    /// Time to the end.
    pub total: Sketch,
    /// Spent on the way.
    pub transport: Sketch,
    /// Met their budget.
    pub met: u64,
    /// Had one.
    pub budgeted: u64,
}

/// Use of one tier.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Use {
    /// Prompt tokens.
    pub input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// Micro-units.
    pub cost_micros: u64,
    /// Attempts that failed.
    pub failed_attempts: u64,
    /// Attempts.
    pub attempts: u64,
}

impl Use {
    /// Adds another.
    pub fn add(&mut self, more: &Use) {
        self.input_tokens += more.input_tokens;
        self.output_tokens += more.output_tokens;
        self.cost_micros += more.cost_micros;
        self.failed_attempts += more.failed_attempts;
        self.attempts += more.attempts;
    }
}

/// Sums over some time.
#[derive(Debug, Clone, Default)]
pub struct Window {
    /// Requests by their fate.
    pub counts: BTreeMap<Fate, u64>,
    /// When a fate was last reported, microseconds since the Unix epoch.
    pub last_us: BTreeMap<Fate, u64>,
    /// Latencies by tier and feature.
    pub latency: BTreeMap<(String, String), Latencies>,
    /// Use by tier.
    pub usage: BTreeMap<String, Use>,
}

impl Window {
    /// What a router did between two reports of one run; since its start without an earlier one.
    pub(super) fn between(earlier: Option<&Report>, now: &Report) -> Window {
        let mut grown = Window::of(now);
        let earlier = earlier.map(Window::of).unwrap_or_default();
        for (fate, count) in &mut grown.counts {
            *count = count.saturating_sub(earlier.counts.get(fate).copied().unwrap_or(0));
        }
        for (key, now) in &mut grown.latency {
            if let Some(then) = earlier.latency.get(key) {
                now.first_token = now.first_token.since(&then.first_token);
                now.total = now.total.since(&then.total);
                now.transport = now.transport.since(&then.transport);
                now.met = now.met.saturating_sub(then.met);
                now.budgeted = now.budgeted.saturating_sub(then.budgeted);
            }
        }
        for (tier, now) in &mut grown.usage {
            if let Some(then) = earlier.usage.get(tier) {
                now.input_tokens = now.input_tokens.saturating_sub(then.input_tokens);
                now.output_tokens = now.output_tokens.saturating_sub(then.output_tokens);
                now.cost_micros = now.cost_micros.saturating_sub(then.cost_micros);
                now.failed_attempts = now.failed_attempts.saturating_sub(then.failed_attempts);
                now.attempts = now.attempts.saturating_sub(then.attempts);
            }
        }
        grown.counts.retain(|_, count| *count > 0);
        grown.last_us = grown.counts.keys().map(|fate| (fate.clone(), now.sent_at_us)).collect();
        grown
    }

    fn of(report: &Report) -> Window {
        let mut window = Window::default();
        for c in &report.counts {
            let fate = Fate {
                tier: c.tier.clone(),
                class: c.class,
                outcome: c.outcome,
                reason: c.reason.clone(),
                forced: c.forced.clone(),
            };
            *window.counts.entry(fate).or_default() += c.requests;
        }
        for l in &report.latency {
            let sum = window.latency.entry((l.tier.clone(), l.feature.clone())).or_default();
            sum.first_token.merge(&l.first_token);
            sum.total.merge(&l.total);
            sum.transport.merge(&l.transport);
            sum.met += l.met;
            sum.budgeted += l.budgeted;
        }
        for u in &report.usage {
            let sum = window.usage.entry(u.tier.clone()).or_default();
            sum.input_tokens += u.input_tokens;
            sum.output_tokens += u.output_tokens;
            sum.cost_micros += u.cost_micros;
            sum.failed_attempts += u.failed_attempts;
            sum.attempts += u.attempts;
        }
        window
    }

    /// Adds another window.
    pub fn add(&mut self, other: &Window) {
        for (fate, count) in &other.counts {
            *self.counts.entry(fate.clone()).or_default() += count;
        }
        for (fate, at) in &other.last_us {
            let last = self.last_us.entry(fate.clone()).or_default();
            *last = (*last).max(*at);
        }
        for (key, more) in &other.latency {
            let sum = self.latency.entry(key.clone()).or_default();
            sum.first_token.merge(&more.first_token);
            sum.total.merge(&more.total);
            sum.transport.merge(&more.transport);
            sum.met += more.met;
            sum.budgeted += more.budgeted;
        }
        for (tier, more) in &other.usage {
            self.usage.entry(tier.clone()).or_default().add(more);
        }
    }

    /// Forgets latencies, which are what takes room.
    pub(super) fn drop_sketches(&mut self) {
        for l in self.latency.values_mut() {
            (l.first_token, l.total, l.transport) = Default::default();
        }
    }

    /// Whether nothing happened.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty() && self.usage.values().all(|u| *u == Use::default())
    }

    /// All requests.
    pub fn requests(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Requests whose fate fits.
    pub fn count(&self, fits: impl Fn(&Fate) -> bool) -> u64 {
        self.counts.iter().filter(|(fate, _)| fits(fate)).map(|(_, count)| count).sum()
    }

    /// Latencies of all keys that fit, as one.
    pub fn latencies(&self, fits: impl Fn(&str, &str) -> bool) -> Latencies {
        let mut sum = Latencies::default();
        for ((tier, feature), l) in &self.latency {
            if fits(tier, feature) {
                sum.first_token.merge(&l.first_token);
                sum.total.merge(&l.total);
                sum.transport.merge(&l.transport);
                sum.met += l.met;
                sum.budgeted += l.budgeted;
            }
        }
        sum
    }
}
