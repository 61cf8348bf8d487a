//! Whatever stands where an optional field may stand: it is read, or the error names its place.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

use serde_json::{Value, json};
use terrace_wire::chat::ChatRequest;
use terrace_wire::completion::CompletionRequest;
use terrace_wire::embedding::EmbeddingRequest;
use terrace_wire::error::ErrorBody;
use terrace_wire::format::ResponseFormat;
use terrace_wire::tools::{read_choice, read_tools};

const SHARED: &[&str] = &[
    "stream",
    "stream_options",
    "max_tokens",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "seed",
    "stop",
    "n",
    "logprobs",
    "user",
    "metadata",
];
const CHAT: &[&str] = &[
    "max_completion_tokens",
    "top_logprobs",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "response_format",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "messages",
];
const COMPLETION: &[&str] = &["prompt", "echo", "best_of", "suffix"];
const EMBEDDING: &[&str] = &["input", "encoding_format", "dimensions", "pooling", "user"];

/// Values of every type, and numbers at the edges of what some language can hold.
fn values() -> Vec<Value> {
    let plain = [
        json!(true),
        json!(0),
        json!(-1),
        json!(-2),
        json!(1.5),
        json!(u32::MAX),
        json!(u64::from(u32::MAX) + 1),
        json!(i64::MAX),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(1e300),
        json!(-1e300),
        json!(""),
        json!("secret"),
        json!("5"),
        json!([]),
        json!({}),
    ];
    let inside = |value: Value| {
        let names = ["include_usage", "5", "+5", "type", "function", "json_schema", "role", "content"];
        let objects = names.map(|name| json!({ name: value.clone() }));
        [json!([value]), json!([[value]]), json!(["a", value])].into_iter().chain(objects).collect::<Vec<_>>()
    };
    let deeper = plain.iter().cloned().chain([Value::Null]).flat_map(inside);
    plain.iter().cloned().chain(deeper).collect()
}

fn check(base: &Value, fields: &[&str], read: impl Fn(Value) -> Result<(), ErrorBody>) {
    read(base.clone()).unwrap();
    for field in fields {
        let mut body = base.clone();
        body[*field] = Value::Null;
        assert!(base.get(*field).is_some() || read(body.clone()).is_ok(), "{field}: null");
        for value in values() {
            body[*field] = value.clone();
            let Err(error) = read(body.clone()) else { continue };
            let at = error.error.param.unwrap_or_else(|| panic!("{field}: {value}: {}", error.error.message));
            assert!(at == format!("/{field}") || at.starts_with(&format!("/{field}/")), "{field}: {value}: {at}");
            assert!(error.error.message.starts_with(&at) && !error.error.message.contains("secret"), "{value}");
        }
    }
}

#[test]
fn a_wrong_type_is_named_with_its_place_whatever_the_field() {
    let chat = json!({"model": "m", "messages": [{"role": "user", "content": "x"}]});
    check(&chat, &[SHARED, CHAT].concat(), |body| {
        let request = ChatRequest::from_value(body)?;
        let tools = read_tools(request.tools.as_ref())?;
        read_choice(request.tool_choice.as_ref(), &tools)?;
        ResponseFormat::read(request.response_format.as_ref()).map(|_| ())
    });
    let completion = json!({"model": "m", "prompt": "x"});
    check(&completion, &[SHARED, COMPLETION].concat(), |body| CompletionRequest::from_value(body).map(|_| ()));
    let embedding = json!({"model": "m", "input": "x"});
    check(&embedding, EMBEDDING, |body| EmbeddingRequest::from_value(body).map(|_| ()));
}
