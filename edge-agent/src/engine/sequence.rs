//! One running answer: where it stands, what it said, what it still holds back.

use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tracing::Span;

use super::confidence::ConfidenceMeter;
use super::handle::RequestId;
use super::sample::{Sampler, top};
use super::stop::{StopMatcher, Watched};
use super::{Done, Event, Failure, FinishReason, GenerateRequest, Piece, Timings, TokenLogprob, Usage};
use crate::gguf::{Detokenizer, Tokenizer};
use crate::grammar::{Constraint, Lost};
use crate::kernels::Distribution;

pub(super) struct Sequence {
    pub(super) id: RequestId,
    pub(super) request: GenerateRequest,
    pub(super) events: mpsc::Sender<Event>,
    /// Its decode steps.
    pub(super) steps: u32,
    /// Sum of their batch sizes.
    pub(super) batched: u64,
    /// Prompt tokens that were found in the cache.
    pub(super) cached: u32,
    /// Its share of the device's time.
    pub(super) compute: Duration,
    sampler: Sampler,
    constraint: Option<Constraint>,
    detokenizer: Detokenizer,
    stops: StopMatcher,
    confidence: ConfidenceMeter,
    held: Vec<TokenLogprob>,
    completion: u32,
    queued: Duration,
    started: Instant,
    first_token: Option<Instant>,
    prefill: Option<Span>,
    decode: Option<Span>,
}

/// What a step led to.
pub(super) enum Turn {
    /// With this token.
    Continues(u32),
    Ends(FinishReason),
    Fails(Failure),
}

impl Sequence {
    /// Leaves the queue.
    pub(super) fn begin(
        id: RequestId,
        mut request: GenerateRequest,
        events: mpsc::Sender<Event>,
        queued: Duration,
        now: Instant,
    ) -> Self {
        let _ = events.try_send(Event::Started { queued });
        let prefill = tracing::info_span!(
            parent: &request.span,
            "prefill",
            terrace.tokens = request.prompt.len() as i64,
            terrace.cached_tokens = tracing::field::Empty,
            terrace.tokens_per_second = tracing::field::Empty,
        );
        let sampler = Sampler::new(std::mem::take(&mut request.sampling), &request.prompt);
        // Its first mask is made beside the prefill.
        let constraint = request.grammar.take().map(|grammar| grammar.begin());
        let stops = StopMatcher::new(std::mem::take(&mut request.stop));
        Sequence {
            id,
            request,
            events,
            steps: 0,
            batched: 0,
            cached: 0,
            compute: Duration::ZERO,
            sampler,
            constraint,
            detokenizer: Detokenizer::default(),
            stops,
            confidence: ConfidenceMeter::default(),
            held: Vec::new(),
            completion: 0,
            queued,
            started: now,
            first_token: None,
            prefill: Some(prefill),
            decode: None,
        }
    }

    /// Tokens sampled so far.
    pub(super) fn completion(&self) -> u32 {
        self.completion
    }

    /// Whether it can sample at once: its grammar says what may come. Waits no longer than this for it.
    pub(super) fn ready(&mut self, patience: Duration) -> bool {
        self.constraint.as_mut().is_none_or(|constraint| constraint.ready(patience))
    }

