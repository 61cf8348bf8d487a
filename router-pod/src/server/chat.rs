//! One completion, from its headers to its answer: admit, read, sense, decide, dispatch, answer.

use std::sync::Arc;

use axum::body::Body;
use http::{HeaderMap, Request, Response, StatusCode};
use serde_json::Value;
use terrace_contract::names::OTHER;
use terrace_contract::reason;
use terrace_contract::report::Outcome;
use terrace_decide::explain::explain;
use terrace_decide::plan;
use terrace_decide::track::Dispatch;
use terrace_telemetry::traces;
use terrace_wire::error::Code;
use tokio::time::Instant;
use tracing::{Instrument as _, Span, field};

use super::admit::{self, Caller};
use super::answer::Back;
use super::language::{Api, Asked};
use super::rate::Permit;
use super::writer::Writer;
use super::{ask, stream};
use crate::app::App;
use crate::clock::micros;
use crate::dispatch::attempt::{Answer, Begun};
use crate::dispatch::body::Call;
use crate::dispatch::rebuild::{self, Tokens};
use crate::dispatch::{self, Carried};
use crate::fleet::InUse;
use crate::job::Job;
use crate::record::Record;
use crate::refusal::{Refusal, Tried};
use crate::sense::{self, Sensed, tokens};

/// What cannot happen: an answer of the other kind than was asked for.
const LOST: &str = "the answer was lost: send the request again";

/// Serves one completion.
pub async fn serve(app: Arc<App>, api: Api, request: Request<Body>) -> Response<Body> {
    let id = app.random.id();
    let span = server_span(&app, api.call(), &id);
    traces::set_parent(&span, request.headers());
    let back = Back::new(&id, &span).speaking(api);
    let mut record = Record::new(Arc::clone(&app), span.clone());
    let entered = span.clone();
    let answered = async {
        let admitted = match admit(&app, api, id, &mut record, request).await {
            Ok(admitted) => admitted,
            Err(refusal) => return refused(refusal, back, record),
        };
        let (job, permit) = admitted;
        match carry(&app, &job, &mut record).await {
            Ok(carried) => answer(&app, &job, carried, back, record, permit),
            Err(refusal) => refused(refusal, back, record),
        }
    };
    let response = Box::pin(answered.instrument(entered)).await;
    span.record("http.response.status_code", i64::from(response.status().as_u16()));
    response
}

/// The snapshot in use.
///
/// # Errors
/// 503 `no_policy`.
pub fn in_use(app: &App) -> Result<Arc<InUse>, Refusal> {
    app.fleet.in_use().ok_or_else(|| {
        Refusal::new(Code::NoPolicy, "this router has no policy yet: it waits for the operator's snapshot")
            .after(1_000_000)
    })
}

fn server_span(app: &App, call: Call, id: &str) -> Span {
    let policy = app.fleet.in_use().map(|used| used.snapshot.policy.name.clone()).unwrap_or_default();
    tracing::info_span!(
        target: "terrace_router",
        "request",
        otel.kind = "server",
        gen_ai.operation.name = call.operation(),
        gen_ai.request.model = field::Empty,
        gen_ai.response.model = field::Empty,
        gen_ai.usage.input_tokens = field::Empty,
        gen_ai.usage.output_tokens = field::Empty,
        http.response.status_code = field::Empty,
        error.type = field::Empty,
        otel.status_code = field::Empty,
        terrace.request_id = id,
        terrace.policy = policy,
        terrace.feature = field::Empty,
        terrace.class = field::Empty,
        terrace.tier = field::Empty,
        terrace.device = field::Empty,
        terrace.boundary = field::Empty,
        terrace.reasons = field::Empty,
        terrace.outcome = field::Empty,
        terrace.degraded = field::Empty,
        terrace.cost_micros = field::Empty,
    )
}

