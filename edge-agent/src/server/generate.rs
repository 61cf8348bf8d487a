//! One completion from its arrival to the last byte of its answer.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use bytes::{Bytes, BytesMut};
use futures::stream::{self, BoxStream, SelectAll, StreamExt as _};
use http::header;
use terrace_telemetry::time::now_s;
use terrace_wire::answer::Terrace;
use terrace_wire::hidden::Hidden;
use terrace_wire::sse;
use tokio::sync::mpsc;
use tracing::Instrument as _;

use super::access;
use super::answer::{Envelope, Tally};
use super::choice::Choice;
use super::error::ApiError;
use super::request::{self, Job, Wire, Wishes};
use super::watch::Watch;
use super::{Agent, body, status};
use crate::engine::{Event, Failure};

/// `POST /v1/chat/completions`.
pub(super) async fn chat(State(agent): State<Arc<Agent>>, request: Request) -> Response {
    answer(agent, Wire::Chat, request).await
}

/// `POST /v1/completions`.
pub(super) async fn completions(State(agent): State<Arc<Agent>>, request: Request) -> Response {
    answer(agent, Wire::Text, request).await
}

async fn answer(agent: Arc<Agent>, wire: Wire, request: Request) -> Response {
    let watch = Watch::begin(agent.clone(), wire.operation(), request.headers());
    let span = watch.span.clone();
    generate(agent, wire, request, watch).instrument(span).await
}

