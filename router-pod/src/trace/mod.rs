//! One request's trace: noted while the request runs, made into spans once it has ended and if it is kept.
//!
//! A trace is kept if it was sampled at its beginning (by the caller, else by the policy's share), or for what became of
//! it: an error, an overflow, an escalation, an answer that is degraded, an attempt that failed. That is known only at the
//! end. So nothing but notes is taken on the way, at a cost that no share changes; the spans, their names and attributes
//! are written in [`write`] alone. docs/traces.md lists them.

mod write;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::HeaderMap;
use terrace_contract::reason::Reason;
use terrace_contract::report::Outcome;
use terrace_contract::tier::Tier;
use terrace_contract::trust::Class;
use terrace_decide::{Plan, Signals};
use terrace_telemetry::spans::{self, SpanContext};
use terrace_telemetry::{Sampling, Spans};
use tokio::time::Instant;

use crate::app::App;
use crate::clock::Clock;
use crate::dispatch::connection::Timing;
use crate::dispatch::failure::Failure;
use crate::fleet::InUse;
use crate::fleet::place::{Peer, Place};
use crate::random::Random;

/// One request's trace. Clones are the same; the default is none.
#[derive(Clone)]
pub struct Trace {
    /// The request's own span; where traces go nowhere, the caller's.
    context: SpanContext,
    notes: Option<Arc<Notes>>,
}

impl Default for Trace {
    fn default() -> Self {
        Self { context: SpanContext::NONE, notes: None }
    }
}

struct Notes {
    spans: Spans,
    random: Arc<Random>,
    clock: Clock,
    caller: SpanContext,
    began_us: u64,
    operation: &'static str,
    way: Mutex<Way>,
}

/// What is known of a request's way so far.
#[derive(Default)]
struct Way {
    model: Option<String>,
    /// Which call of its chain it is.
    hop: Option<u32>,
    /// How long it waited for room.
    queue_us: Option<u64>,
    sensed: Option<Sensed>,
    decided: Option<Decided>,
    attempts: Vec<Attempt>,
}

struct Sensed {
    from_us: u64,
    to_us: u64,
    class_reasons: Vec<Reason>,
    prompt_tokens: u32,
}

struct Decided {
    from_us: u64,
    to_us: u64,
    in_use: Arc<InUse>,
    first: Option<(usize, Vec<Reason>)>,
    ruled_out: Vec<(usize, Reason)>,
    scores: Vec<(usize, f64)>,
}

struct Attempt {
    context: SpanContext,
    tier: Arc<Tier>,
    device: String,
    peer: Peer,
    began_us: u64,
    ended_us: Option<u64>,
    connected: Option<(Timing, u64)>,
    first_byte: Option<(u64, u16)>,
    first_token_us: Option<u64>,
    failed: Option<(&'static str, bool)>,
}

/// What a request came to, for its span.
pub struct Whole<'a> {
    /// The request's id.
    pub id: &'a str,
    /// The policy's name.
    pub policy: &'a str,
    /// Its feature.
    pub feature: &'a str,
    /// Its class.
    pub class: Class,
    /// Who answered: the tier, the device, and whether it is nearer than was decided.
    pub answered: Option<(&'a Tier, &'a str, bool)>,
    /// Why.
    pub reasons: &'a [Reason],
    /// What became of it.
    pub outcome: Outcome,
    /// The same as metrics name it.
    pub outcome_name: &'static str,
    /// The status that the client got.
    pub status: Option<u16>,
    /// `error.type`.
    pub error: Option<&'static str>,
    /// Tokens in and out, and their price.
    pub used: Option<(u64, u64, u64)>,
}

impl Trace {
    /// Of a request that came at this moment. Without an exporter traces go nowhere, and the caller's is passed on as it is.
    pub fn begin(app: &App, operation: &'static str, headers: &HeaderMap, came: Instant) -> Self {
        let caller = spans::remote(headers);
        let Some(spans) = &app.spans else { return Self { context: caller, notes: None } };
        let (random, clock) = (&app.random, app.clock);
        let context = if caller.is_valid() {
            spans::child(&caller, random.word())
        } else {
            let trace = u128::from(random.word()) << 64 | u128::from(random.word());
            // Without a policy there is no share yet, and nothing but errors.
            let share = app.fleet.in_use().map_or(100, |used| used.snapshot.policy.trace_sample_percent);
            spans::root(trace, random.word(), Sampling::percent(share).keeps(trace))
        };
        let notes = Notes {
            spans: spans.clone(),
            random: Arc::clone(random),
            clock,
            caller,
            began_us: clock.us_of(came),
            operation,
            way: Mutex::default(),
        };
        Self { context, notes: Some(Arc::new(notes)) }
    }

    /// Writes the request's span into headers: where to look, and under what the next hop stands.
    pub fn inject(&self, headers: &mut HeaderMap) {
        spans::inject(&self.context, headers);
    }

    /// Writes it without the state that vendors gave the caller's trace: for who asked.
    pub fn answer(&self, headers: &mut HeaderMap) {
        spans::inject_parent(&self.context, headers);
    }

    /// The model that was asked for: one of the snapshot's, or `auto`.
    pub fn model(&self, model: &str) {
        self.note(|way, _| way.model = Some(model.to_owned()));
    }

