//! What a caller asks of the engine, and how it is turned away.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::grammar::Compiled;

/// Limits of one engine. [`EngineConfig::default`] suits a small device.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// Sequences that run at once.
    pub max_sequences: u32,
    /// Requests that wait at most; one more is refused at once.
    pub queue_limit: u32,
    /// Prompt tokens of one step: bounds how long cancel, drain and a running stream wait for a long prompt.
    pub prefill_chunk: u32,
    /// How often an idle loop shows that it lives.
    pub idle_tick: Duration,
}

impl Default for EngineConfig {
    fn default() -> Self {
        EngineConfig { max_sequences: 1, queue_limit: 8, prefill_chunk: 64, idle_tick: Duration::from_millis(250) }
    }
}

/// How the next token is chosen. [`Sampling::default`] is greedy.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// 0: always the likeliest token.
    pub temperature: f32,
    /// Keep the likeliest tokens that together reach this probability; 1: all.
    pub top_p: f32,
    /// Keep this many of the likeliest; 0: all.
    pub top_k: u32,
    /// Keep tokens at least this share as likely as the likeliest; 0: all.
    pub min_p: f32,
    /// Divides (or multiplies, below zero) the logits of tokens seen before; 1: off.
    pub repetition_penalty: f32,
    /// Subtracted from the logit of each token that the answer has already; 0: off.
    pub presence_penalty: f32,
    /// Subtracted once for each time that the answer has the token already; 0: off.
    pub frequency_penalty: f32,
    /// Added to the logits of tokens, by id.
    pub logit_bias: BTreeMap<u32, f32>,
    /// The same seed gives the same text while one sequence runs; none: a fresh one.
    pub seed: Option<u64>,
}

impl Default for Sampling {
    fn default() -> Self {
        Sampling {
            temperature: 0.0,
            top_p: 1.0,
            top_k: 0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            logit_bias: BTreeMap::new(),
            seed: None,
        }
    }
}

/// One answer to make. Ranges are the wire's business; the engine clamps what makes no sense.
#[derive(Debug, Clone)]
pub struct GenerateRequest {
    /// The prompt, already tokens (see [`EngineHandle::tokenizer`](super::EngineHandle::tokenizer)).
    pub prompt: Vec<u32>,
    /// Tokens of the answer at most; the context's end bounds it too.
    pub max_tokens: u32,
    /// How to choose.
    pub sampling: Sampling,
    /// The answer ends before the first of these; they may span tokens.
    pub stop: Vec<String>,
    /// What the answer keeps to; none: anything goes.
    pub grammar: Option<Compiled>,
    /// Control tokens that are written out in the text; others are not seen there.
    pub shown: Vec<u32>,
    /// Refused if it is predicted to be missed; ended with [`Failure::DeadlineExceeded`](super::Failure) once it is.
    pub deadline: Option<Instant>,
    /// Alternatives to report with each token (at most 20); 0: none. The sampled token's own is always there.
    pub top_logprobs: u8,
    /// Parent of the `prefill` and `decode` spans.
    pub span: tracing::Span,
}

impl GenerateRequest {
    /// A greedy request without stop strings or deadline, under the current span.
    pub fn new(prompt: Vec<u32>, max_tokens: u32) -> Self {
        GenerateRequest {
            prompt,
            max_tokens,
            sampling: Sampling::default(),
            stop: Vec::new(),
            grammar: None,
            shown: Vec::new(),
            deadline: None,
            top_logprobs: 0,
            span: tracing::Span::current(),
        }
    }
}

/// Why the engine would not take a request. Said at once, never after a wait.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Every place in the queue is taken.
    #[error("the queue is full ({limit} waiting): try again in {retry_after:?}")]
    QueueFull {
        /// Requests that may wait.
        limit: u32,
        /// When a place should be free.
        retry_after: Duration,
    },
    /// The engine finishes what it has and takes nothing new.
    #[error("this device is shutting down: send the request to another")]
    Draining {
        /// When its successor may be there.
        retry_after: Duration,
    },
    /// At the measured rates the answer would be late.
    #[error(
        "predicted to take {predicted:?}, later than the deadline: try another device, or again in {retry_after:?}"
    )]
    DeadlineUnmeetable {
        /// Queue, prefill and decode together.
        predicted: Duration,
        /// When the queue should be short enough.
        retry_after: Duration,
    },
    /// Prompt and one token of answer do not fit.
    #[error("the prompt has {tokens} tokens, the context is {limit}: shorten it")]
    ContextTooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// Tokens of prompt and answer together.
        limit: usize,
    },
    /// Nothing to continue.
    #[error("the prompt has no tokens: send at least one message with text")]
    EmptyPrompt,
    /// A token id that the vocabulary does not have.
    #[error("token id {id} is not in the vocabulary of {vocabulary}")]
    UnknownToken {
        /// The id.
        id: u32,
        /// Tokens of the vocabulary.
        vocabulary: usize,
    },
}

impl Refused {
    /// When to try the same device again; none if it would never take this request.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Refused::QueueFull { retry_after, .. }
            | Refused::Draining { retry_after }
            | Refused::DeadlineUnmeetable { retry_after, .. } => Some(*retry_after),
            Refused::ContextTooLong { .. } | Refused::EmptyPrompt | Refused::UnknownToken { .. } => None,
        }
    }
}
