//! One request from its arrival to the last byte of its answer.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use bytes::{Bytes, BytesMut};
use http::header;
use terrace_telemetry::names::attribute;
use terrace_telemetry::time::now_s;
use terrace_telemetry::traces;
use terrace_wire::sse;
use tokio::sync::mpsc;
use tracing::{Instrument as _, Span, field};

use super::access::{self, Role};
use super::answer::{self, Envelope};
use super::error::ApiError;
use super::meters::Outcome;
use super::request::{self, Job, Wire};
use super::{Agent, body, status};
use crate::engine::{Done, Event, Failure};

/// `POST /v1/chat/completions`.
pub(super) async fn chat(State(agent): State<Arc<Agent>>, request: Request) -> Response {
    answer(agent, Wire::Chat, request).await
}

/// `POST /v1/completions`.
pub(super) async fn completions(State(agent): State<Arc<Agent>>, request: Request) -> Response {
    answer(agent, Wire::Text, request).await
}

async fn answer(agent: Arc<Agent>, wire: Wire, request: Request) -> Response {
    let watch = Watch::begin(agent.clone(), wire, request.headers());
    let span = watch.span.clone();
    generate(agent, wire, request, watch).instrument(span).await
}

async fn generate(agent: Arc<Agent>, wire: Wire, request: Request, watch: Watch) -> Response {
    let (head, body) = request.into_parts();
    // Set by the guard; without it a request counts for nothing more than a local one.
    let role = head.extensions.get::<Role>().copied().unwrap_or(Role::Local);
    let read = async {
        let body = body::read(&head.headers, body).await?;
        request::job(&agent, wire, role, &head.headers, body, watch.arrived).await
    };
    let job = match read.await {
        Ok(job) => job,
        Err(error) => return watch.refuse(error),
    };
    let Job { stream, include_usage, logprobs, confidence, mut generate, .. } = job;
    generate.cache = access::cache_domain(&head.extensions, &head.headers);
    let (id, events) = match agent.engine.submit(generate) {
        Ok(accepted) => accepted,
        Err(refused) => return watch.refuse(refused.into()),
    };
    let created = now_s();
    let prefix = if wire == Wire::Chat { "chatcmpl" } else { "cmpl" };
    // Unique over restarts and devices as well as within one.
    let id = format!("{prefix}-{:x}{:04x}{:x}", created, std::process::id() & 0xFFFF, id.0);
    let envelope = Envelope { wire, id, created, model: agent.model.name.clone() };
    let mut flow = Flow { events, watch, envelope, include_usage, logprobs, confidence, agent };

    // The head of the answer waits for the first token: until then a failure still gets its own status.
    let first = flow.next().await;
    if let Event::Failed(failure) = first {
        return flow.watch.refuse(failure.into());
    }
    if !stream {
        return flow.whole(first).await;
    }
    let state = Some((flow, Some(first)));
    let events = futures::stream::unfold(state, |state| async {
        let (mut flow, first) = state?;
        let begin = first.is_some();
        let event = match first {
            Some(first) => first,
            None => flow.next().await,
        };
        let last = matches!(event, Event::Done(_) | Event::Failed(_));
        let bytes = flow.write(event, begin);
        Some((Ok::<_, std::convert::Infallible>(bytes), (!last).then_some((flow, None))))
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
    (headers, Body::from_stream(events)).into_response()
}

/// An answer on its way. Dropped before its end (the client went away), it drops the engine's events, which cancels.
struct Flow {
    events: mpsc::Receiver<Event>,
    watch: Watch,
    envelope: Envelope,
    include_usage: bool,
    logprobs: Option<u8>,
    confidence: bool,
    agent: Arc<Agent>,
}

impl Flow {
    /// The next event that is worth a word. A channel that closes without one is an engine that ended.
    async fn next(&mut self) -> Event {
        loop {
            let event = self.events.recv().await.unwrap_or(Event::Failed(Failure::Stopped));
            match &event {
                Event::Started { queued } => {
                    self.watch.span.record(attribute::QUEUE_US, queued.as_micros() as i64);
                    continue;
                }
                // Nobody asks for it here.
                Event::Hidden(_) => continue,
                Event::Piece(_) => self.watch.token(),
                Event::Done(done) => self.watch.done(done),
                Event::Failed(_) => {}
            }
            return event;
        }
    }

    async fn whole(mut self, first: Event) -> Response {
        let (mut text, mut tokens) = (String::new(), Vec::new());
        let mut event = first;
        loop {
            match event {
                Event::Started { .. } | Event::Hidden(_) => {}
                Event::Piece(piece) => {
                    if self.logprobs.is_some() {
                        tokens.extend(answer::logprobs(self.agent.engine.tokenizer(), &piece));
                    }
                    text.push_str(&piece.text);
                }
                Event::Failed(failure) => return self.watch.refuse(failure.into()),
                Event::Done(done) => {
                    let usage = answer::usage(&done);
                    let terrace = self.confidence.then(|| answer::terrace(&done, self.agent.engine.load()));
                    let logprobs = self.logprobs.map(|_| tokens);
                    let finish = done.finish_reason.as_str();
                    return status::json(&self.envelope.whole(text, finish, usage, logprobs, terrace));
                }
            }
            event = self.next().await;
        }
    }

    /// One event of the engine as events of the stream.
    fn write(&mut self, event: Event, begin: bool) -> Bytes {
        let mut out = BytesMut::new();
        if begin {
            out.extend(self.envelope.begin());
        }
        match event {
            Event::Started { .. } | Event::Hidden(_) => {}
            Event::Piece(piece) => {
                let logprobs = self.logprobs.map(|_| answer::logprobs(self.agent.engine.tokenizer(), &piece));
                if !piece.text.is_empty() || logprobs.is_some() {
                    out.extend_from_slice(&self.envelope.piece(piece.text, logprobs));
                }
            }
            Event::Done(done) => {
                out.extend_from_slice(&self.envelope.end(done.finish_reason.as_str()));
                if self.include_usage {
                    out.extend_from_slice(&self.envelope.usage(answer::usage(&done)));
                }
                if self.confidence {
                    let terrace = answer::terrace(&done, self.agent.engine.load());
                    out.extend_from_slice(&self.envelope.terrace(terrace));
                }
                out.extend_from_slice(&sse::done_event());
            }
            Event::Failed(failure) => {
                let error = self.watch.fail(failure.into());
                self.envelope.failed(&error.body).iter().for_each(|event| out.extend_from_slice(event));
            }
        }
        out.freeze()
    }
}

/// The span and the metrics of one request; one that nobody ended was cancelled.
struct Watch {
    span: Span,
    arrived: Instant,
    agent: Arc<Agent>,
    first_token: bool,
    outcome: Outcome,
}

impl Watch {
    fn begin(agent: Arc<Agent>, wire: Wire, headers: &http::HeaderMap) -> Self {
        let (operation, model) = (if wire == Wire::Chat { "chat" } else { "text_completion" }, &agent.model.name);
        let span = tracing::info_span!(
            "chat",
            otel.name = format!("{operation} {model}"),
            otel.kind = "server",
            otel.status_code = field::Empty,
            gen_ai.operation.name = operation,
            gen_ai.request.model = model,
            gen_ai.response.finish_reasons = field::Empty,
            gen_ai.usage.input_tokens = field::Empty,
            gen_ai.usage.output_tokens = field::Empty,
            terrace.queue_us = field::Empty,
            http.response.status_code = field::Empty,
            "error.type" = field::Empty,
        );
        traces::set_parent(&span, headers);
        Self { span, arrived: Instant::now(), agent, first_token: false, outcome: Outcome::Cancelled }
    }

    fn token(&mut self) {
        if !std::mem::replace(&mut self.first_token, true) {
            self.agent.meters.first_token(self.arrived.elapsed());
        }
    }

    fn done(&mut self, done: &Done) {
        self.outcome = Outcome::Answered;
        self.agent.meters.answered(done);
        self.span.record(attribute::INPUT_TOKENS, i64::from(done.usage.prompt));
        self.span.record(attribute::OUTPUT_TOKENS, i64::from(done.usage.completion));
        self.span.record(attribute::FINISH_REASONS, done.finish_reason.as_str());
        self.span.record(attribute::STATUS_CODE, 200);
    }

    /// Ends it with an error.
    fn fail(&mut self, error: ApiError) -> ApiError {
        self.outcome = match error.code.status() {
            429 | 503 => Outcome::Refused,
            400..500 => Outcome::Invalid,
            _ => Outcome::Failed,
        };
        self.span.record(attribute::STATUS_CODE, i64::from(error.code.status()));
        self.span.record(attribute::ERROR_TYPE, error.code.as_str());
        if error.code.status() >= 500 {
            self.span.record("otel.status_code", "ERROR");
        }
        error
    }

    fn refuse(mut self, error: ApiError) -> Response {
        self.fail(error).into_response()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.agent.meters.ended(self.outcome);
        if self.outcome == Outcome::Cancelled {
            self.span.record(attribute::ERROR_TYPE, "client_gone");
        }
        // A stream outlives the handler that the span was entered for.
        traces::end_now(&self.span);
        tracing::debug!(
            parent: &self.span, outcome = self.outcome.as_str(), total_ms = self.arrived.elapsed().as_millis() as u64, "ended"
        );
    }
}
