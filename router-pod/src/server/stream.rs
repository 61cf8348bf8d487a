//! A streamed answer on its way to the client, event by event, each built new.
//!
//! The body of the response owns everything of the request: when the client goes, the body is dropped, and with it the
//! upstream request, the device's count and the permit; what came until then is charged. A client that reads nothing has
//! gone too ([`super::unread`]). A stream that has begun never switches tier: if it breaks it
//! says so with `finish_reason: "error"` and an error event, and ends without `[DONE]`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use terrace_contract::report::Outcome;
use terrace_wire::error::Code;
use terrace_wire::passing::{Choice, Event};
use terrace_wire::sse;
use tokio::time::Instant;

use super::rate::Permit;
use super::unread::Watched;
use super::writer::Writer;
use crate::app::App;
use crate::clock::micros;
use crate::dispatch::attempt::{Answer, Begun};
use crate::dispatch::connect::Connection;
use crate::dispatch::failure::Failure;
use crate::dispatch::limits::{BETWEEN_TOKENS, Ends, UNREAD};
use crate::dispatch::reader::{Reader, Step};
use crate::dispatch::rebuild::{self, Names, Tokens};
use crate::dispatch::usage::Most;
use crate::fleet::place::Place;
use crate::record::Record;
use crate::sense::tokens;
use crate::trace::Attempted;

/// Events that are written at once if they have all come: each write costs the system more than the event itself.
const TOGETHER: usize = 32;

/// What holds for a stream from its request on.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// Prompt tokens, as counted here.
    pub prompt_tokens: u64,
    /// The most that it can use.
    pub most: Most,
    /// When it must be whole.
    pub ends: Option<Ends>,
}

/// A stream on its way.
pub struct Streaming {
    app: Arc<App>,
    record: Record,
    outcome: Outcome,
    place: Place,
    connection: Option<Connection>,
    reader: Box<Reader>,
    names: Names,
    writer: Writer,
    first_token_at: Instant,
    terms: Terms,
    /// As the upstream counted.
    tokens: Option<Tokens>,
    /// As counted here, for an upstream that does not say.
    counted: u64,
    /// Choices that have begun, and whether each has ended.
    begun: BTreeMap<u64, bool>,
    /// The last choices of an answer wait for the cost, which comes after them.
    held: Option<Vec<Choice>>,
    ready: VecDeque<Bytes>,
    ended: bool,
    _permit: Permit,
    _attempt: Attempted,
}

/// The response's body for an answer that streams; none for one that does not.
pub fn body(
    app: Arc<App>,
    record: Record,
    outcome: Outcome,
    begun: Begun,
    (writer, terms): (Writer, Terms),
    permit: Permit,
) -> Option<Body> {
    let Begun { place, connection, names, answer, first_token_at, trace } = begun;
    let Answer::Stream { reader, first, tokens } = answer else { return None };
    let mut streaming = Streaming {
        app,
        record,
        outcome,
        place,
        connection: Some(connection),
        reader,
        names,
        writer,
        first_token_at,
        terms,
        tokens,
        counted: 0,
        begun: BTreeMap::new(),
        held: None,
        ready: VecDeque::new(),
        ended: false,
        _permit: permit,
        _attempt: trace,
    };
    streaming.choices(first);
    let events = futures::stream::unfold(Box::new(streaming), |mut streaming| async move {
        let bytes = streaming.next().await?;
        Some((bytes, streaming))
    });
    Some(Body::from_stream(Watched::new(events, terms.patience())))
}

impl Terms {
    /// How long its client may leave it unread: no longer than it may take, but long enough to be told that it is over.
    fn patience(&self) -> Duration {
        self.left().map_or(UNREAD, |left| left.clamp(Duration::from_secs(1), UNREAD))
    }

    /// How long it may still take; none: there is no limit.
    fn left(&self) -> Option<Duration> {
        self.ends.map(|ends| ends.at.saturating_duration_since(Instant::now()))
    }
}

