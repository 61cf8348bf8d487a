//! One request from its arrival to the last byte of its answer.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use bytes::{Bytes, BytesMut};
use http::header;
use terrace_telemetry::time::now_s;
use terrace_wire::chat::Terrace;
use terrace_wire::hidden::Hidden;
use terrace_wire::sse;
use tokio::sync::mpsc;
use tracing::Instrument as _;

use super::access::{self, Role};
use super::answer::{self, Envelope};
use super::hidden;
use super::request::{self, Job, Wire};
use super::watch::Watch;
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
    let Job { stream, include_usage, logprobs, confidence, hidden: asked, mut generate } = job;
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
    let hidden = None;
    let mut flow = Flow { events, watch, envelope, include_usage, logprobs, confidence, asked, hidden, agent };

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
    /// Hidden states that a router asked for, and those that came.
    asked: Option<hidden::Asked>,
    hidden: Option<Hidden>,
    agent: Arc<Agent>,
}

impl Flow {
    /// The next event that is worth a word. A channel that closes without one is an engine that ended.
    async fn next(&mut self) -> Event {
        loop {
            let event = self.events.recv().await.unwrap_or(Event::Failed(Failure::Stopped));
            match &event {
                Event::Started { queued } => {
                    self.watch.queued(*queued);
                    continue;
                }
                Event::Hidden(states) => {
                    self.hidden = self.asked.map(|asked| asked.write(states));
                    continue;
                }
                Event::Piece(_) => self.watch.token(),
                Event::Done(done) => {
                    self.watch.choice(done);
                    self.watch.answered(done.usage, &[done.finish_reason.as_str()]);
                }
                Event::Failed(_) => {}
            }
            return event;
        }
    }

    /// What goes to a router beside the answer, if it asked for any of it.
    fn terrace(&mut self, done: &Done) -> Option<Terrace> {
        (self.confidence || self.asked.is_some()).then(|| Terrace {
            confidence: done.confidence.filter(|_| self.confidence),
            cost: Some(done.timings.cost(done.usage)),
            hidden: self.hidden.take(),
            load: Some(self.agent.engine.load()),
        })
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
                    let terrace = self.terrace(&done);
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
                if let Some(terrace) = self.terrace(&done) {
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
