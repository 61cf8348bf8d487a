//! A request's notes as spans: every name and attribute that the router exports.

use terrace_contract::names::OTHER;
use terrace_contract::reason;
use terrace_telemetry::names::{attribute, event, span};
use terrace_telemetry::spans::{self, Ended, KeyValue, SpanContext, SpanKind};

use super::{Attempt, Decided, Notes, Sensed, Trace, Way, Whole, is_failure};
use crate::clock::figure;
use crate::dispatch::connection::Timing;
use crate::dispatch::failure::Failure;

/// Exports the request's span and those below it.
pub(super) fn spans(trace: &Trace, notes: &Notes, way: Way, whole: &Whole<'_>) {
    let now = notes.clock.now_us();
    let below = |name: &'static str, from: u64, to: u64, attributes: Vec<KeyValue>| Ended {
        name: name.into(),
        kind: SpanKind::Internal,
        context: spans::child(&trace.context, notes.random.word()),
        parent: trace.context.clone(),
        start_us: from,
        end_us: to,
        attributes,
        events: Vec::new(),
        failed: false,
    };
    if let Some(sensed) = &way.sensed {
        notes.spans.send(below(span::SENSE, sensed.from_us, sensed.to_us, of_sensed(sensed, whole)));
    }
    if let Some(decided) = &way.decided {
        notes.spans.send(below(span::DECIDE, decided.from_us, decided.to_us, of_decided(decided)));
    }
    for (index, attempt) in way.attempts.into_iter().enumerate() {
        notes.spans.send(of_attempt(attempt, index, trace.context.clone(), now));
    }
    let model = way.model.as_deref();
    let mut attributes = of_whole(notes.operation, model, whole);
    attributes.extend(way.hop.map(|hop| number(attribute::HOP, hop.into())));
    attributes.extend(way.queue_us.map(|us| number(attribute::QUEUE_US, us)));
    notes.spans.send(Ended {
        name: format!("{} {}", notes.operation, model.unwrap_or(OTHER)).into(),
        kind: SpanKind::Server,
        context: trace.context.clone(),
        parent: notes.caller.clone(),
        start_us: notes.began_us,
        end_us: now,
        attributes,
        events: Vec::new(),
        failed: is_failure(whole),
    });
}

fn text(key: &'static str, value: impl Into<String>) -> KeyValue {
    KeyValue::new(key, value.into())
}

fn number(key: &'static str, value: u64) -> KeyValue {
    KeyValue::new(key, figure(value))
}

fn of_sensed(sensed: &Sensed, whole: &Whole<'_>) -> Vec<KeyValue> {
    vec![
        KeyValue::new(attribute::CLASS, whole.class.as_str()),
        text(attribute::FEATURE, whole.feature),
        text(attribute::REASONS, reason::join(&sensed.class_reasons)),
        number(attribute::TOKENS, sensed.prompt_tokens.into()),
    ]
}

/// Names of tiers and reason codes only.
fn of_decided(decided: &Decided) -> Vec<KeyValue> {
    let name = |tier: usize| decided.in_use.tiers.get(tier).map_or("", |t| t.name.as_str());
    let ruled_out: Vec<String> = decided.ruled_out.iter().map(|(tier, why)| format!("{}:{why}", name(*tier))).collect();
    let scores: Vec<String> =
        decided.scores.iter().map(|(tier, score)| format!("{}:{score:.3}", name(*tier))).collect();
    let mut attributes =
        vec![text(attribute::RULED_OUT, ruled_out.join(",")), text(attribute::SCORES, scores.join(","))];
    if let Some((tier, reasons)) = &decided.first {
        attributes.push(text(attribute::TIER, name(*tier)));
        attributes.push(text(attribute::REASONS, reason::join(reasons)));
    }
    attributes
}

fn of_attempt(attempt: Attempt, index: usize, parent: SpanContext, now: u64) -> Ended {
    let (address, port) = attempt.peer.address();
    let mut attributes = vec![
        text(attribute::TIER, attempt.tier.name.as_str()),
        text(attribute::DEVICE, attempt.device),
        KeyValue::new(attribute::BOUNDARY, attempt.tier.boundary.as_str()),
        number(attribute::ATTEMPT, index as u64 + 1),
        text(attribute::SERVER_ADDRESS, address),
        number(attribute::SERVER_PORT, port.into()),
    ];
    let mut events = Vec::new();
    if let Some((timing, at)) = attempt.connected {
        let Timing { dns_us, connect_us, tls_us, .. } = timing;
        let taken = [(attribute::DNS_US, dns_us), (attribute::CONNECT_US, connect_us), (attribute::TLS_US, tls_us)];
        attributes.extend(taken.map(|(key, us)| number(key, us)));
        events.push((event::CONNECTED, at));
    }
    if let Some((after_us, status)) = attempt.first_byte {
        attributes.push(number(attribute::TTFB_US, after_us));
        attributes.push(number(attribute::STATUS_CODE, status.into()));
    }
    events.extend(attempt.first_token_us.map(|at| (event::FIRST_TOKEN, at)));
    attributes.extend(attempt.failed.map(|(kind, _)| KeyValue::new(attribute::ERROR_TYPE, kind)));
    Ended {
        name: span::ATTEMPT.into(),
        kind: SpanKind::Client,
        context: attempt.context,
        parent,
        start_us: attempt.began_us,
        end_us: attempt.ended_us.unwrap_or(now),
        attributes,
        events,
        // One that another was quicker than did nothing wrong.
        failed: attempt.failed.is_some_and(|(kind, _)| kind != Failure::Outrun.kind()),
    }
}

fn of_whole(operation: &'static str, model: Option<&str>, whole: &Whole<'_>) -> Vec<KeyValue> {
    let mut attributes = vec![
        KeyValue::new(attribute::OPERATION, operation),
        text(attribute::REQUEST_ID, whole.id),
        text(attribute::POLICY, whole.policy),
        text(attribute::FEATURE, whole.feature),
        KeyValue::new(attribute::CLASS, whole.class.as_str()),
        text(attribute::REASONS, reason::join(whole.reasons)),
        KeyValue::new(attribute::OUTCOME, whole.outcome_name),
    ];
    attributes.extend(model.map(|model| text(attribute::REQUEST_MODEL, model)));
    if let Some((tier, device, degraded)) = whole.answered {
        attributes.extend([
            text(attribute::RESPONSE_MODEL, tier.backend.model()),
            text(attribute::TIER, tier.name.as_str()),
            text(attribute::DEVICE, device),
            KeyValue::new(attribute::BOUNDARY, tier.boundary.as_str()),
            KeyValue::new(attribute::DEGRADED, degraded),
        ]);
    }
    if let Some((input, output, cost)) = whole.used {
        attributes.extend([
            number(attribute::INPUT_TOKENS, input),
            number(attribute::OUTPUT_TOKENS, output),
            number(attribute::COST_MICROS, cost),
        ]);
    }
    attributes.extend(whole.status.map(|status| number(attribute::STATUS_CODE, status.into())));
    attributes.extend(whole.error.map(|error| KeyValue::new(attribute::ERROR_TYPE, error)));
    attributes
}
