//! What an answer has around its choices.

use bytes::Bytes;
use serde::Serialize;
use terrace_contract::confidence::Confidence;
use terrace_contract::cost::Cost;
use terrace_wire::answer::{Answer, PromptDetails, Terrace, Usage};
use terrace_wire::sse;

use super::request::Wire;
use crate::engine::{self, Done};

/// What every part of one answer repeats.
pub(super) struct Envelope {
    pub(super) wire: Wire,
    pub(super) id: String,
    pub(super) created: u64,
    pub(super) model: String,
}

impl Envelope {
    /// The whole answer.
    pub(super) fn whole<C>(&self, choices: Vec<C>, usage: Usage, terrace: Option<Terrace>) -> Answer<C> {
        let object = if self.wire == Wire::Chat { "chat.completion" } else { "text_completion" };
        self.answer(object, choices, Some(usage), terrace)
    }

    /// An event with these choices.
    pub(super) fn event<C: Serialize>(&self, choices: Vec<C>) -> Bytes {
        sse::json_event(&self.answer(self.chunk(), choices, None, None))
    }

    /// The event with tokens and without choices.
    pub(super) fn usage(&self, usage: Usage) -> Bytes {
        sse::json_event(&self.answer::<()>(self.chunk(), Vec::new(), Some(usage), None))
    }

    /// The event for a router.
    pub(super) fn terrace(&self, terrace: Terrace) -> Bytes {
        sse::json_event(&self.answer::<()>(self.chunk(), Vec::new(), None, Some(terrace)))
    }

    fn chunk(&self) -> &'static str {
        if self.wire == Wire::Chat { "chat.completion.chunk" } else { "text_completion" }
    }

    fn answer<C>(&self, object: &str, choices: Vec<C>, usage: Option<Usage>, terrace: Option<Terrace>) -> Answer<C> {
        let Envelope { id, created, model, .. } = self;
        Answer {
            id: id.clone(),
            object: object.into(),
            created: *created,
            model: model.clone(),
            choices,
            usage,
            terrace,
        }
    }
}

/// What all choices of an answer come to.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Choices that have not ended.
    pub(super) left: usize,
    usage: engine::Usage,
    least_sure: Option<Confidence>,
    cost: Option<Cost>,
    pub(super) finish_reasons: Vec<&'static str>,
}

impl Tally {
    pub(super) fn of(choices: usize) -> Self {
        Tally { left: choices, ..Tally::default() }
    }

    /// One more has ended. The first of a prompt's choices brings the prompt's tokens.
    pub(super) fn add(&mut self, done: &Done, first_of_prompt: bool, finish: &'static str) {
        self.left = self.left.saturating_sub(1);
        self.usage.completion += done.usage.completion;
        if first_of_prompt {
            self.usage.prompt += done.usage.prompt;
            self.usage.cached += done.usage.cached;
        }
        let less_sure = |one: Confidence, other: Confidence| if one.mean <= other.mean { one } else { other };
        self.least_sure = match (self.least_sure, done.confidence) {
            (Some(one), Some(other)) => Some(less_sure(one, other)),
            (one, other) => one.or(other),
        };
        let cost = done.timings.cost(done.usage);
        self.cost = Some(self.cost.map_or(cost, |others| others.beside(cost)));
        self.finish_reasons.push(finish);
    }

    /// Tokens.
    pub(super) fn tokens(&self) -> engine::Usage {
        self.usage
    }

    /// Tokens as OpenAI counts them.
    pub(super) fn usage(&self) -> Usage {
        let engine::Usage { prompt, completion, cached } = self.usage;
        Usage {
            prompt_tokens: prompt,
            completion_tokens: completion,
            total_tokens: prompt + completion,
            // A caller finds its own domain's blocks alone, so it learns of nobody else by this.
            prompt_tokens_details: Some(PromptDetails { cached_tokens: cached }),
        }
    }

    /// How sure the model was: of several choices, of the one it was least sure of.
    pub(super) fn least_sure(&self) -> Option<Confidence> {
        self.least_sure
    }

    /// What all choices took.
    pub(super) fn cost(&self) -> Option<Cost> {
        self.cost
    }
}
