//! `POST /v1/chat/completions`: the request as an agent reads it, and the answer, whole or in chunks.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use terrace_contract::confidence::Confidence;
use terrace_contract::cost::Cost;

use crate::error::{Code, ErrorBody};
use crate::hidden::Hidden;
use crate::pointer::Pointer;
use crate::stop::Stop;

/// A chat request. Fields that are not here are the router's business (forwarding) or are not supported.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ChatRequest {
    /// Model name.
    pub model: String,
    /// The conversation.
    pub messages: Vec<Message>,
    /// Whether to stream.
    #[serde(default, deserialize_with = "null_is_default")]
    pub stream: bool,
    /// Options of the stream.
    #[serde(default)]
    pub stream_options: Option<StreamOptions>,
    /// Output tokens at most (older name).
    #[serde(default)]
    pub max_tokens: Option<u32>,
    /// Output tokens at most.
    #[serde(default)]
    pub max_completion_tokens: Option<u32>,
    /// 0 is greedy; 1 by default.
    #[serde(default)]
    pub temperature: Option<f32>,
    /// Nucleus; 1 by default.
    #[serde(default)]
    pub top_p: Option<f32>,
    /// Most likely tokens considered; 0: all. Not OpenAI's.
    #[serde(default)]
    pub top_k: Option<u32>,
    /// Least probability relative to the most likely token. Not OpenAI's.
    #[serde(default)]
    pub min_p: Option<f32>,
    /// -2 to 2.
    #[serde(default)]
    pub presence_penalty: Option<f32>,
    /// -2 to 2.
    #[serde(default)]
    pub frequency_penalty: Option<f32>,
    /// Same seed, same text.
    #[serde(default)]
    pub seed: Option<i64>,
    /// Stop strings.
    #[serde(default)]
    pub stop: Stop,
    /// Choices wanted.
    #[serde(default)]
    pub n: Option<u32>,
    /// Whether to return log-probabilities.
    #[serde(default, deserialize_with = "null_is_default")]
    pub logprobs: bool,
    /// Alternatives at each position.
    #[serde(default)]
    pub top_logprobs: Option<u32>,
    /// Tool definitions.
    #[serde(default)]
    pub tools: Option<Vec<Value>>,
    /// Tool choice.
    #[serde(default)]
    pub tool_choice: Option<Value>,
    /// JSON mode or schema.
    #[serde(default)]
    pub response_format: Option<Value>,
}

/// Options of a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamOptions {
    /// A last chunk with usage and no choices.
    #[serde(default)]
    pub include_usage: bool,
}

fn null_is_default<'de, D: serde::Deserializer<'de>, T: Default + Deserialize<'de>>(d: D) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(d)?.unwrap_or_default())
}

/// Roles that a message may have.
pub const ROLES: [&str; 6] = ["system", "developer", "user", "assistant", "tool", "function"];

/// One message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// One of [`ROLES`].
    pub role: String,
    /// Text or parts.
    #[serde(default)]
    pub content: Content,
    /// Who speaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Calls of an assistant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<Vec<Value>>,
    /// The call that a tool answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
}

/// Text or parts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// null.
    #[default]
    Null,
    /// Plain text.
    Text(String),
    /// Parts, each with a `type`.
    Parts(Vec<Part>),
}

