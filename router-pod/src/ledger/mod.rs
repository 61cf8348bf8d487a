//! What became of requests: counts, latencies, use and cost, cumulative since the start, as the report carries them.
//!
//! Nothing here has content, and every key is from a closed set: tiers and features of the snapshot, classes,
//! outcomes, reason codes.

pub mod poster;
pub mod spend;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use terrace_contract::report::{Count, Latency, Outcome, Reachability, Report, Usage};
use terrace_contract::sketch::Sketch;
use terrace_contract::spent::Spent;
use terrace_contract::tier::Tier;
use terrace_contract::trust::Class;

use crate::app::App;
use crate::dispatch::rebuild::Tokens;

/// Features counted apart before the rest is counted as `other`; a snapshot may name many over a router's life.
const FEATURES_MOST: usize = 1024;

/// One request that ended.
#[derive(Debug, Clone)]
pub struct Ended {
    /// UID of the tier that answered; empty: none did.
    pub tier: String,
    /// Its feature.
    pub feature: String,
    /// Its class.
    pub class: Class,
    /// What became of it.
    pub outcome: Outcome,
    /// The reason code that says most.
    pub reason: &'static str,
    /// Why the class was forced up; empty: it was not.
    pub forced: &'static str,
    /// Time to the first token; none: there was none.
    pub first_token_us: Option<u64>,
    /// Time to the end.
    pub total_us: u64,
    /// The part of it that was not the model.
    pub transport_us: u64,
    /// Whether it met its budget; none: it had none.
    pub met: Option<bool>,
}

/// Tokens and money of one attempt that answered.
#[derive(Debug, Clone, Copy, Default)]
pub struct Used {
    /// Prompt tokens.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Micro-units.
    pub cost_micros: u64,
}

impl Used {
    /// These tokens at this tier, and so much time of a device of it.
    pub fn of(app: &App, tier: &Tier, tokens: Tokens, compute_us: u64) -> Self {
        let Tokens { input, output, .. } = tokens;
        Self { input, output, cost_micros: app.price(tier, input, output, compute_us) }
    }
}

type CountKey = (String, String, Class, Outcome, &'static str, &'static str);

#[derive(Debug, Default)]
struct State {
    counts: BTreeMap<CountKey, u64>,
    latency: BTreeMap<(String, String), Latency>,
    usage: BTreeMap<String, Usage>,
}

/// The ledger of this router.
#[derive(Debug, Default)]
pub struct Ledger(Mutex<State>);

impl Ledger {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request that ended.
    pub fn ended(&self, request: &Ended) {
        let mut state = self.state();
        let key = (
            request.tier.clone(),
            request.feature.clone(),
            request.class,
            request.outcome,
            request.reason,
            request.forced,
        );
        *state.counts.entry(key).or_default() += 1;
        let Some(first_token) = request.first_token_us else { return };
        let mut key = (request.tier.clone(), request.feature.clone());
        if state.latency.len() >= FEATURES_MOST && !state.latency.contains_key(&key) {
            key.1 = terrace_contract::names::OTHER_FEATURE.to_owned();
        }
        let latency = state.latency.entry(key.clone()).or_insert_with(|| Latency {
            tier: key.0,
            feature: key.1,
            first_token: Sketch::default(),
            total: Sketch::default(),
            transport: Sketch::default(),
            met: 0,
            budgeted: 0,
        });
        latency.first_token.add(first_token);
        latency.total.add(request.total_us);
        latency.transport.add(request.transport_us);
        latency.budgeted += u64::from(request.met.is_some());
        latency.met += u64::from(request.met == Some(true));
    }

    /// Counts an attempt, and whether it failed.
    pub fn attempt(&self, tier: &str, failed: bool) {
        let mut state = self.state();
        let usage = usage(&mut state.usage, tier);
        usage.attempts += 1;
        usage.failed_attempts += u64::from(failed);
    }

    /// Counts what an answer used.
    pub fn used(&self, tier: &str, used: Used) {
        let mut state = self.state();
        let total = usage(&mut state.usage, tier);
        total.input_tokens = total.input_tokens.saturating_add(used.input);
        total.output_tokens = total.output_tokens.saturating_add(used.output);
        total.cost_micros = total.cost_micros.saturating_add(used.cost_micros);
    }

    /// Writes what was counted into a report.
    pub fn fill(&self, report: &mut Report) {
        let state = self.state();
        report.counts = state
            .counts
            .iter()
            .map(|((tier, feature, class, outcome, reason, forced), requests)| Count {
                tier: tier.clone(),
                feature: feature.clone(),
                class: *class,
                outcome: *outcome,
                reason: (*reason).to_owned(),
                forced: (*forced).to_owned(),
                requests: *requests,
            })
            .collect();
        report.latency = state.latency.values().cloned().collect();
        report.usage = state.usage.values().cloned().collect();
    }
}

fn usage<'a>(all: &'a mut BTreeMap<String, Usage>, tier: &str) -> &'a mut Usage {
    all.entry(tier.to_owned()).or_insert_with(|| Usage {
        tier: tier.to_owned(),
        input_tokens: 0,
        output_tokens: 0,
        cost_micros: 0,
        failed_attempts: 0,
        attempts: 0,
    })
}

/// A report that says nothing yet.
pub fn empty_report() -> Report {
    Report {
        schema_version: terrace_contract::SCHEMA_VERSION,
        policy_uid: String::new(),
        router_uid: String::new(),
        router: String::new(),
        revision: String::new(),
        refused: None,
        started_at_us: 0,
        sent_at_us: 0,
        counts: Vec::new(),
        latency: Vec::new(),
        usage: Vec::new(),
        reachability: Vec::<Reachability>::new(),
        ledger: None,
        spent: Spent::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(outcome: Outcome, first_token_us: Option<u64>) -> Ended {
        Ended {
            tier: "t".into(),
            feature: "f".into(),
            class: Class::Internal,
            outcome,
            reason: "nearest",
            forced: "",
            first_token_us,
            total_us: 2_000,
            transport_us: 100,
            met: Some(first_token_us.is_some()),
        }
    }

    #[test]
    fn the_same_fate_is_one_count_and_only_answers_have_latencies() {
        let ledger = Ledger::default();
        ledger.ended(&ended(Outcome::Served, Some(1_000)));
        ledger.ended(&ended(Outcome::Served, Some(1_000)));
        ledger.ended(&ended(Outcome::Failed, None));
        let mut report = empty_report();
        ledger.fill(&mut report);
        assert_eq!(report.counts.iter().map(|c| c.requests).sum::<u64>(), 3);
        assert_eq!(report.counts.len(), 2);
        assert_eq!((report.latency.len(), report.latency[0].first_token.count()), (1, 2));
        assert_eq!((report.latency[0].met, report.latency[0].budgeted), (2, 2));
    }
}
