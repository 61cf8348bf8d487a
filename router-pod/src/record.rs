//! What became of one request: filled in on its way, written once when it is dropped.
//!
//! Dropping is the only end that no path can forget: an answer sent, a refusal, or a client that went away. Until
//! something else is said, a request that is dropped was cancelled.

use std::sync::Arc;

use serde_json::Value;
use terrace_contract::explanation::{Became, Explanation};
use terrace_contract::names::{OTHER, OTHER_FEATURE};
use terrace_contract::policy::Budget;
use terrace_contract::reason::Reason;
use terrace_contract::report::Outcome;
use terrace_contract::snapshot::Snapshot;
use terrace_contract::tier::{Backend, Tier};
use terrace_contract::trust::Class;
use terrace_decide::Signals;
use terrace_telemetry::metrics::observe;
use terrace_wire::error::Code;
use tokio::time::Instant;

use crate::app::App;
use crate::clock::micros;
use crate::decisions::Decision;
use crate::dispatch::rebuild::Tokens;
use crate::fleet::place::Place;
use crate::ledger::{Ended, Used};
use crate::metrics::{RequestLabels, TierLabel, TokenLabels};
use crate::refusal::Refusal;
use crate::sense::chain;
use crate::server::rate::Taken;
use crate::trace::{Trace, Whole};

/// What became of one request.
pub struct Record {
    app: Arc<App>,
    id: String,
    /// The request's trace.
    pub trace: Trace,
    started: Instant,
    feature: String,
    class: Class,
    /// As counted here, not by the tier: what the next request is compared by.
    prompt_tokens: u32,
    forced: &'static str,
    budget: Option<(u64, u64)>,
    tier: Option<Arc<Tier>>,
    /// The place of it, and whether it is nearer than was decided.
    device: (String, bool),
    /// The status that the client got.
    status: Option<u16>,
    /// `error.type` of its span.
    error: Option<&'static str>,
    outcome: Outcome,
    reasons: Vec<Reason>,
    first_token_us: Option<u64>,
    transport_us: u64,
    used: Option<Used>,
    compute_us: u64,
    /// Whether tiers are being asked.
    asking: bool,
    /// Tokens that were taken of its key's minute.
    pub taken: Option<Taken>,
    caller: String,
    decision: Option<Arc<Decision>>,
    /// The chain that it is a call of.
    chain: Option<chain::Key>,
}

impl Record {
    /// A request that came at this moment.
    pub fn new(app: Arc<App>, id: &str, trace: Trace, started: Instant) -> Self {
        app.metrics.in_flight.inc();
        Self {
            app,
            id: id.to_owned(),
            trace,
            started,
            feature: OTHER_FEATURE.to_owned(),
            class: Class::Public,
            prompt_tokens: 0,
            forced: "",
            budget: None,
            tier: None,
            device: (String::new(), false),
            status: None,
            error: None,
            outcome: Outcome::Cancelled,
            reasons: vec![Reason::ClientGone],
            first_token_us: None,
            transport_us: 0,
            used: None,
            compute_us: 0,
            asking: false,
            taken: None,
            caller: String::new(),
            decision: None,
            chain: None,
        }
    }

    /// The name of the key that it came with; empty: anonymous.
    pub fn called_by(&mut self, caller: &str) {
        caller.clone_into(&mut self.caller);
    }

    /// It was decided: kept for the caller to ask for.
    pub fn decided(&mut self, id: &str, snapshot: &Snapshot, now_us: u64, explain: impl FnOnce() -> Explanation) {
        self.decision = self.app.decisions.keep(&self.caller, || Explanation {
            request_id: Some(id.to_owned()),
            at_us: now_us,
            revision: snapshot.revision.clone(),
            ..explain()
        });
    }

    /// When the request came.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// What it is.
    pub fn sensed(&mut self, signals: &Signals, forced: Option<Reason>, budget: Option<&Budget>) {
        self.feature.clone_from(&signals.feature);
        self.class = signals.class;
        self.prompt_tokens = signals.prompt_tokens;
        self.forced = forced.map_or("", Reason::code);
        self.budget = budget.map(|b| (b.first_token_us, b.total_us));
    }

    /// It is a call of this chain, and counted there: given back if nothing comes of it.
    pub fn call_of(&mut self, chain: Option<&chain::Key>) {
        self.chain = chain.cloned();
    }

