//! From OpenAI's request to the engine's: what is not built is refused by name, never silently ignored.

use std::time::{Duration, Instant};

use http::HeaderMap;
use serde_json::{Value, json};
use terrace_contract::headers;
use terrace_contract::names::AUTO_MODEL;
use terrace_wire::chat::{ChatRequest, Message};
use terrace_wire::completion::CompletionRequest;
use terrace_wire::error::Code;
use terrace_wire::pointer::Pointer;
use terrace_wire::stop::Stop;

use super::Agent;
use super::access::Role;
use super::error::ApiError;
use super::hidden;
use crate::engine::{EngineHandle, GenerateRequest, Sampling};

/// Tokens of a text completion where the caller says nothing, as OpenAI's.
const COMPLETION_TOKENS: u32 = 16;
/// Alternatives that may be asked for.
const MOST_ALTERNATIVES: u32 = 20;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wire {
    /// `/v1/chat/completions`
    Chat,
    /// `/v1/completions`
    Text,
    /// `/v1/embeddings`
    Embedding,
}

impl Wire {
    /// `gen_ai.operation.name`.
    pub(super) fn operation(self) -> &'static str {
        match self {
            Wire::Chat => "chat",
            Wire::Text => "text_completion",
            Wire::Embedding => "embeddings",
        }
    }
}

/// What to answer, and how.
pub(super) struct Job {
    pub(super) stream: bool,
    pub(super) include_usage: bool,
    /// Alternatives a token; none: no log-probabilities.
    pub(super) logprobs: Option<u8>,
    /// Whether confidence, cost and load go with the answer.
    pub(super) confidence: bool,
    /// Hidden states that go with it.
    pub(super) hidden: Option<hidden::Asked>,
    pub(super) generate: GenerateRequest,
}

/// What a router may say in headers; nothing of it counts from anyone else.
pub(super) struct Wishes {
    pub(super) deadline: Option<Instant>,
    pub(super) confidence: bool,
    hidden: Option<hidden::Asked>,
}

impl Wishes {
    pub(super) fn read(role: Role, headers: &HeaderMap, arrived: Instant) -> Result<Self, ApiError> {
        if role != Role::Router {
            return Ok(Self { deadline: None, confidence: false, hidden: None });
        }
        let text = |name: &str| headers.get(name).map(|v| v.to_str().unwrap_or_default());
        let deadline = match text(headers::DEADLINE_MS).map(str::parse::<u32>) {
            None => None,
            Some(Ok(millis)) => Some(arrived + Duration::from_millis(u64::from(millis))),
            Some(Err(_)) => {
                let message = format!("{} must be whole milliseconds", headers::DEADLINE_MS);
                return Err(ApiError::new(Code::InvalidRequest, message));
            }
        };
        let hidden = text(headers::HIDDEN).map(hidden::Asked::read).transpose()?;
        Ok(Self { deadline, confidence: text(headers::CONFIDENCE) == Some("1"), hidden })
    }
}

/// Reads a body of either wire and makes its prompt.
pub(super) async fn job(
    agent: &Agent,
    wire: Wire,
    role: Role,
    headers: &HeaderMap,
    body: Value,
    arrived: Instant,
) -> Result<Job, ApiError> {
    let wishes = Wishes::read(role, headers, arrived)?;
    let asked = match wire {
        Wire::Chat => Asked::chat(ChatRequest::from_value(body)?)?,
        _ => Asked::text(CompletionRequest::from_value(body)?),
    };
    check_model(agent, &asked.model)?;
    let Asked { model: _, prompt, stream, include_usage, max_tokens, sampling, stop, logprobs } = asked;
    let engine = agent.engine.clone();
    // A long prompt takes milliseconds, which other streams should not wait for.
    let tokens = tokio::task::spawn_blocking(move || prompt.tokens(&engine))
        .await
        .map_err(|_| ApiError::new(Code::Internal, "the prompt could not be read"))??;
    let generate = GenerateRequest {
        sampling,
        stop: stop.strings(),
        deadline: wishes.deadline,
        top_logprobs: logprobs.unwrap_or(0),
        hidden: wishes.hidden.map(hidden::Asked::pooling),
        ..GenerateRequest::new(tokens, max_tokens.unwrap_or(agent.model.context_tokens))
    };
    Ok(Job { stream, include_usage, logprobs, confidence: wishes.confidence, hidden: wishes.hidden, generate })
}

/// Whether this agent serves what is asked for.
///
/// # Errors
/// 404 with the name that it has.
pub(super) fn check_model(agent: &Agent, asked: &str) -> Result<(), ApiError> {
    if asked == agent.model.name || asked == AUTO_MODEL {
        return Ok(());
    }
    let message = format!("this agent serves only the model {:?}", agent.model.name);
    Err(ApiError::new(Code::ModelNotFound, message).at(&Pointer::root().key("model")))
}

