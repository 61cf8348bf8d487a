//! What a tier says when it plays a model: it does as the request asks, so that an SDK can drive it.

use bytes::Bytes;
use serde_json::{Value, json};
use terrace_wire::sse;

/// What it says without tools or a schema.
pub const TEXT: &str = "The capital of France is Paris.";
/// What it says as JSON, and gives tools.
pub const JSON: &str = r#"{"city": "Paris"}"#;

/// A whole answer to a request.
pub fn whole(body: &Value, chat: bool) -> Value {
    let choices: Vec<Value> = indexes(body).map(|index| whole_choice(body, chat, index)).collect();
    json!({"id": "upstream-id", "model": "upstream-model", "choices": choices, "usage": usage()})
}

/// The events of a streamed answer.
pub fn events(body: &Value, chat: bool) -> Vec<Bytes> {
    let mut events = Vec::new();
    let mut tell = |choice: Value| events.push(sse::json_event(&json!({"choices": [choice]})));
    for index in indexes(body) {
        let choice = |delta: Value, text: &str, finish: Value| {
            if chat {
                json!({"index": index, "delta": delta, "logprobs": likely(body, text), "finish_reason": finish})
            } else {
                json!({"index": index, "text": text, "finish_reason": finish})
            }
        };
        match said(body, chat) {
            Said::Call { name } => {
                let head = json!({"index": 0, "id": "call_1", "type": "function", "function": {"name": name, "arguments": ""}});
                tell(choice(json!({"role": "assistant", "tool_calls": [head]}), "", Value::Null));
                for part in JSON.split_inclusive(' ') {
                    let more = json!({"index": 0, "function": {"arguments": part}});
                    tell(choice(json!({"tool_calls": [more]}), "", Value::Null));
                }
                tell(choice(json!({}), "", "tool_calls".into()));
            }
            Said::Text(text) => {
                for part in text.split_inclusive(' ') {
                    tell(choice(json!({ "content": part }), part, Value::Null));
                }
                tell(choice(json!({}), "", "stop".into()));
            }
        }
    }
    events.push(sse::json_event(&json!({"choices": [], "usage": usage()})));
    events.push(sse::done_event());
    events
}

enum Said {
    Text(String),
    Call { name: String },
}

fn said(body: &Value, chat: bool) -> Said {
    if !chat {
        return Said::Text(TEXT.into());
    }
    let last = body["messages"].as_array().and_then(|messages| messages.last()).unwrap();
    if last["role"] == "tool" {
        return Said::Text(format!("The tool said: {}", last["content"].as_str().unwrap()));
    }
    if let Some(name) = body["tools"][0]["function"]["name"].as_str().filter(|_| body["tool_choice"] != "none") {
        return Said::Call { name: name.to_owned() };
    }
    Said::Text(if body["response_format"].is_object() { JSON.into() } else { TEXT.into() })
}

fn whole_choice(body: &Value, chat: bool, index: u64) -> Value {
    match said(body, chat) {
        Said::Text(text) if !chat => json!({"index": index, "text": text, "finish_reason": "stop"}),
        Said::Text(text) => {
            let message = json!({"role": "assistant", "content": text});
            json!({"index": index, "message": message, "logprobs": likely(body, &text), "finish_reason": "stop"})
        }
        Said::Call { name } => {
            let call = json!({"id": "call_1", "type": "function", "function": {"name": name, "arguments": JSON}});
            let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
            json!({"index": index, "message": message, "finish_reason": "tool_calls"})
        }
    }
}

/// A log-probability for each word, if they were asked for.
fn likely(body: &Value, text: &str) -> Value {
    if body["logprobs"] != true || text.is_empty() {
        return Value::Null;
    }
    let token = |word: &str| json!({"token": word, "logprob": -0.5, "bytes": word.as_bytes(), "top_logprobs": []});
    json!({"content": text.split_inclusive(' ').map(token).collect::<Vec<_>>(), "refusal": null})
}

fn indexes(body: &Value) -> std::ops::Range<u64> {
    0..body["n"].as_u64().unwrap_or(1)
}

fn usage() -> Value {
    json!({"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18, "prompt_tokens_details": {"cached_tokens": 4}})
}