    /// It ended without an answer.
    pub fn refused(&mut self, refusal: &Refusal) {
        self.outcome = refusal.outcome();
        self.reasons.clone_from(&refusal.reasons);
        (self.status, self.error) = (Some(refusal.code.status()), Some(refusal.code.as_str()));
    }

    /// A tier began to answer.
    pub fn answering(
        &mut self,
        place: &Place,
        degraded: bool,
        reasons: &[Reason],
        transport_us: u64,
        first_token: Instant,
    ) {
        self.tier = Some(Arc::clone(&place.tier));
        self.device = (place.name().to_owned(), degraded);
        self.status = Some(200);
        self.reasons = reasons.to_vec();
        self.transport_us = transport_us;
        if let Some(chain) = &self.chain {
            self.app.chains.transport(chain, transport_us);
        }
        self.first_token_us = Some(micros(first_token.duration_since(self.started)));
    }

    /// What an answer, or an event of one, says of the device's time. Only a fleet's agents are asked, and believed.
    pub fn took(&mut self, terrace: Option<&Value>) {
        let Some(said) = terrace else { return };
        let agent = self.tier.as_ref().is_some_and(|tier| matches!(tier.backend, Backend::Fleet(_)));
        if let (true, Some(us)) = (agent, said.get("cost").and_then(|cost| cost.get("computeUs")?.as_u64())) {
            // No device works on an answer for longer than the answer takes.
            self.compute_us = us.min(micros(self.started.elapsed()));
        }
    }

    /// Tiers are asked for an answer, or nothing came of it.
    pub fn asking(&mut self, so: bool) {
        self.asking = so;
    }

    /// The answer ended well. Returns its price.
    pub fn answered(&mut self, outcome: Outcome, tokens: Tokens) -> u64 {
        self.outcome = outcome;
        // Embeddings have no length to learn.
        if tokens.output > 0 && self.tier.is_some() {
            self.app.learn_output(&self.feature, self.prompt_tokens, tokens.output);
        }
        self.charge(tokens)
    }

    /// The answer had begun when its time was up; what it used so far counts, and says nothing of its length.
    pub fn cut(&mut self, tokens: Tokens) {
        self.outcome = Outcome::Failed;
        self.charge(tokens);
        self.reasons.push(Reason::BudgetExceeded);
        self.error = Some(Code::BudgetExceeded.as_str());
    }

    /// The client left in the middle of the answer; what came so far was made for it, and counts.
    pub fn left(&mut self, tokens: Tokens) {
        self.charge(tokens);
    }

    fn charge(&mut self, tokens: Tokens) -> u64 {
        let Some(tier) = &self.tier else { return 0 };
        let used = Used::of(&self.app, tier, tokens, self.compute_us);
        self.used = Some(used);
        used.cost_micros
    }

    /// The answer broke off after its first token; what it used so far counts.
    pub fn broke(&mut self, tokens: Tokens) {
        self.answered(Outcome::Failed, tokens);
        self.reasons.push(Reason::AttemptFailed);
        self.error = Some("broken");
    }

    /// What it used goes to its key. An answer that the client left used at least what was taken for it, however far it
    /// had come; a request that no tier took used nothing.
    fn settle(&self) {
        let Some(taken) = &self.taken else { return };
        let used = self.used.map(|used| used.input.saturating_add(used.output));
        let left = self.outcome == Outcome::Cancelled && (self.asking || self.tier.is_some());
        match used {
            Some(used) if left => self.app.rates.settle(taken, taken.at_least(used)),
            Some(used) => self.app.rates.settle(taken, used),
            None if left => {}
            None => self.app.rates.settle(taken, 0),
        }
    }

    /// Ends its trace; the trace's id if it is kept.
    fn traced(&self) -> Option<String> {
        let in_use = self.app.fleet.in_use();
        let (device, degraded) = &self.device;
        self.trace.end(&Whole {
            id: &self.id,
            policy: in_use.as_ref().map_or("", |used| &used.snapshot.policy.name),
            feature: &self.feature,
            class: self.class,
            answered: self.tier.as_ref().map(|tier| (&**tier, device.as_str(), *degraded)),
            reasons: &self.reasons,
            outcome: self.outcome,
            outcome_name: outcome_name(self.outcome),
            status: self.status,
            error: self.error,
            used: self.used.map(|used| (used.input, used.output, used.cost_micros)),
        })
    }