/// What both wires have in common.
struct Asked {
    model: String,
    prompt: Prompt,
    stream: bool,
    include_usage: bool,
    max_tokens: Option<u32>,
    sampling: Sampling,
    stop: Stop,
    logprobs: Option<u8>,
}

enum Prompt {
    Text(String),
    Messages(Vec<Value>),
}

impl Asked {
    fn chat(request: ChatRequest) -> Result<Self, ApiError> {
        unsupported(&request)?;
        let alternatives = request.top_logprobs.unwrap_or(0);
        if alternatives > MOST_ALTERNATIVES {
            let message = format!("/top_logprobs: at most {MOST_ALTERNATIVES}");
            return Err(ApiError::new(Code::InvalidRequest, message).at(&Pointer::root().key("top_logprobs")));
        }
        let messages: Result<Vec<Value>, ApiError> = request
            .messages
            .iter()
            .enumerate()
            .map(|(i, m)| message(m, &Pointer::root().key("messages").index(i)))
            .collect();
        Ok(Self {
            max_tokens: request.output_limit(),
            prompt: Prompt::Messages(messages?),
            stream: request.stream,
            include_usage: request.stream_options.is_some_and(|o| o.include_usage),
            sampling: Sampling {
                temperature: request.temperature.unwrap_or(1.0),
                top_p: request.top_p.unwrap_or(1.0),
                top_k: request.top_k.unwrap_or(0),
                min_p: request.min_p.unwrap_or(0.0),
                presence_penalty: request.presence_penalty.unwrap_or(0.0),
                frequency_penalty: request.frequency_penalty.unwrap_or(0.0),
                seed: request.seed.map(i64::cast_unsigned),
                ..Sampling::default()
            },
            stop: request.stop,
            logprobs: request.logprobs.then_some(alternatives as u8),
            model: request.model,
        })
    }

    fn text(request: CompletionRequest) -> Self {
        Self {
            model: request.model,
            prompt: Prompt::Text(request.prompt),
            stream: request.stream.unwrap_or(false),
            include_usage: request.stream_options.is_some_and(|o| o.include_usage),
            max_tokens: Some(request.max_tokens.unwrap_or(COMPLETION_TOKENS)),
            sampling: Sampling {
                temperature: request.temperature.unwrap_or(1.0),
                top_p: request.top_p.unwrap_or(1.0),
                top_k: request.top_k.unwrap_or(0),
                seed: request.seed.map(i64::cast_unsigned),
                ..Sampling::default()
            },
            stop: request.stop,
            logprobs: None,
        }
    }
}

impl Prompt {
    fn tokens(self, engine: &EngineHandle) -> Result<Vec<u32>, ApiError> {
        let refused = |e: String| ApiError::new(Code::InvalidRequest, e);
        let ids = match self {
            Prompt::Text(text) => engine.tokenizer().encode(&text),
            Prompt::Messages(messages) => {
                let template = engine.chat_template().ok_or_else(|| {
                    ApiError::new(Code::UnsupportedFeature, "the model has no chat template: use /v1/completions")
                })?;
                let prompt = template.render(&messages, None).map_err(|e| refused(e.to_string()))?;
                engine.tokenizer().encode_prompt(&prompt)
            }
        };
        ids.map_err(|e| refused(e.to_string()))
    }
}

/// A message as templates take it: plain text, `developer` under its older name.
fn message(message: &Message, at: &Pointer) -> Result<Value, ApiError> {
    let text = message.content.text().ok_or_else(|| {
        let at = at.key("content");
        ApiError::new(Code::UnsupportedFeature, format!("{at}: only text parts are supported")).at(&at)
    })?;
    let role = if message.role == "developer" { "system" } else { &message.role };
    Ok(json!({"role": role, "content": text}))
}

/// Fields whose behaviour is not built: 422 with the pointer.
fn unsupported(request: &ChatRequest) -> Result<(), ApiError> {
    let plain_text = |format: &Value| format.get("type").and_then(Value::as_str) == Some("text");
    let calls = |m: &Message| m.tool_calls.as_ref().is_some_and(|calls| !calls.is_empty());
    let faults = [
        ("n", request.n.is_some_and(|n| n > 1), "one choice a request is supported"),
        ("tools", request.tools.as_ref().is_some_and(|t| !t.is_empty()), "tool calls are not supported"),
        ("messages", request.messages.iter().any(calls), "tool calls are not supported"),
        (
            "response_format",
            request.response_format.as_ref().is_some_and(|f| !f.is_null() && !plain_text(f)),
            "only plain text answers are supported",
        ),
    ];
    match faults.into_iter().find(|(_, wrong, _)| *wrong) {
        None => Ok(()),
        Some((field, _, why)) => {
            let at = Pointer::root().key(field);
            Err(ApiError::new(Code::UnsupportedFeature, format!("{at}: {why} by this agent")).at(&at))
        }
    }
}