impl Streaming {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let some = !self.ready.is_empty();
            if self.ended || self.ready.len() >= TOGETHER || (some && !self.reader.has_more().await) {
                return sse::joined(&mut self.ready);
            }
            let left = self.terms.left();
            if left.is_some_and(|left| left.is_zero()) {
                self.late();
                continue;
            }
            match self.reader.next(left.map_or(BETWEEN_TOKENS, |left| left.min(BETWEEN_TOKENS))).await {
                Ok(Some(Step::Event(event))) => self.event(*event),
                Ok(Some(Step::Done)) => self.done(),
                // Some servers close instead of saying [DONE]; what was finished is an answer all the same.
                Ok(None) if self.held.is_some() => self.done(),
                // Nor does it matter then how the connection ends: nothing of the answer is missing.
                Err(_) if self.is_finished() => self.done(),
                Err(_) if self.terms.left().is_some_and(|left| left.is_zero()) => self.late(),
                Ok(None) => self.broke("the stream ended in the middle of an answer"),
                Err(failure) => self.broke(what(&failure)),
            }
        }
    }

    fn event(&mut self, event: Event) {
        if event.is_error() {
            return self.broke("the tier reported an error in the middle of an answer");
        }
        if let Some(load) = rebuild::load_of(event.terrace.as_ref()) {
            self.place.reported(load, self.app.clock.now_us());
        }
        self.record.took(event.terrace.as_ref());
        self.tokens = Tokens::read(event.usage.as_ref()).or(self.tokens);
        match self.names.choices(event.choices) {
            Some(choices) => self.choices(choices),
            // An agent's last event carries its own figures alone.
            None if event.terrace.is_some() || event.usage.is_some() => {}
            None => self.broke("an event of the stream is no part of an answer"),
        }
    }

    fn choices(&mut self, choices: Vec<Choice>) {
        if choices.is_empty() {
            return;
        }
        self.counted += choices.iter().flat_map(Choice::texts).map(tokens::of_text).sum::<u64>();
        for choice in &choices {
            *self.begun.entry(choice.index).or_default() |= choice.is_finished();
        }
        let finished = choices.iter().any(Choice::is_finished);
        let earlier = self.held.take();
        let (now, held) = if finished { (None, Some(choices)) } else { (Some(choices), None) };
        self.held = held;
        for choices in earlier.into_iter().chain(now) {
            if let Err(why) = self.writer.chunk(&self.names, &choices, &mut self.ready) {
                return self.broke(why);
            }
        }
    }

    /// Whether each choice has had its reason to finish.
    fn is_finished(&self) -> bool {
        self.held.is_some() && self.begun.values().all(|ended| *ended)
    }

    /// The answer is whole.
    fn done(&mut self) {
        let whole = self.is_finished();
        let Some(last) = self.held.take_if(|_| whole) else {
            return self.broke("the stream ended without a reason to finish");
        };
        let tokens = self.used();
        let ended = Instant::now();
        let (us, now) = (micros(ended.duration_since(self.first_token_at)), self.app.clock.us_of(ended));
        self.place.rest(tokens.output, tokens.input + tokens.output, us, now);
        let cost = self.record.answered(self.outcome, tokens);
        if let Err(why) = self.writer.end(&self.names, &last, (tokens, cost), &mut self.ready) {
            return self.broke(why);
        }
        self.ended = true;
        if let Some(connection) = self.connection.take() {
            connection.finished(ended);
        }
    }

    /// Its time is up. What was finished by now is an answer all the same.
    fn late(&mut self) {
        if self.is_finished() {
            return self.done();
        }
        let field = self.terms.ends.map_or("", |ends| ends.field);
        self.record.cut(self.used());
        let why = format!(
            "the answer was not whole within the time that this feature's budget gives (LatencyBudget {field}); ask for a \
             shorter one, or stream with onMiss: Degrade, which answers late"
        );
        self.end(Code::BudgetExceeded, why);
    }

    /// The answer broke off: it is never continued elsewhere.
    fn broke(&mut self, why: &'static str) {
        self.place.failed(self.app.clock.now_us());
        self.record.broke(self.used());
        tracing::debug!(tier = %self.place.tier.name, why, "a stream broke after its first token");
        self.end(Code::UpstreamFailed, format!("tier {}: {why}; ask again for a whole answer", self.place.tier.name));
    }

    /// Says that no more comes, and why.
    fn end(&mut self, code: Code, why: String) {
        if let Some(held) = self.held.take() {
            // What was whole of it is told; that it cannot be told changes nothing any more.
            let _ = self.writer.chunk(&self.names, &held, &mut self.ready);
        }
        let open: Vec<u64> = self.begun.iter().filter(|(_, ended)| !**ended).map(|(index, _)| *index).collect();
        self.writer.broken(&self.names, &open, (code, why), &mut self.ready);
        self.ended = true;
        self.connection = None;
    }

    fn used(&self) -> Tokens {
        let counted = Tokens { input: self.terms.prompt_tokens, output: self.counted, cached: 0 };
        self.terms.most.believe(self.tokens, counted)
    }
}

impl Drop for Streaming {
    fn drop(&mut self) {
        if !self.ended {
            self.record.left(self.used());
        }
    }
}

fn what(failure: &Failure) -> &'static str {
    match failure {
        Failure::Broken(what) => what,
        _ => "the stream broke",
    }
}