/// One part of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// `text`, `image_url`, …
    pub r#type: String,
    /// Text of a `text` part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl Content {
    /// The text, parts joined by nothing; none if a part is not text.
    pub fn text(&self) -> Option<String> {
        match self {
            Content::Null => Some(String::new()),
            Content::Text(t) => Some(t.clone()),
            Content::Parts(parts) => {
                parts.iter().map(|p| (p.r#type == "text").then(|| p.text.clone().unwrap_or_default())).collect()
            }
        }
    }
}

impl ChatRequest {
    /// Reads a parsed body.
    ///
    /// # Errors
    /// The error body to send: 400 with the field by JSON pointer.
    pub fn from_value(value: Value) -> Result<Self, ErrorBody> {
        check_shape(&value)?;
        let request: ChatRequest = serde_json::from_value(value).map_err(|_| {
            ErrorBody::new(
                Code::InvalidRequest,
                "a field has the wrong type: compare the request with OpenAI's chat completions API",
            )
        })?;
        Ok(request)
    }

    /// Output tokens at most, if the caller said.
    pub fn output_limit(&self) -> Option<u32> {
        self.max_completion_tokens.or(self.max_tokens)
    }
}

/// What both the router and the agent require of a chat request's tree, each fault named by its JSON pointer.
///
/// # Errors
/// The error body to send (400).
pub fn check_shape(value: &Value) -> Result<(), ErrorBody> {
    let fault = |pointer: Pointer, message: &str| {
        Err(ErrorBody::new(Code::InvalidRequest, format!("{pointer}: {message}")).at(&pointer))
    };
    let root = Pointer::root();
    let Some(object) = value.as_object() else { return fault(root, "the body must be a JSON object") };
    if !object.get("model").is_some_and(Value::is_string) {
        return fault(root.key("model"), "give the model's name as a string; `auto` leaves the choice to the policy");
    }
    let at = root.key("messages");
    let Some(messages) = object.get("messages").and_then(Value::as_array) else {
        return fault(at, "give a list of messages");
    };
    if messages.is_empty() {
        return fault(at, "give at least one message");
    }
    for (i, message) in messages.iter().enumerate() {
        let at = at.index(i);
        let Some(message) = message.as_object() else {
            return fault(at, "a message is an object with role and content");
        };
        match message.get("role").and_then(Value::as_str) {
            Some(role) if ROLES.contains(&role) => {}
            _ => {
                return fault(
                    at.key("role"),
                    "the role must be one of system, developer, user, assistant, tool, function",
                );
            }
        }
        match message.get("content") {
            None | Some(Value::Null | Value::String(_)) => {}
            Some(Value::Array(parts)) => {
                for (j, part) in parts.iter().enumerate() {
                    if !part.get("type").is_some_and(Value::is_string) {
                        return fault(at.key("content").index(j).key("type"), "a content part needs a type");
                    }
                }
            }
            Some(_) => return fault(at.key("content"), "content is a string, a list of parts, or null"),
        }
    }
    check_numbers(object, &root)
}

/// Numbers that both chat and text completions share.
fn check_numbers(object: &serde_json::Map<String, Value>, root: &Pointer) -> Result<(), ErrorBody> {
    let fault = |name: &str, message: &str| {
        let pointer = root.key(name);
        Err(ErrorBody::new(Code::InvalidRequest, format!("{pointer}: {message}")).at(&pointer))
    };
    let given = |name: &str| object.get(name).filter(|v| !v.is_null());
    for name in ["max_tokens", "max_completion_tokens", "n"] {
        if given(name).is_some_and(|v| v.as_u64().is_none_or(|n| n == 0 || n > u64::from(u32::MAX))) {
            return fault(name, "must be a whole number of at least 1");
        }
    }
    for (name, low, high) in [
        ("temperature", 0.0, 2.0),
        ("top_p", 0.0, 1.0),
        ("min_p", 0.0, 1.0),
        ("presence_penalty", -2.0, 2.0),
        ("frequency_penalty", -2.0, 2.0),
    ] {
        if given(name).is_some_and(|v| v.as_f64().is_none_or(|n| !(low..=high).contains(&n))) {
            return fault(name, &format!("must be a number from {low} to {high}"));
        }
    }
    if given("stream").is_some_and(|v| !v.is_boolean()) {
        return fault("stream", "must be true or false");
    }
    match given("stop") {
        None | Some(Value::String(_)) => {}
        Some(Value::Array(many)) if many.len() <= 4 && many.iter().all(Value::is_string) => {}
        Some(_) => return fault("stop", "must be a string or a list of at most four strings"),
    }
    Ok(())
}

/// What text completions require, each fault named by its JSON pointer.
///
/// # Errors
/// The error body to send (400).
pub fn check_completion_shape(value: &Value) -> Result<(), ErrorBody> {
    let root = Pointer::root();
    let fault = |pointer: Pointer, message: &str| {
        Err(ErrorBody::new(Code::InvalidRequest, format!("{pointer}: {message}")).at(&pointer))
    };
    let Some(object) = value.as_object() else { return fault(root, "the body must be a JSON object") };
    if !object.get("model").is_some_and(Value::is_string) {
        return fault(root.key("model"), "give the model's name as a string; `auto` leaves the choice to the policy");
    }
    if !object.get("prompt").is_some_and(Value::is_string) {
        return fault(root.key("prompt"), "give the prompt as one string");
    }
    check_numbers(object, &root)
}

/// Tokens used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Prompt tokens.
    pub prompt_tokens: u32,
    /// Output tokens.
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

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatCompletion {
    /// `chatcmpl-…`
    pub id: String,
    /// `chat.completion`.
    pub object: String,
    /// Seconds since the Unix epoch.
    pub created: u64,
    /// The model that answered.
    pub model: String,
    /// The answers.
    pub choices: Vec<Choice>,
    /// Tokens used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Only for a router that asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terrace: Option<Terrace>,
}

/// One answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// Its index.
    pub index: u32,
    /// What was said.
    pub message: AssistantMessage,
    /// Log-probabilities, if asked for.
    #[serde(default)]
    pub logprobs: Option<Value>,
    /// `stop`, `length`, `tool_calls`, `error`.
    pub finish_reason: Option<String>,
}

