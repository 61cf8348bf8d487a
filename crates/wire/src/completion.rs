//! `POST /v1/completions`: text in, text out.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::chat::{StreamOptions, Terrace, Usage};
use crate::error::{Code, ErrorBody};
use crate::stop::Stop;

/// A text completion request.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct CompletionRequest {
    /// Model name.
    pub model: String,
    /// The text to go on from.
    pub prompt: String,
    /// Whether to stream.
    #[serde(default)]
    pub stream: Option<bool>,
    /// Options of the stream.
    #[serde(default)]
    pub stream_options: Option<StreamOptions>,
    /// Output tokens at most; 16 by default, as OpenAI's.
    #[serde(default)]
    pub max_tokens: Option<u32>,
    /// 0 is greedy.
    #[serde(default)]
    pub temperature: Option<f32>,
    /// Nucleus.
    #[serde(default)]
    pub top_p: Option<f32>,
    /// Most likely tokens considered. Not OpenAI's.
    #[serde(default)]
    pub top_k: Option<u32>,
    /// Same seed, same text.
    #[serde(default)]
    pub seed: Option<i64>,
    /// Stop strings.
    #[serde(default)]
    pub stop: Stop,
}

impl CompletionRequest {
    /// Reads a parsed body.
    ///
    /// # Errors
    /// The error body to send: 400 with the field by JSON pointer.
    pub fn from_value(value: Value) -> Result<Self, ErrorBody> {
        crate::chat::check_completion_shape(&value)?;
        serde_json::from_value(value).map_err(|_| {
            ErrorBody::new(
                Code::InvalidRequest,
                "a field has the wrong type: compare the request with OpenAI's completions API",
            )
        })
    }
}

/// A whole answer, or one event of a stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Completion {
    /// `cmpl-…`
    pub id: String,
    /// `text_completion`.
    pub object: String,
    /// Seconds since the Unix epoch.
    pub created: u64,
    /// The model that answered.
    pub model: String,
    /// The answers.
    pub choices: Vec<CompletionChoice>,
    /// Tokens used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Only for a router that asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terrace: Option<Terrace>,
}

/// One answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CompletionChoice {
    /// Its index.
    pub index: u32,
    /// The text, or its new part.
    pub text: String,
    /// Log-probabilities, if asked for.
    #[serde(default)]
    pub logprobs: Option<Value>,
    /// `stop` or `length`.
    pub finish_reason: Option<String>,
}