    /// It is this call of its chain.
    pub fn hop(&self, number: u32) {
        self.note(|way, _| way.hop = Some(number));
    }

    /// It waited so long for room.
    pub fn queued(&self, us: u64) {
        self.note(|way, _| way.queue_us = Some(us));
    }

    /// It was sensed, from `from_us` until `to_us`.
    pub fn sensed(&self, from_us: u64, to_us: u64, signals: &Signals) {
        self.note(|way, _| {
            way.sensed = Some(Sensed {
                from_us,
                to_us,
                class_reasons: signals.class_reasons.clone(),
                prompt_tokens: signals.prompt_tokens,
            });
        });
    }

    /// It was decided, from `from_us` until now.
    pub fn decided(&self, from_us: u64, in_use: &Arc<InUse>, plan: &Plan) {
        self.note(|way, notes| {
            way.decided = Some(Decided {
                from_us,
                to_us: notes.clock.now_us(),
                in_use: Arc::clone(in_use),
                first: plan.attempts.first().map(|a| (a.tier.index, a.reasons.clone())),
                ruled_out: plan.ruled_out.iter().map(|r| (r.tier, r.reason)).collect(),
                scores: plan.scores.iter().map(|s| (s.tier, s.now)).collect(),
            });
        });
    }

    /// An attempt begins at a place.
    pub fn attempt(&self, place: &Place, now_us: u64) -> Attempted {
        let Some(notes) = &self.notes else { return Attempted { context: self.context.clone(), of: None } };
        let context = spans::child(&self.context, notes.random.word());
        let mut way = notes.way();
        way.attempts.push(Attempt {
            context: context.clone(),
            tier: Arc::clone(&place.tier),
            device: place.name().to_owned(),
            peer: place.peer(),
            began_us: now_us,
            ended_us: None,
            connected: None,
            first_byte: None,
            first_token_us: None,
            failed: None,
        });
        let of = Some((Arc::clone(notes), way.attempts.len() - 1));
        Attempted { context, of }
    }

    /// The request has ended. Exports its spans if the trace is kept, and then says its id: for exemplars.
    pub fn end(&self, whole: &Whole<'_>) -> Option<String> {
        let notes = self.notes.as_ref()?;
        let way = std::mem::take(&mut *notes.way());
        if !self.context.is_sampled() && !worth_keeping(whole, &way) {
            return None;
        }
        write::spans(self, notes, way, whole);
        Some(self.context.trace_id().to_string())
    }

    fn note(&self, what: impl FnOnce(&mut Way, &Notes)) {
        if let Some(notes) = &self.notes {
            what(&mut notes.way(), notes);
        }
    }
}

impl Notes {
    fn way(&self) -> MutexGuard<'_, Way> {
        self.way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A client's own mistake is no failure of this side.
fn is_failure(whole: &Whole<'_>) -> bool {
    whole.error.is_some() && whole.status.is_none_or(|status| !(400..500).contains(&status))
}

fn worth_keeping(whole: &Whole<'_>, way: &Way) -> bool {
    is_failure(whole)
        || matches!(whole.outcome, Outcome::Overflowed | Outcome::Escalated | Outcome::Degraded)
        || way.attempts.iter().any(|attempt| attempt.failed.is_some_and(|(_, fault)| fault))
}

/// One attempt of a request's trace; it ends when this is dropped.
pub struct Attempted {
    context: SpanContext,
    of: Option<(Arc<Notes>, usize)>,
}

impl Attempted {
    /// Writes the attempt's span into headers, for the tier.
    pub fn inject(&self, headers: &mut HeaderMap) {
        spans::inject(&self.context, headers);
    }

    /// A connection stands; this is how long it took.
    pub fn connected(&self, timing: Timing) {
        self.note(|attempt, clock| {
            let at = if timing.reused { attempt.began_us } else { clock.now_us() };
            attempt.connected = Some((timing, at));
        });
    }

    /// The head of the answer came, so long after the request was written.
    pub fn first_byte(&self, after_us: u64, status: u16) {
        self.note(|attempt, _| attempt.first_byte = Some((after_us, status)));
    }

    /// The first token came.
    pub fn first_token(&self, now_us: u64) {
        self.note(|attempt, _| attempt.first_token_us = Some(now_us));
    }

    /// It has ended, and this is when.
    pub fn ended(mut self, now_us: u64) {
        self.note(|attempt, _| attempt.ended_us = Some(now_us));
        self.of = None;
    }

    /// It failed.
    pub fn failed(&self, failure: &Failure) {
        self.note(|attempt, _| attempt.failed = Some((failure.kind(), failure.is_fault())));
    }

    fn note(&self, what: impl FnOnce(&mut Attempt, &Clock)) {
        if let Some((notes, index)) = &self.of {
            // None: the request has ended, and its notes were taken.
            if let Some(attempt) = notes.way().attempts.get_mut(*index) {
                what(attempt, &notes.clock);
            }
        }
    }
}

impl Drop for Attempted {
    fn drop(&mut self) {
        self.note(|attempt, clock| attempt.ended_us = Some(clock.now_us()));
    }
}