/// What was said.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// `assistant`.
    pub role: String,
    /// The text.
    pub content: Option<String>,
    /// Tool calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<Vec<Value>>,
    /// A refusal.
    #[serde(default)]
    pub refusal: Option<String>,
}

/// One event of a stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatChunk {
    /// `chatcmpl-…`
    pub id: String,
    /// `chat.completion.chunk`.
    pub object: String,
    /// Seconds since the Unix epoch.
    pub created: u64,
    /// The model that answers.
    pub model: String,
    /// What changed; empty in the usage chunk.
    pub choices: Vec<ChunkChoice>,
    /// In the last chunk, if asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// In the last event before `[DONE]`, only for a router that asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terrace: Option<Terrace>,
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
    pub logprobs: Option<Value>,
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
    pub tool_calls: Option<Vec<Value>>,
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
    pub load: Option<terrace_contract::load::Load>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn faults_are_named_by_pointer_and_never_by_content() {
        let ok = json!({"role": "user", "content": "x"});
        let cases = [
            (json!([]), "/"),
            (json!({"messages": [ok]}), "/model"),
            (json!({"model": "m"}), "/messages"),
            (json!({"model": "m", "messages": []}), "/messages"),
            (json!({"model": "m", "messages": [ok, {"role": "wizard-secret", "content": "x"}]}), "/messages/1/role"),
            (json!({"model": "m", "messages": [{"role": "user", "content": 7}]}), "/messages/0/content"),
            (
                json!({"model": "m", "messages": [{"role": "user", "content": [{"text": "x"}]}]}),
                "/messages/0/content/0/type",
            ),
            (json!({"model": "m", "messages": [ok], "temperature": 9}), "/temperature"),
            (json!({"model": "m", "messages": [ok], "max_tokens": 0}), "/max_tokens"),
            (json!({"model": "m", "messages": [ok], "stop": ["a", "b", "c", "d", "e"]}), "/stop"),
        ];
        for (body, pointer) in cases {
            let error = ChatRequest::from_value(body).unwrap_err().error;
            assert_eq!(error.param.as_deref(), Some(pointer));
            assert!(!error.message.contains("secret"), "{}", error.message);
        }
    }

    #[test]
    fn a_request_as_sdks_send_it_is_read() {
        let body = json!({"model": "auto", "stream": true, "stream_options": {"include_usage": true}, "stop": "END",
            "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}],
            "max_completion_tokens": 5, "temperature": 0, "unknown": {"x": 1}, "logprobs": null});
        let request = ChatRequest::from_value(body).unwrap();
        assert_eq!(request.messages[0].content.text().as_deref(), Some("ab"));
        assert_eq!((request.output_limit(), request.stop.strings()), (Some(5), vec!["END".to_owned()]));
    }
}