/// Everything up to the point where a decision can be made.
async fn admit(
    app: &Arc<App>,
    api: Api,
    id: String,
    record: &mut Record,
    request: Request<Body>,
) -> Result<(Job, Permit), Refusal> {
    let (span, call) = (record.span.clone(), api.call());
    traces::rename(&span, format!("{} {OTHER}", call.operation()));
    let used = in_use(app)?;
    let (head, body) = request.into_parts();
    let caller = admit::caller(app, &used.snapshot, &head.headers)?;
    record.called_by(&caller.name);
    let via = admit::via(&used.snapshot, &head.headers)?;
    let permit = admit::place(app, &used.snapshot)?;
    admit::body(&head.headers)?;
    let asked = ask::parse(&used, &head.headers, body, api).await?;
    let model = ask::model(&used.snapshot, &caller, &asked)?;
    traces::rename(&span, format!("{} {model}", call.operation()));
    span.record("gen_ai.request.model", model.as_str());

    app.earn_retry();
    app.fleet.overflow().request(app.clock.now_us());
    let sensed = sense(app, &used, &head.headers, &asked, &caller, record)?;
    let Sensed { classified, signals, budget, cache_domain, prefix } = sensed;
    let Asked { call, request, language } = asked;
    let (in_use, started) = (used, record.started());
    let job = Job {
        id,
        call,
        request,
        language,
        classified,
        signals,
        budget,
        cache_domain,
        prefix,
        in_use,
        started,
        via,
        span,
    };
    Ok((job, permit))
}

fn sense(
    app: &App,
    used: &InUse,
    given: &HeaderMap,
    asked: &Asked,
    caller: &Caller,
    record: &mut Record,
) -> Result<Sensed, Refusal> {
    let span = tracing::info_span!(
        target: "terrace_router",
        "sense",
        terrace.class = field::Empty,
        terrace.feature = field::Empty,
        terrace.reasons = field::Empty,
        terrace.tokens = field::Empty,
    );
    let _entered = span.enter();
    let begun = Instant::now();
    let sensed = sense::sense(app, used, given, asked, caller, record.started())?;
    let signals = &sensed.signals;
    span.record("terrace.class", signals.class.as_str()).record("terrace.feature", signals.feature.as_str());
    span.record("terrace.reasons", reason::join(&signals.class_reasons))
        .record("terrace.tokens", i64::from(signals.prompt_tokens));
    record.sensed(signals, sensed.classified.forced(), sensed.budget.as_ref());
    app.metrics.deciding.observe(begun.elapsed().as_secs_f64());
    Ok(sensed)
}

/// Decides and carries out.
async fn carry(app: &App, job: &Job, record: &mut Record) -> Result<Carried, Refusal> {
    let span = tracing::info_span!(
        target: "terrace_router",
        "decide",
        terrace.tier = field::Empty,
        terrace.reasons = field::Empty,
        terrace.ruled_out = field::Empty,
        terrace.scores = field::Empty,
    );
    let (plan, first) = span.in_scope(|| {
        let now = app.clock.now_us();
        let (policy, draw) = (&job.in_use.snapshot.policy, app.random.draw());
        let request = Dispatch::of(&job.signals, Arc::clone(&job.prefix), now);
        let spent = app.ledger.spent_today(now);
        app.fleet.plan(&job.in_use, spent, request, now, |view| {
            let plan = terrace_decide::decide(&job.signals, view, policy, draw);
            record.decided(&job.id, &job.in_use.snapshot, now, || explain(&job.signals, view, policy, &plan));
            plan
        })
    });
    note(&span, job, &plan);
    drop(span);
    if let plan::Outcome::Refuse(refusal) = plan.outcome {
        let ruled_out = plan.ruled_out.iter().filter(|r| r.device.is_none()).map(|r| r.reason);
        let class = job.signals.class_reasons.iter().copied();
        return Err(Refusal::from(refusal).because(ruled_out).because(class));
    }
    let carried = dispatch::carry(app, job, &plan, first).await.map_err(|refusal| {
        let class = job.signals.class_reasons.iter().copied();
        refusal.because(class)
    })?;
    let begun = &carried.begun;
    let timing = begun.connection.timing;
    let transport = timing.dns_us + timing.connect_us + timing.tls_us;
    record.answering(&begun.place.tier, &carried.reasons, transport, begun.first_token_at);
    let span = &record.span;
    span.record("terrace.tier", begun.place.tier.name.as_str()).record("terrace.device", begun.place.name());
    span.record("terrace.boundary", begun.place.tier.boundary.as_str()).record("terrace.degraded", carried.degraded);
    span.record("gen_ai.response.model", begun.place.tier.backend.model());
    Ok(carried)
}

