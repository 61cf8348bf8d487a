//! One completion, from its headers to its answer: admit, read, sense, decide, dispatch, answer.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::{HeaderMap, Request, Response, StatusCode};
use terrace_contract::reason::Reason;
use terrace_contract::report::Outcome;
use terrace_wire::error::Code;
use tokio::time::Instant;

use super::admit::{self, Caller};
use super::answer::Back;
use super::language::{Api, Asked};
use super::rate::Permit;
use super::stream::Terms;
use super::writer::Writer;
use super::{ask, stream, wait};
use crate::app::App;
use crate::clock::micros;
use crate::dispatch::attempt::{Answer, Begun};
use crate::dispatch::body::Call;
use crate::dispatch::rebuild::{Content, Names, Tokens};
use crate::dispatch::usage::Most;
use crate::dispatch::{self, Carried};
use crate::fleet::InUse;
use crate::job::Job;
use crate::record::Record;
use crate::refusal::{Refusal, Tried};
use crate::sense::{self, Sensed};
use crate::trace::Trace;

/// What cannot happen: an answer of the other kind than was asked for.
const LOST: &str = "the answer was lost: send the request again";

/// How often a plan is carried out whose tiers are all full when they are asked.
const ROUNDS: u32 = 4;

/// Serves one completion.
pub async fn serve(app: Arc<App>, api: Api, request: Request<Body>) -> Response<Body> {
    let (id, started) = (app.random.id(), Instant::now());
    let trace = Trace::begin(&app, api.call().operation(), request.headers(), started);
    let mut back = Back::new(&id, &trace).speaking(api);
    let mut record = Record::new(Arc::clone(&app), &id, trace, started);
    let admitted = match admit(&app, api, id, &mut record, request).await {
        Ok(admitted) => admitted,
        Err(refusal) => return refused(refusal, back, record),
    };
    let (mut job, permit) = admitted;
    match Box::pin(carry(&app, &mut job, &mut record)).await {
        Ok(carried) => answer(&app, &job, carried, back, record, permit),
        Err(refusal) => {
            // With its record goes what its chain counted of it: it has not gone on. Its class travels all the same, and
            // what is known here of its chain, or else a chain that is spent would begin anew at the next replica.
            record.refused(&refusal);
            drop(record);
            let token = job.session.as_ref().and_then(|session| app.token(session));
            token.iter().for_each(|token| back.session(token));
            back.refusal(&refusal)
        }
    }
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

/// Everything up to the point where a decision can be made.
async fn admit(
    app: &Arc<App>,
    api: Api,
    id: String,
    record: &mut Record,
    request: Request<Body>,
) -> Result<(Job, Permit), Refusal> {
    let used = in_use(app)?;
    let (head, body) = request.into_parts();
    let caller = admit::caller(app, &used.snapshot, &head.headers)?;
    record.called_by(&caller.name);
    let via = admit::via(&used.snapshot, &head.headers)?;
    let (tree, permit) = ask::arrived(app, &used, &caller, &head.headers, body).await?;
    let asked = ask::read(api, tree)?;
    let model = ask::model(&used.snapshot, &caller, &asked)?;
    record.trace.model(&model);

    app.earn_retry();
    app.fleet.overflow().request(app.clock.now_us());
    let sensed = sense(app, &used, &head.headers, &asked, &caller, record)?;
    record.taken = admit::tokens(app, &used.snapshot, &caller, &sensed.signals)?;
    let Sensed { classified, signals, budget, cache_domain, prefix, session } = sensed;
    let Asked { call, request, language } = asked;
    let (in_use, started, trace) = (used, record.started(), record.trace.clone());
    let chain_left = signals.hop.map(|hop| started.elapsed() + Duration::from_micros(hop.left_us));
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
        session,
        chain_left,
        in_use,
        started,
        via,
        trace,
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
    let begun = Instant::now();
    let sensed = sense::sense(app, used, given, asked, caller, (record.started(), begun))?;
    let (signals, ended) = (&sensed.signals, Instant::now());
    record.trace.sensed(app.clock.us_of(begun), app.clock.us_of(ended), signals);
    record.sensed(signals, sensed.classified.forced(), sensed.budget.as_ref());
    if let (Some(hop), Some(session)) = (signals.hop, &sensed.session) {
        record.trace.hop(hop.number);
        record.call_of(session.chain.as_ref().filter(|_| hop.spent().is_none()));
    }
    app.metrics.deciding.observe(ended.duration_since(begun).as_secs_f64());
    Ok(sensed)
}

/// Decides and carries out; a tier that turned out to be full when it was asked is decided on anew, and waited for.
async fn carry(app: &App, job: &mut Job, record: &mut Record) -> Result<Carried, Refusal> {
    let (mut tries, mut queued, mut rounds) = (0, false, 1);
    let mut carried = loop {
        let decided = wait::decided(app, job, record).await?;
        queued |= decided.queued;
        record.asking(true);
        let carried = dispatch::carry(app, job, &decided.plan, decided.first, &mut tries).await;
        record.asking(false);
        match carried {
            Ok(carried) => break carried,
            Err(ended) if ended.full && rounds < ROUNDS => rounds += 1,
            Err(ended) => return Err(ended.refusal.because(job.signals.class_reasons.iter().copied())),
        }
    };
    if queued {
        carried.reasons.push(Reason::Queued);
    }
    let begun = &carried.begun;
    let timing = begun.connection.timing;
    let transport = timing.dns_us + timing.connect_us + timing.tls_us;
    record.answering(&begun.place, carried.degraded, &carried.reasons, transport, begun.first_token_at);
    Ok(carried)
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
    if let Some(token) = job.session.as_ref().and_then(|session| app.token(session)) {
        back.session(&token);
    }
    let (prompt_tokens, most) = (u64::from(job.signals.prompt_tokens), Most::of(job, &begun.place.tier));
    if matches!(begun.answer, Answer::Stream { .. }) {
        let writer = Writer::new(&job.language, &begun.names, job.wants_usage(), prompt_tokens);
        let terms = Terms { prompt_tokens, most, ends: job.ends() };
        return match stream::body(Arc::clone(app), record, outcome, begun, (writer, terms), permit) {
            Some(body) => back.events(body),
            None => back.refusal(&Refusal::new(Code::Internal, LOST)),
        };
    }
    if let Answer::Whole { terrace, .. } = &begun.answer {
        record.took(terrace.as_ref());
    }
    match whole(app, begun, (prompt_tokens, most)) {
        Some((names, content, tokens)) => {
            let cost = record.answered(outcome, tokens);
            let Some(told) = job.language.whole(&names.answer(&content, tokens), &job.id) else {
                let text = "the tier called a tool with arguments that are no JSON object: ask again";
                return refused(Refusal::new(Code::UpstreamFailed, text), back, record);
            };
            back.cost(cost);
            back.json(StatusCode::OK, told)
        }
        None => back.refusal(&Refusal::new(Code::Internal, LOST)),
    }
}

/// A whole answer, whose it is, and what it used.
fn whole(app: &App, begun: Begun, (prompt_tokens, most): (u64, Most)) -> Option<(Names, Content, Tokens)> {
    let Begun { mut place, connection, names, answer, first_token_at, trace } = begun;
    let Answer::Whole { content, usage, .. } = answer else { return None };
    let usage = usage.as_ref();
    let read = if names.call == Call::Embedding { Tokens::of_vectors(usage) } else { Tokens::read(usage) };
    let tokens = most.believe(read, Tokens { input: prompt_tokens, output: content.tokens(), cached: 0 });
    let ended = Instant::now();
    let us = micros(ended.duration_since(first_token_at));
    place.rest(0, tokens.input + tokens.output, us, app.clock.us_of(ended));
    trace.ended(app.clock.us_of(ended));
    connection.finished(ended);
    Some((names, content, tokens))
}
