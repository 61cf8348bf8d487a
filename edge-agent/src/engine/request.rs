//! What a caller asks of the engine, and how it is turned away.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use terrace_contract::load::STEP_LIMIT_MS;

use super::{CacheDomain, Clock};
use crate::grammar::Compiled;
use crate::model::Pooling;

/// Limits of one engine. [`EngineConfig::default`] suits a small device.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// Sequences of one step at most.
    pub max_sequences: u32,
    /// Requests that wait at most; one more is refused at once.
    pub queue_limit: u32,
    /// Prompt tokens of one step at most.
    pub prefill_chunk: u32,
    /// Time of one step while sequences wait for their next token: how much of a prompt goes beside them. Prompts alone
    /// get [`STEPS_ALONE`](terrace_contract::load::STEPS_ALONE) times as much, which bounds how long cancel and drain wait.
    pub step_limit: Duration,
    /// How often an idle loop shows that it lives.
    pub idle_tick: Duration,
    /// What deadlines and rates go by.
    pub clock: Clock,
}

impl Default for EngineConfig {
    fn default() -> Self {
        EngineConfig {
            max_sequences: 1,
            queue_limit: 8,
            prefill_chunk: 256,
            step_limit: Duration::from_millis(STEP_LIMIT_MS.into()),
            idle_tick: Duration::from_millis(250),
            clock: Clock::default(),
        }
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
    /// By the engine's clock. Refused if it is predicted to be missed; ended with [`Failure::DeadlineExceeded`](super::Failure) once it is.
    pub deadline: Option<Instant>,
    /// Alternatives to report with each token (at most 20); 0: none. The sampled token's own is always there.
    pub top_logprobs: u8,
    /// Whose computed prompts it may find in the KV cache, and who may find its own.
    pub cache: CacheDomain,
    /// Hidden states of the prompt to report. The mean covers every token, so nothing of the prompt is taken from the
    /// cache then.
    pub hidden: Option<Pooling>,
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
            cache: CacheDomain::default(),
            hidden: None,
            span: tracing::Span::current(),
        }
    }

    /// Whether computed blocks may be taken over for it.
    pub(super) fn adopts(&self) -> bool {
        self.hidden != Some(Pooling::MeanAndLast)
    }
}

/// Why the engine would not take a request. Said at once; or, as the first event, as soon as the loop knows.
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
    /// More choices than can run and wait.
    #[error("{asked} choices were asked for, this device takes at most {limit} at once: ask for fewer")]
    TooManyChoices {
        /// How many.
        asked: u32,
        /// Sequences that run and requests that wait, together.
        limit: u32,
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
            Refused::ContextTooLong { .. }
            | Refused::TooManyChoices { .. }
            | Refused::EmptyPrompt
            | Refused::UnknownToken { .. } => None,
        }
    }
}