/// What was decided and why, for the span: names of tiers and reason codes only.
fn note(span: &Span, job: &Job, plan: &plan::Plan) {
    if span.is_disabled() {
        return;
    }
    let name = |tier: usize| job.in_use.tiers.get(tier).map_or("", |t| t.name.as_str());
    let ruled_out: Vec<String> = plan.ruled_out.iter().map(|r| format!("{}:{}", name(r.tier), r.reason)).collect();
    let scores: Vec<String> = plan.scores.iter().map(|s| format!("{}:{:.3}", name(s.tier), s.now)).collect();
    span.record("terrace.ruled_out", ruled_out.join(",")).record("terrace.scores", scores.join(","));
    if let Some(attempt) = plan.attempts.first() {
        span.record("terrace.tier", attempt.tier.name.as_str());
        span.record("terrace.reasons", reason::join(&attempt.reasons));
    }
}

fn refused(refusal: Refusal, back: Back, mut record: Record) -> Response<Body> {
    record.refused(&refusal);
    back.refusal(&refusal)
}

fn answer(
    app: &Arc<App>,
    job: &Job,
    carried: Carried,
    mut back: Back,
    mut record: Record,
    permit: Permit,
) -> Response<Body> {
    let Carried { begun, reasons, degraded, overflowed } = carried;
    let outcome = match (degraded, overflowed) {
        (true, _) => Outcome::Degraded,
        (false, true) => Outcome::Overflowed,
        (false, false) => Outcome::Served,
    };
    let tier = &begun.place.tier;
    back.place(&Tried {
        tier: tier.name.clone(),
        device: begun.place.name().to_owned(),
        boundary: tier.boundary.as_str(),
    });
    back.reasons(&reasons);
    back.quality(degraded);
    let prompt_tokens = u64::from(job.signals.prompt_tokens);
    if matches!(begun.answer, Answer::Stream { .. }) {
        let writer = Writer::new(&job.language, &begun.names, job.wants_usage(), prompt_tokens);
        return match stream::body(Arc::clone(app), record, outcome, begun, (writer, prompt_tokens), permit) {
            Some(body) => back.events(body),
            None => back.refusal(&Refusal::new(Code::Internal, LOST)),
        };
    }
    if let Answer::Whole { said, .. } = &begun.answer {
        record.took(said);
    }
    match whole(begun, prompt_tokens, app.clock.now_us()) {
        Some((value, tokens)) => {
            let cost = record.answered(outcome, tokens);
            let Some(told) = job.language.whole(value, &job.id) else {
                let text = "the tier called a tool with arguments that are no JSON object: ask again";
                return refused(Refusal::new(Code::UpstreamFailed, text), back, record);
            };
            back.cost(cost);
            back.json(StatusCode::OK, told.to_string())
        }
        None => back.refusal(&Refusal::new(Code::Internal, LOST)),
    }
}

/// A whole answer as the client gets it, and what it used.
fn whole(begun: Begun, prompt_tokens: u64, now_us: u64) -> Option<(Value, Tokens)> {
    let Begun { mut place, connection, names, answer, first_token_at, .. } = begun;
    let Answer::Whole { said, answer: mut whole } = answer else { return None };
    let counted = || {
        let choices = said.get("choices").and_then(Value::as_array);
        let text = choices.into_iter().flatten().flat_map(rebuild::text_of).map(tokens::of_text).sum();
        Tokens { input: prompt_tokens, output: text, cached: 0 }
    };
    let usage = said.get("usage");
    let read = if names.call == Call::Embedding { Tokens::of_vectors(usage) } else { Tokens::read(usage) };
    let tokens = read.unwrap_or_else(counted);
    whole["usage"] = tokens.to_value(names.call);
    place.rest(0, tokens.input + tokens.output, micros(first_token_at.elapsed()), now_us);
    connection.finished();
    Some((whole, tokens))
}
