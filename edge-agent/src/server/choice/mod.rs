//! One choice of an answer on its way from the engine's pieces to the wire, whole or in events.

mod chatting;
mod logprobs;
mod text;

use bytes::{Bytes, BytesMut};
use serde::Serialize;
use terrace_wire::chat;
use terrace_wire::completion::CompletionChoice;

use super::answer::Envelope;
use super::request::{Calls, Job, Wire};
use crate::engine::{FinishReason, Piece};
use crate::gguf::Tokenizer;

/// A whole choice.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Whole {
    Chat(chat::Choice),
    Text(CompletionChoice),
}

/// One choice. It is either read to its end and told whole, or told event by event.
pub(super) enum Choice {
    Chat(Box<chatting::ChatChoice>),
    Text(text::TextChoice),
}

impl Choice {
    /// All choices of a request: those of the first prompt first.
    pub(super) fn all(wire: Wire, job: &Job) -> Vec<Choice> {
        let total = job.prompts.len() as u32 * job.choices;
        let one = |index: u32| match wire {
            Wire::Chat => {
                let reader = job.calls.as_ref().map(Calls::reader);
                let logprobs = job.logprobs.is_some();
                Choice::Chat(Box::new(chatting::ChatChoice::new(index, reader, job.calls.clone(), logprobs)))
            }
            Wire::Text => {
                let echo = job.echo.as_ref().and_then(|echo| echo.get((index / job.choices) as usize));
                Choice::Text(text::TextChoice::new(index, echo.cloned().unwrap_or_default(), job.logprobs))
            }
        };
        (0..total).map(one).collect()
    }

    /// Reads more of it.
    pub(super) fn hear(&mut self, piece: Piece, tokenizer: &Tokenizer, answer: &str) {
        match self {
            Choice::Chat(choice) => choice.hear(piece, tokenizer, answer),
            Choice::Text(choice) => choice.hear(piece, tokenizer),
        }
    }

    /// The whole of it, and how it ended.
    pub(super) fn whole(self, finish: FinishReason, answer: &str) -> (Whole, &'static str) {
        match self {
            Choice::Chat(choice) => {
                let (whole, finish) = choice.whole(finish, answer);
                (Whole::Chat(whole), finish)
            }
            Choice::Text(choice) => (Whole::Text(choice.whole(finish)), finish.as_str()),
        }
    }

    /// Events for more of it.
    pub(super) fn tell(&mut self, piece: Piece, tokenizer: &Tokenizer, envelope: &Envelope) -> Bytes {
        let mut out = BytesMut::new();
        match self {
            Choice::Chat(choice) => choice.tell(piece, tokenizer, envelope, &mut out),
            Choice::Text(choice) => choice.tell(piece, tokenizer, envelope, &mut out),
        }
        out.freeze()
    }

    /// Events for its end, and how it ended.
    pub(super) fn end(&mut self, finish: FinishReason, envelope: &Envelope) -> (Bytes, &'static str) {
        let mut out = BytesMut::new();
        let finish = match self {
            Choice::Chat(choice) => choice.end(finish, envelope, &mut out),
            Choice::Text(choice) => choice.end(finish.as_str(), envelope, &mut out),
        };
        (out.freeze(), finish)
    }

    /// The event for an end before its time; none if it has ended.
    pub(super) fn broke(&mut self, envelope: &Envelope) -> Bytes {
        let mut out = BytesMut::new();
        match self {
            Choice::Chat(choice) => choice.broke(envelope, &mut out),
            Choice::Text(choice) => choice.broke(envelope, &mut out),
        }
        out.freeze()
    }
}