    /// Samples from new logits and says what is certain of the text.
    pub(super) fn turn(&mut self, logits: &[f32], tokenizer: &Tokenizer, now: Instant) -> Turn {
        if self.first_token.is_none() {
            self.begin_decode(now);
        }
        if self.request.max_tokens == 0 {
            return Turn::Ends(FinishReason::Length);
        }
        let Some(distribution) = Distribution::of(logits) else {
            let position = self.request.prompt.len() as u32 + self.completion;
            tracing::error!(request = self.id.0, position, "the model produced no usable numbers");
            return Turn::Fails(Failure::Model { position });
        };
        let alternatives = top(logits, distribution.log_sum_exp, usize::from(self.request.top_logprobs.min(20)));
        let Ok(allowed) = self.constraint.as_mut().map(Constraint::allowed).transpose() else {
            return Turn::Fails(Failure::Grammar { position: self.completion });
        };
        let id = self.sampler.sample(logits, allowed);
        let logprob = logits[id as usize] - distribution.log_sum_exp;
        self.completion += 1;
        self.confidence.add(logprob, &distribution);
        self.held.push(TokenLogprob { id, logprob, top: alternatives });

        if tokenizer.is_end(id) {
            return Turn::Ends(FinishReason::Stop);
        }
        let complete = match self.constraint.as_mut().map(|constraint| constraint.commit(id)) {
            None => false,
            Some(Ok(complete)) => complete,
            Some(Err(Lost)) => return Turn::Fails(Failure::Grammar { position: self.completion }),
        };
        let shown = self.request.shown.contains(&id).then(|| tokenizer.control_text(id)).flatten();
        let text = self.detokenizer.push(shown.map_or_else(|| tokenizer.bytes(id), str::as_bytes));
        match self.stops.push(&text) {
            Watched::Certain(text) if text.is_empty() => {}
            Watched::Certain(text) => self.say(text),
            Watched::Stopped(text) => {
                self.say(text);
                return Turn::Ends(FinishReason::Stop);
            }
        }
        if complete {
            return Turn::Ends(FinishReason::Stop);
        }
        if self.completion >= self.request.max_tokens {
            return Turn::Ends(FinishReason::Length);
        }
        Turn::Continues(id)
    }

    /// Says what was held back, and that this was all.
    pub(super) fn end(&mut self, finish_reason: FinishReason, now: Instant) {
        // Bytes of a character that never became whole are not said.
        let rest = self.stops.finish();
        if !rest.is_empty() || !self.held.is_empty() {
            self.say(rest);
        }
        let first = self.first_token.unwrap_or(now);
        let timings = Timings {
            queue: self.queued,
            prefill: first.duration_since(self.started),
            decode: now.duration_since(first),
            compute: self.compute,
            steps: self.steps,
            batched: self.batched,
        };
        if let Some(span) = self.decode.take() {
            let steps = self.completion.saturating_sub(1);
            span.record("terrace.tokens", i64::from(self.completion));
            span.record("terrace.tokens_per_second", per_second(steps as usize, timings.decode));
            span.record("terrace.batch_size", self.batched as f64 / f64::from(steps.max(1)));
        }
        let usage =
            Usage { prompt: self.request.prompt.len() as u32, completion: self.completion, cached: self.cached };
        let confidence = self.confidence.result();
        // The caller's span ends when the caller says so, not when this thread comes to drop it.
        self.request.span = tracing::Span::none();
        let _ = self.events.try_send(Event::Done(Done { finish_reason, usage, confidence, timings }));
    }

    fn begin_decode(&mut self, now: Instant) {
        self.first_token = Some(now);
        if let Some(span) = self.prefill.take() {
            let computed = self.request.prompt.len().saturating_sub(self.cached as usize);
            let rate = per_second(computed, now.duration_since(self.started));
            span.record("terrace.cached_tokens", i64::from(self.cached));
            span.record("terrace.tokens_per_second", rate);
        }
        if self.request.max_tokens == 0 {
            return;
        }
        self.decode = Some(tracing::info_span!(
            parent: &self.request.span,
            "decode",
            terrace.tokens = tracing::field::Empty,
            terrace.tokens_per_second = tracing::field::Empty,
            terrace.batch_size = tracing::field::Empty,
        ));
    }

    fn say(&mut self, text: String) {
        let tokens = std::mem::take(&mut self.held);
        // The channel has room for every event; it fails only if the caller is gone, which the next sweep sees.
        let _ = self.events.try_send(Event::Piece(Piece { text, tokens }));
    }
}

fn per_second(tokens: usize, took: Duration) -> f64 {
    tokens as f64 / took.as_secs_f64().max(1e-9)
}