    /// The part of the time to the first token that its budget allowed, and whether all of it was met.
    fn met(&self, total_us: u64) -> Option<bool> {
        let (first_token, total) = self.budget?;
        Some(self.first_token_us.is_some_and(|first| first <= first_token) && total_us <= total)
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let ended = Instant::now();
        let total_us = micros(ended.duration_since(self.started));
        let metrics = &self.app.metrics;
        metrics.in_flight.dec();
        let refused = matches!(self.outcome, Outcome::Invalid | Outcome::Denied | Outcome::Unavailable);
        if let Some(chain) = self.chain.as_ref().filter(|_| refused) {
            self.app.chains.give_back(chain);
        }
        let tier = self.tier.as_ref().map(|t| t.name.clone()).unwrap_or_default();
        metrics
            .requests
            .get_or_create(&RequestLabels {
                tier: tier.clone(),
                class: self.class.as_str(),
                outcome: outcome_name(self.outcome),
            })
            .inc();
        self.app.ledger.ended(&Ended {
            tier: self.tier.as_ref().map(|t| t.uid.clone()).unwrap_or_default(),
            feature: self.feature.clone(),
            class: self.class,
            outcome: self.outcome,
            reason: self.reasons.first().map_or(OTHER, |r| r.code()),
            forced: self.forced,
            first_token_us: self.first_token_us,
            total_us,
            transport_us: self.transport_us,
            met: self.met(total_us),
        });
        self.settle();
        if let Some(decision) = &self.decision {
            decision.ended(Became {
                outcome: self.outcome,
                tier: self.tier.as_ref().map(|tier| tier.name.clone()),
                reasons: self.reasons.clone(),
                first_token_us: self.first_token_us,
                total_us,
            });
        }
        let trace = self.traced();
        let Some(used) = self.used else { return };
        let Some(uid) = self.tier.as_ref().map(|t| t.uid.as_str()) else { return };
        count(&self.app, uid, &tier, used, self.app.clock.us_of(ended));
        let label = TierLabel { tier };
        let trace = trace.as_deref();
        observe(&metrics.transport.get_or_create(&label), seconds(self.transport_us), trace);
        if let Some(first) = self.first_token_us {
            observe(&metrics.first_token.get_or_create(&label), seconds(first), trace);
            if used.output > 1 {
                let each = seconds(total_us.saturating_sub(first)) / (used.output - 1) as f64;
                observe(&metrics.per_output_token.get_or_create(&label), each, trace);
            }
        }
    }
}

/// Counts what was used at a tier: for the day's spend, the report and Prometheus.
fn count(app: &App, uid: &str, tier: &str, used: Used, now_us: u64) {
    app.ledger.used(uid, used);
    app.spend.add(used.cost_micros, now_us);
    for (kind, n) in [("input", used.input), ("output", used.output)] {
        app.metrics.tokens.get_or_create(&TokenLabels { tier: tier.to_owned(), kind }).inc_by(n);
    }
    app.metrics.cost_micros.get_or_create(&TierLabel { tier: tier.to_owned() }).inc_by(used.cost_micros);
}

/// An attempt that nothing is heard of yet. If its client goes now, the prompt was read for it all the same: it counts.
pub struct Unheard<'a> {
    app: &'a App,
    tier: Arc<Tier>,
    prompt_tokens: u64,
    over: bool,
}

impl<'a> Unheard<'a> {
    /// An attempt at this tier with a prompt of so many tokens.
    pub fn new(app: &'a App, tier: &Arc<Tier>, prompt_tokens: u64) -> Self {
        Self { app, tier: Arc::clone(tier), prompt_tokens, over: false }
    }

    /// It was heard of.
    pub fn over(mut self) {
        self.over = true;
    }
}

impl Drop for Unheard<'_> {
    fn drop(&mut self) {
        if !self.over {
            let tokens = Tokens { input: self.prompt_tokens, ..Tokens::default() };
            let used = Used::of(self.app, &self.tier, tokens, 0);
            count(self.app, &self.tier.uid, &self.tier.name, used, self.app.clock.now_us());
        }
    }
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

/// The name used in metrics and spans.
fn outcome_name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Served => "served",
        Outcome::Overflowed => "overflowed",
        Outcome::Escalated => "escalated",
        Outcome::Degraded => "degraded",
        Outcome::Invalid => "invalid",
        Outcome::Denied => "denied",
        Outcome::Unavailable => "unavailable",
        Outcome::Failed => "failed",
        Outcome::Cancelled => "cancelled",
    }
}
