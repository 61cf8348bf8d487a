//! Answers as OpenAI writes them, whole or in events.

use bytes::Bytes;
use serde_json::{Value, json};
use terrace_wire::chat::{
    AssistantMessage, ChatChunk, ChatCompletion, Choice, ChunkChoice, Delta, PromptDetails, Terrace, Usage,
};
use terrace_wire::completion::{Completion, CompletionChoice};
use terrace_wire::error::ErrorBody;
use terrace_wire::sse;

use super::request::Wire;
use crate::engine::{Done, Piece};
use crate::gguf::Tokenizer;

/// What every part of one answer repeats.
pub(super) struct Envelope {
    pub(super) wire: Wire,
    pub(super) id: String,
    pub(super) created: u64,
    pub(super) model: String,
}

/// Tokens as OpenAI counts them.
pub(super) fn usage(done: &Done) -> Usage {
    let crate::engine::Usage { prompt, completion, cached } = done.usage;
    Usage {
        prompt_tokens: prompt,
        completion_tokens: completion,
        total_tokens: prompt + completion,
        // A caller finds its own domain's blocks alone, so it learns of nobody else by this.
        prompt_tokens_details: Some(PromptDetails { cached_tokens: cached }),
    }
}

/// `logprobs.content` of some tokens.
pub(super) fn logprobs(tokenizer: &Tokenizer, piece: &Piece) -> Vec<Value> {
    let entry = |id: u32, logprob: f32| {
        let bytes = tokenizer.bytes(id);
        json!({"token": String::from_utf8_lossy(bytes), "logprob": logprob, "bytes": bytes})
    };
    let token = |t: &crate::engine::TokenLogprob| {
        let mut value = entry(t.id, t.logprob);
        value["top_logprobs"] = t.top.iter().map(|(id, logprob)| entry(*id, *logprob)).collect();
        value
    };
    piece.tokens.iter().map(token).collect()
}

impl Envelope {
    /// The whole answer.
    pub(super) fn whole(
        self,
        text: String,
        finish: &str,
        usage: Usage,
        logprobs: Option<Vec<Value>>,
        terrace: Option<Terrace>,
    ) -> Value {
        let Envelope { wire, id, created, model } = self;
        let (index, finish_reason, usage) = (0, Some(finish.to_owned()), Some(usage));
        let logprobs = logprobs.map(|content| json!({"content": content, "refusal": null}));
        match wire {
            Wire::Chat => {
                let message =
                    AssistantMessage { role: "assistant".into(), content: Some(text), ..AssistantMessage::default() };
                let choices = vec![Choice { index, message, logprobs, finish_reason }];
                json!(ChatCompletion { id, object: "chat.completion".into(), created, model, choices, usage, terrace })
            }
            _ => {
                let choices = vec![CompletionChoice { index, text, logprobs, finish_reason }];
                json!(Completion { id, object: "text_completion".into(), created, model, choices, usage, terrace })
            }
        }
    }

    /// The event that begins a chat's stream.
    pub(super) fn begin(&self) -> Option<Bytes> {
        let delta = Delta { role: Some("assistant".into()), content: Some(String::new()), ..Delta::default() };
        (self.wire == Wire::Chat).then(|| self.chunk(Some((delta, None, None)), None, None))
    }

    /// More text.
    pub(super) fn piece(&self, text: String, logprobs: Option<Vec<Value>>) -> Bytes {
        let logprobs = logprobs.map(|content| json!({"content": content, "refusal": null}));
        self.chunk(Some((Delta { content: Some(text), ..Delta::default() }, logprobs, None)), None, None)
    }

    /// The end of the text.
    pub(super) fn end(&self, finish: &str) -> Bytes {
        self.chunk(Some((Delta::default(), None, Some(finish.to_owned()))), None, None)
    }

    /// The event with tokens and without choices.
    pub(super) fn usage(&self, usage: Usage) -> Bytes {
        self.chunk(None, Some(usage), None)
    }

    /// The event for a router.
    pub(super) fn terrace(&self, terrace: Terrace) -> Bytes {
        self.chunk(None, None, Some(terrace))
    }

    /// What a stream that failed ends with, in place of `[DONE]`.
    pub(super) fn failed(&self, error: &ErrorBody) -> [Bytes; 2] {
        [self.end("error"), sse::json_event(error)]
    }

    fn chunk(
        &self,
        choice: Option<(Delta, Option<Value>, Option<String>)>,
        usage: Option<Usage>,
        terrace: Option<Terrace>,
    ) -> Bytes {
        let (id, created, model, index) = (self.id.clone(), self.created, self.model.clone(), 0);
        match self.wire {
            Wire::Chat => {
                let choice = choice.map(|(delta, logprobs, finish_reason)| ChunkChoice {
                    index,
                    delta,
                    logprobs,
                    finish_reason,
                });
                let (object, choices) = ("chat.completion.chunk".into(), choice.into_iter().collect());
                sse::json_event(&ChatChunk { id, object, created, model, choices, usage, terrace })
            }
            _ => {
                let choice = choice.map(|(delta, logprobs, finish_reason)| {
                    let text = delta.content.unwrap_or_default();
                    CompletionChoice { index, text, logprobs, finish_reason }
                });
                let (object, choices) = ("text_completion".into(), choice.into_iter().collect());
                sse::json_event(&Completion { id, object, created, model, choices, usage, terrace })
            }
        }
    }
}