async fn generate(agent: Arc<Agent>, wire: Wire, request: Request, watch: Watch) -> Response {
    let (head, body) = request.into_parts();
    let read = async {
        let body = body::read(&head.headers, body).await?;
        let wishes = Wishes::read(&head.extensions, &head.headers, watch.arrived)?;
        request::job(&agent, wire, wishes, body).await
    };
    let mut job = match read.await {
        Ok(job) => job,
        Err(error) => return watch.refuse(error),
    };
    let cache = access::cache_domain(&head.extensions, &head.headers);
    job.prompts.iter_mut().for_each(|prompt| prompt.cache = cache.clone());
    let choices = Choice::all(wire, &job);
    let (id, events) = match submit(&agent, &mut job) {
        Ok(accepted) => accepted,
        Err(refused) => return watch.refuse(refused),
    };
    let created = now_s();
    let prefix = if wire == Wire::Chat { "chatcmpl" } else { "cmpl" };
    // Unique over restarts and devices as well as within one.
    let id = format!("{prefix}-{created:x}{:04x}{id:x}", std::process::id() & 0xFFFF);
    let envelope = Envelope { wire, id, created, model: agent.model.name.clone() };
    let tally = Tally::of(choices.len());
    let mut flow = Flow { events, watch, envelope, choices, tally, job, hidden: None, agent };

    // The head of the answer waits for the first token: until then a failure still gets its own status.
    let first = flow.next().await;
    if let (_, Event::Failed(failure)) = first {
        return flow.watch.refuse(flow.job.failed(failure));
    }
    if !flow.job.stream {
        return flow.whole(first).await;
    }
    let state = Some((flow, Some(first)));
    let events = stream::unfold(state, |state| async {
        let (mut flow, first) = state?;
        let event = match first {
            Some(first) => first,
            None => flow.next().await,
        };
        let (bytes, last) = flow.write(event);
        Some((Ok::<_, std::convert::Infallible>(bytes), (!last).then_some((flow, None))))
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
    (headers, Body::from_stream(events)).into_response()
}

type Events = SelectAll<BoxStream<'static, (usize, Event)>>;

/// Hands every prompt to the engine. If one is refused, those before it are cancelled: their receivers are dropped.
fn submit(agent: &Agent, job: &mut Job) -> Result<(u64, Events), ApiError> {
    let (mut first, mut events) = (None, SelectAll::new());
    for (prompt, request) in std::mem::take(&mut job.prompts).into_iter().enumerate() {
        let submitted = agent.engine.submit_choices(request, job.choices);
        let (id, receivers) = submitted.map_err(|refused| job.refused(prompt, refused))?;
        first.get_or_insert(id.0);
        for receiver in receivers {
            events.push(of_choice(events.len(), receiver));
        }
    }
    Ok((first.unwrap_or_default(), events))
}

/// The events of one choice. A channel that closes without a last one is an engine that ended.
fn of_choice(index: usize, receiver: mpsc::Receiver<Event>) -> BoxStream<'static, (usize, Event)> {
    let events = stream::unfold(Some(receiver), move |receiver| async move {
        let mut receiver = receiver?;
        let event = receiver.recv().await.unwrap_or(Event::Failed(Failure::Stopped));
        let last = matches!(event, Event::Done(_) | Event::Failed(_));
        Some(((index, event), (!last).then_some(receiver)))
    });
    events.boxed()
}

/// An answer on its way. Dropped before its end (the client went away), it drops the engine's events, which cancels.
struct Flow {
    events: Events,
    watch: Watch,
    envelope: Envelope,
    choices: Vec<Choice>,
    tally: Tally,
    job: Job,
    /// Hidden states that came, of those that a router asked for.
    hidden: Option<Hidden>,
    agent: Arc<Agent>,
}

impl Flow {
    /// The next event that is worth a word, and whose it is.
    async fn next(&mut self) -> (usize, Event) {
        loop {
            let (index, event) = self.events.next().await.unwrap_or((0, Event::Failed(Failure::Stopped)));
            match &event {
                Event::Started { queued } => self.watch.queued(*queued),
                Event::Hidden(states) => self.hidden = self.job.hidden.map(|asked| asked.write(states)),
                Event::Piece(_) => {
                    self.watch.token(index);
                    return (index, event);
                }
                Event::Done(done) => {
                    self.watch.choice(done);
                    return (index, event);
                }
                Event::Failed(_) => return (index, event),
            }
        }
    }

    async fn whole(mut self, first: (usize, Event)) -> Response {
        let mut told: Vec<_> = self.choices.drain(..).map(|choice| (Some(choice), None)).collect();
        let (mut index, mut event) = first;
        loop {
            let (choice, value) = &mut told[index];
            match event {
                Event::Started { .. } | Event::Hidden(_) => {}
                Event::Piece(piece) => {
                    if let Some(choice) = choice {
                        choice.hear(piece, self.agent.engine.tokenizer(), &self.envelope.id);
                    }
                }
                Event::Failed(failure) => return self.watch.refuse(self.job.failed(failure)),
                Event::Done(done) => {
                    if let Some(choice) = choice.take() {
                        let (whole, finish) = choice.whole(done.finish_reason, &self.envelope.id);
                        *value = Some(whole);
                        self.tally.add(&done, index.is_multiple_of(self.job.choices as usize), finish);
                    }
                }
            }
            if self.tally.left == 0 {
                break;
            }
            (index, event) = self.next().await;
        }
        self.answered();
        let terrace = self.terrace();
        let choices = told.into_iter().filter_map(|(_, value)| value).collect();
        status::json(&self.envelope.whole(choices, self.tally.usage(), terrace))
    }

    /// One event of the engine as events of the stream; whether they are the last.
    fn write(&mut self, (index, event): (usize, Event)) -> (Bytes, bool) {
        let mut out = BytesMut::new();
        match event {
            Event::Started { .. } | Event::Hidden(_) => {}
            Event::Piece(piece) => {
                let tokenizer = self.agent.engine.tokenizer();
                out.extend_from_slice(&self.choices[index].tell(piece, tokenizer, &self.envelope));
            }
            Event::Done(done) => {
                let (bytes, finish) = self.choices[index].end(done.finish_reason, &self.envelope);
                out.extend_from_slice(&bytes);
                self.tally.add(&done, index.is_multiple_of(self.job.choices as usize), finish);
                if self.tally.left == 0 {
                    self.close(&mut out);
                }
            }
            Event::Failed(failure) => {
                let error = self.watch.fail(self.job.failed(failure));
                self.choices.iter_mut().for_each(|choice| out.extend_from_slice(&choice.broke(&self.envelope)));
                out.extend_from_slice(&sse::json_event(&error.body));
                return (out.freeze(), true);
            }
        }
        (out.freeze(), self.tally.left == 0)
    }

    /// What follows the choices.
    fn close(&mut self, out: &mut BytesMut) {
        self.answered();
        if self.job.include_usage {
            out.extend_from_slice(&self.envelope.usage(self.tally.usage()));
        }
        if let Some(terrace) = self.terrace() {
            out.extend_from_slice(&self.envelope.terrace(terrace));
        }
        out.extend_from_slice(&sse::done_event());
    }

    /// What goes to a router beside the answer, if it asked for any of it.
    fn terrace(&mut self) -> Option<Terrace> {
        let Job { confidence, hidden, .. } = self.job;
        (confidence || hidden.is_some()).then(|| Terrace {
            confidence: self.tally.least_sure().filter(|_| confidence),
            cost: self.tally.cost(),
            hidden: self.hidden.take(),
            load: Some(self.agent.engine.load()),
        })
    }

    fn answered(&mut self) {
        self.watch.answered(self.tally.tokens(), &self.tally.finish_reasons);
    }
}
