//! Reads an upstream's answer: whole, or event by event, each with its own time limit.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Frame, Incoming};
use terrace_wire::passing::Event;
use terrace_wire::sse::{DONE, Decoder};

use super::body::Call;
use super::failure::Failure;

/// Longest whole answer that is read.
const ANSWER_BYTES: usize = 16 << 20;
/// Longest list of embeddings: 2,048 inputs with 1,536 numbers of about 20 bytes each.
const VECTORS_BYTES: usize = 64 << 20;

/// Reads a whole answer.
///
/// # Errors
/// [`Failure::Broken`] when it is cut, too long or no answer.
pub async fn whole(body: Incoming, call: Call) -> Result<Event, Failure> {
    let limit = if call == Call::Embedding { VECTORS_BYTES } else { ANSWER_BYTES };
    let read = Limited::new(body, limit).collect().await;
    let bytes = read.map_err(|_| Failure::Broken("the answer was cut or is too long"))?.to_bytes();
    serde_json::from_slice(&bytes).map_err(|_| Failure::Broken("the answer is no JSON that an answer has"))
}

/// One event of a stream.
#[derive(Debug, PartialEq)]
pub enum Step {
    /// A part of the answer.
    Event(Box<Event>),
    /// `[DONE]`.
    Done,
}

/// Reads the events of a stream.
pub struct Reader {
    body: Incoming,
    decoder: Decoder,
    waiting: VecDeque<Step>,
    /// What had come when [`Reader::has_more`] looked.
    early: Option<Option<hyper::Result<Frame<Bytes>>>>,
}

impl Reader {
    /// A reader of this body.
    pub fn new(body: Incoming) -> Self {
        Self { body, decoder: Decoder::new(), waiting: VecDeque::new(), early: None }
    }

    /// The next event; none at the end of the body.
    ///
    /// # Errors
    /// [`Failure::Broken`] when the connection breaks, stalls for `within`, or carries something else.
    pub async fn next(&mut self, within: Duration) -> Result<Option<Step>, Failure> {
        loop {
            if let Some(step) = self.waiting.pop_front() {
                return Ok(Some(step));
            }
            let frame = match self.early.take() {
                Some(frame) => frame,
                None => {
                    let frame = tokio::time::timeout(within, self.body.frame());
                    frame.await.map_err(|_| Failure::Broken("the stream stalled"))?
                }
            };
            let Some(frame) = frame else { return Ok(None) };
            let frame = frame.map_err(|_| Failure::Broken("the stream was cut"))?;
            if let Ok(chunk) = frame.into_data() {
                self.decode(&chunk)?;
            }
        }
    }

    /// Whether another event has come already: those who bring it are let go on once, and nothing is waited for.
    pub async fn has_more(&mut self) -> bool {
        if self.waiting.is_empty() && self.early.is_none() {
            tokio::task::yield_now().await;
            self.early = self.body.frame().now_or_never();
        }
        !self.waiting.is_empty() || self.early.is_some()
    }

    fn decode(&mut self, chunk: &Bytes) -> Result<(), Failure> {
        let events = self.decoder.push(chunk).map_err(|_| Failure::Broken("the stream is no event stream"))?;
        for event in events {
            self.waiting.push_back(if event.data.trim() == DONE {
                Step::Done
            } else {
                let event = serde_json::from_str(&event.data);
                Step::Event(event.map_err(|_| Failure::Broken("an event of the stream is no part of an answer"))?)
            });
        }
        Ok(())
    }
}
