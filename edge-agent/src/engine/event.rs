//! What comes back from the engine, in this order: `Started`, `Hidden` if it was asked for, any number of `Piece`, then
//! one `Done` or `Failed`. A request that is refused after all gets `Failed` alone.
//! A request that is cancelled by dropping its receiver gets nothing more.

use std::time::Duration;

use terrace_contract::confidence::Confidence;
use terrace_contract::cost::Cost;
use terrace_telemetry::time::micros;

use super::Refused;

/// One step of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// It left the queue; its prefill begins.
    Started {
        /// How long it waited.
        queued: Duration,
    },
    /// The prompt was read.
    Hidden(HiddenStates),
    /// More of the text.
    Piece(Piece),
    /// The answer is complete. The last event.
    Done(Done),
    /// It ends without being complete. The last event.
    Failed(Failure),
}

/// States of the model's last layer over the prompt, normalised; as wide as the model.
#[derive(Debug, Clone, PartialEq)]
pub struct HiddenStates {
    /// Mean over the prompt's tokens, if it was asked for.
    pub mean: Option<Vec<f32>>,
    /// After the last token.
    pub last: Vec<f32>,
}

/// Text that is certain: whole UTF-8, and no part of a stop string.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Piece {
    /// May be empty in the last piece only (a control token, or a stop string cut it off).
    pub text: String,
    /// The tokens that made it: usually one; more where a character or a possible stop string spans tokens.
    pub tokens: Vec<TokenLogprob>,
}

/// One sampled token.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenLogprob {
    /// Its id.
    pub id: u32,
    /// Natural logarithm of its probability, before temperature and filters.
    pub logprob: f32,
    /// The likeliest tokens with theirs, if asked for.
    pub top: Vec<(u32, f32)>,
}

/// A complete answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Done {
    /// Why it ended.
    pub finish_reason: FinishReason,
    /// Tokens.
    pub usage: Usage,
    /// How sure the model was; none for an answer of no tokens.
    pub confidence: Option<Confidence>,
    /// Times.
    pub timings: Timings,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReason {
    /// The model ended it, or a stop string came up.
    Stop,
    /// `max_tokens` or the end of the context.
    Length,
}

impl FinishReason {
    /// OpenAI's name for it.
    pub fn as_str(self) -> &'static str {
        match self {
            FinishReason::Stop => "stop",
            FinishReason::Length => "length",
        }
    }
}

/// Tokens of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Of the prompt.
    pub prompt: u32,
    /// Sampled, the one that ended the answer included.
    pub completion: u32,
    /// Of the prompt, found in the KV cache.
    pub cached: u32,
}

/// Where the time went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timings {
    /// Waiting.
    pub queue: Duration,
    /// From leaving the queue to the first token.
    pub prefill: Duration,
    /// From the first token to the last.
    pub decode: Duration,
    /// Its share of the time that the device worked: a step's time is divided by what each sequence made it do.
    pub compute: Duration,
    /// Steps that made its tokens after the first, but for those that computed it anew after a preemption.
    pub steps: u32,
    /// Sequences that got a token in those steps, all steps together.
    pub batched: u64,
}

impl Timings {
    /// What it took, as a router reads it.
    pub fn cost(&self, usage: Usage) -> Cost {
        Cost {
            queue_us: micros(self.queue),
            prefill_us: micros(self.prefill),
            decode_us: micros(self.decode),
            compute_us: micros(self.compute),
            cached_tokens: usage.cached,
            steps: self.steps,
            batch: if self.steps == 0 { 0.0 } else { self.batched as f64 / f64::from(self.steps) },
        }
    }
}

/// Why an answer broke off.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The deadline came first.
    #[error("the deadline passed before the answer was complete")]
    DeadlineExceeded,
    /// The engine was told to stop before the answer was complete.
    #[error("this device shut down before the answer was complete: send the request again")]
    Stopped,
    /// The loop knows better than whoever took it: it cannot be made in time.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The answer cannot be kept to its grammar any further.
    #[error("the answer's schema takes too much to follow from token {position} on: make it simpler")]
    Grammar {
        /// Where in the answer.
        position: u32,
    },
    /// The model could not compute a step (a number that is not one).
    #[error("the model produced no usable numbers at token {position}: the file may be damaged")]
    Model {
        /// Where in the sequence.
        position: u32,
    },
}
