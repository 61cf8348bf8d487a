//! What every answer has around its choices, whole or in events.

use serde::{Deserialize, Serialize};
use terrace_contract::confidence::Confidence;
use terrace_contract::cost::Cost;
use terrace_contract::load::Load;

use crate::hidden::Hidden;

/// A whole answer, or one event of a stream, by what its choices are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer<C> {
    /// `chatcmpl-…` or `cmpl-…`
    pub id: String,
    /// `chat.completion`, `chat.completion.chunk` or `text_completion`.
    pub object: String,
    /// Seconds since the Unix epoch.
    pub created: u64,
    /// The model that answers.
    pub model: String,
    /// The answers, or what changed in them; empty in an event that carries only what follows.
    pub choices: Vec<C>,
    /// Tokens used; in a stream, in the last event, if asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Only for a router that asked; in a stream, in the last event before `[DONE]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terrace: Option<Terrace>,
}

/// Tokens used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Prompt tokens, each prompt counted once however many choices it has.
    pub prompt_tokens: u32,
    /// Output tokens of all choices.
    pub completion_tokens: u32,
    /// Both.
    pub total_tokens: u32,
    /// Details of the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_tokens_details: Option<PromptDetails>,
}

/// Details of the prompt's tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptDetails {
    /// Tokens whose keys and values were already there.
    #[serde(default)]
    pub cached_tokens: u32,
}

/// What an agent adds for a router: confidence, cost, hidden states, and the load line once more since it may have
/// changed meanwhile.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Terrace {
    /// How sure the model was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Confidence>,
    /// What the answer took of the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// Hidden states of the prompt, those that were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden: Option<Hidden>,
    /// Load at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<Load>,
}
