//! The request as a tier gets it: built new from the parsed tree, field by field.
//!
//! What is not on a list here does not travel, unless the tier names it in `extraFields`. The model is always the
//! tier's.

use serde_json::{Map, Value, json};
use terrace_contract::tier::{Backend, Tier};
use terrace_wire::json::member;

/// The calls that a tier answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// `/v1/chat/completions`
    Chat,
    /// `/v1/completions`
    Completion,
    /// `/v1/embeddings`
    Embedding,
}

impl Call {
    /// The path below a base URL that ends in `/v1`.
    pub fn path(self) -> &'static str {
        match self {
            Call::Chat => "/chat/completions",
            Call::Completion => "/completions",
            Call::Embedding => "/embeddings",
        }
    }

    /// `gen_ai.operation.name`.
    pub fn operation(self) -> &'static str {
        match self {
            Call::Chat => "chat",
            Call::Completion => "text_completion",
            Call::Embedding => "embeddings",
        }
    }
}

/// Fields of chat and text completions.
const SHARED: [&str; 12] = [
    "frequency_penalty",
    "logit_bias",
    "logprobs",
    "max_tokens",
    "n",
    "presence_penalty",
    "seed",
    "stop",
    "temperature",
    "top_p",
    "stream",
    "user",
];
/// Fields of a chat.
const CHAT: [&str; 14] = [
    "messages",
    "max_completion_tokens",
    "top_logprobs",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "response_format",
    "reasoning_effort",
    "functions",
    "function_call",
    "prediction",
    "verbosity",
    "safety_identifier",
    "prompt_cache_key",
];
/// Fields of a text completion.
const COMPLETION: [&str; 4] = ["prompt", "suffix", "echo", "best_of"];
/// Fields of embeddings.
const EMBEDDING: [&str; 4] = ["input", "encoding_format", "dimensions", "user"];
/// Fields of completions that our own agents take beyond those: an endpoint takes `metadata` only with what it stores.
const AGENT: [&str; 4] = ["top_k", "min_p", "repetition_penalty", "metadata"];
/// The same of embeddings.
const AGENT_EMBEDDING: [&str; 1] = ["pooling"];
/// Options of a stream that are the client's to choose.
const STREAM_OPTIONS: [&str; 1] = ["include_obfuscation"];
/// Members of a message that our own agents read beyond OpenAI's.
const AGENT_MESSAGE: &str = "reasoning_content";
/// Members of a message.
const MESSAGE: [&str; 7] = ["role", "content", "name", "tool_calls", "tool_call_id", "function_call", "refusal"];

/// The request for `tier`.
pub fn for_tier(request: &Value, call: Call, tier: &Tier, max_output_tokens: u32) -> Value {
    let (own, shared, agents) = match call {
        Call::Chat => (&CHAT[..], &SHARED[..], &AGENT[..]),
        Call::Completion => (&COMPLETION[..], &SHARED[..], &AGENT[..]),
        Call::Embedding => (&EMBEDDING[..], &[][..], &AGENT_EMBEDDING[..]),
    };
    let extra = |name: &str| match &tier.backend {
        Backend::Fleet(_) => agents.contains(&name),
        Backend::Endpoint(endpoint) => endpoint.extra_fields.iter().any(|extra| extra == name),
    };
    let mut body = Map::new();
    body.insert("model".into(), Value::from(tier.backend.model()));
    for (name, value) in request.as_object().into_iter().flatten() {
        let travels = own.contains(&name.as_str()) || shared.contains(&name.as_str()) || extra(name);
        if name == "model" || value.is_null() || !travels {
            continue;
        }
        let value = match value {
            Value::Array(messages) if name == "messages" => {
                let more = matches!(tier.backend, Backend::Fleet(_)).then_some(AGENT_MESSAGE);
                messages.iter().map(|m| message(m, more)).collect()
            }
            value => value.clone(),
        };
        body.insert(name.clone(), value);
    }
    limit_output(&mut body, call, max_output_tokens);
    if body.get("stream") == Some(&Value::Bool(true)) {
        // Tokens are counted even when the client does not ask: cost is per request.
        let mut options = json!({"include_usage": true});
        for name in STREAM_OPTIONS {
            if let Some(value) = request.get("stream_options").and_then(|o| o.get(name)).filter(|v| !v.is_null()) {
                options[name] = value.clone();
            }
        }
        body.insert("stream_options".into(), options);
    }
    Value::Object(body)
}

/// The policy's limit applies whether the caller named one or not.
fn limit_output(body: &mut Map<String, Value>, call: Call, most: u32) {
    let mut named = false;
    for name in ["max_completion_tokens", "max_tokens"] {
        if let Some(asked) = body.get(name).and_then(Value::as_u64) {
            named = true;
            body.insert(name.into(), asked.min(u64::from(most)).into());
        }
    }
    if !named && call == Call::Chat {
        body.insert("max_tokens".into(), most.into());
    }
}

fn message(message: &Value, more: Option<&str>) -> Value {
    let Some(members) = message.as_object() else { return message.clone() };
    let travels = |name: &str| MESSAGE.contains(&name) || more == Some(name);
    let kept = members.iter().filter(|(name, _)| travels(name));
    Value::Object(kept.map(|(name, value)| (name.clone(), value.clone())).collect())
}

/// Whether the client itself asked for the usage chunk of a stream.
pub fn wants_usage(request: &Value) -> bool {
    member(request, "stream_options").and_then(|options| options.get("include_usage")) == Some(&Value::Bool(true))
}
