//! `POST /v1/chat/completions`: the request as an agent reads it, and the answer, whole or in chunks.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::answer::Answer;
use crate::error::ErrorBody;
use crate::logprobs::ChatLogprobs;
use crate::message::{AssistantMessage, Message};
use crate::params::{Params, null_is_default};
use crate::tools::ToolCallDelta;

/// A chat request. Fields that are not here are the router's business (forwarding) or are not supported.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ChatRequest {
    /// What both requests have.
    #[serde(skip)]
    pub params: Params,
    /// The conversation.
    pub messages: Vec<Message>,
    /// Output tokens at most.
    #[serde(default)]
    pub max_completion_tokens: Option<u32>,
    /// Whether to return log-probabilities.
    #[serde(default, deserialize_with = "null_is_default")]
    pub logprobs: bool,
    /// Alternatives at each position.
    #[serde(default)]
    pub top_logprobs: Option<u32>,
    /// Tool definitions: [`crate::tools::read_tools`].
    #[serde(default)]
    pub tools: Option<Value>,
    /// Tool choice: [`crate::tools::read_choice`].
    #[serde(default)]
    pub tool_choice: Option<Value>,
    /// Whether one answer may call several tools; true by default.
    #[serde(default)]
    pub parallel_tool_calls: Option<bool>,
    /// JSON mode or schema: [`crate::format::ResponseFormat::read`].
    #[serde(default)]
    pub response_format: Option<Value>,
}

impl ChatRequest {
    /// Reads a parsed body.
    ///
    /// # Errors
    /// The error body to send: 400 with the field by JSON pointer.
    pub fn from_value(value: Value) -> Result<Self, ErrorBody> {
        crate::shape::check_chat(&value)?;
        crate::shape::check_calls(&value)?;
        crate::turns::check(&value)?;
        let unreadable = |_| crate::shape::unreadable("chat completions");
        let params = Params::deserialize(&value).map_err(unreadable)?;
        let request: Self = serde_json::from_value(value).map_err(unreadable)?;
        Ok(Self { params, ..request })
    }

    /// Output tokens at most, if the caller said.
    pub fn output_limit(&self) -> Option<u32> {
        self.max_completion_tokens.or(self.params.max_tokens)
    }
}

/// A whole answer.
pub type ChatCompletion = Answer<Choice>;

/// One event of a stream.
pub type ChatChunk = Answer<ChunkChoice>;

/// One answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// Its index.
    pub index: u32,
    /// What was said.
    pub message: AssistantMessage,
    /// Log-probabilities, if asked for.
    #[serde(default)]
    pub logprobs: Option<ChatLogprobs>,
    /// `stop`, `length`, `tool_calls`, `error`.
    pub finish_reason: Option<String>,
}

/// What changed in one answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChunkChoice {
    /// Its index.
    pub index: u32,
    /// The new part.
    pub delta: Delta,
    /// Log-probabilities, if asked for.
    #[serde(default)]
    pub logprobs: Option<ChatLogprobs>,
    /// In the last chunk of the answer.
    pub finish_reason: Option<String>,
}

/// The new part of an answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Delta {
    /// In the first chunk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// Tool calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<Vec<ToolCallDelta>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_request_as_sdks_send_it_is_read() {
        let body = json!({"model": "auto", "stream": true, "stream_options": {"include_usage": true}, "stop": "END",
            "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
                {"role": "assistant", "content": null, "refusal": null, "tool_calls": [
                    {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
                {"role": "tool", "tool_call_id": "c", "content": "7"}],
            "max_completion_tokens": 5, "temperature": 0, "unknown": {"x": 1}, "logprobs": null,
            "logit_bias": {"50256": -100, "7": 1.5}});
        let request = ChatRequest::from_value(body).unwrap();
        assert_eq!(request.messages[0].content.text().as_deref(), Ok("ab"));
        assert_eq!(request.messages[1].tool_calls.as_ref().unwrap()[0].function.name, "f");
        assert_eq!((request.output_limit(), request.params.stop.strings()), (Some(5), vec!["END".to_owned()]));
        assert_eq!(request.params.logit_bias.unwrap().into_iter().collect::<Vec<_>>(), [(7, 1.5), (50256, -100.0)]);
        assert!(request.params.stream && request.params.stream_options.unwrap().include_usage);
    }
}
