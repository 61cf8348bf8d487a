//! What must hold of every translated request, wherever it is wrong: no panic, no content in an error, a chat
//! completion that can be sent, and nothing said that is lost on the way.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use serde_json::{Value, json};
use terrace_wire::error::ErrorBody;
use terrace_wire::translated::Translated;
use terrace_wire::{messages, responses, shape};

const MARKER: &str = "zqmarker";

/// A Messages request that has everything.
fn message() -> Value {
    let (cached, schema) =
        (json!({"type": "ephemeral"}), json!({"type": "object", "properties": {"a": {"type": "string"}}}));
    json!({
        "model": "auto", "max_tokens": 9, "system": [{"type": "text", "text": "s", "cache_control": cached}],
        "stop_sequences": ["x"], "stream": true, "temperature": 0.5, "top_p": 0.9, "top_k": 5,
        "metadata": {"user_id": "u", "feature": "f"}, "thinking": {"type": "disabled"}, "service_tier": "auto",
        "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": schema}},
        "tools": [{"type": "custom", "name": "f", "description": "d", "input_schema": schema, "strict": true}],
        "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": true},
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "a"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
                {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}}]},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": "s"},
                {"type": "text", "text": "b"}, {"type": "tool_use", "id": "t1", "name": "f", "input": {"k": "v"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "is_error": false,
                "content": [{"type": "text", "text": "r"}]}, {"type": "text", "text": "c"}]}]})
}

/// A Responses request that has everything.
fn response() -> Value {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    json!({
        "model": "auto", "instructions": "s", "max_output_tokens": 9, "temperature": 0.5, "top_p": 0.9, "stream": true,
        "tools": [{"type": "function", "name": "f", "description": "d", "parameters": schema, "strict": true}],
        "tool_choice": {"type": "function", "name": "f"}, "parallel_tool_calls": false, "store": false,
        "text": {"format": {"type": "json_schema", "name": "n", "schema": schema, "description": "e"}, "verbosity": "low"},
        "reasoning": {"effort": "low", "summary": "auto"}, "include": ["message.output_text.logprobs"], "top_logprobs": 2,
        "metadata": {"feature": "f"}, "user": "u", "safety_identifier": "i", "prompt_cache_key": "k",
        "truncation": "disabled", "service_tier": "auto", "stream_options": {"include_obfuscation": false},
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "a"},
                {"type": "input_image", "image_url": "https://x/y.png", "detail": "low"}]},
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "message", "id": "m_1", "status": "completed", "role": "assistant",
                "content": [{"type": "output_text", "text": "b", "annotations": []}, {"type": "refusal", "refusal": "no"}]},
            {"type": "function_call", "id": "fc_1", "status": "completed", "call_id": "c1", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "r"}]}]})
}

type ToChat = fn(&Value) -> Result<Translated, ErrorBody>;

fn both() -> [(Value, ToChat); 2] {
    [
        (message(), messages::to_chat),
        (response(), |request| responses::to_chat(request).map(|(translated, _)| translated)),
    ]
}

/// The pointers of all nodes of a tree.
fn places(value: &Value) -> Vec<String> {
    let mut found = vec![String::new()];
    let inner: Vec<(String, &Value)> = match value {
        Value::Array(items) => items.iter().enumerate().map(|(i, v)| (i.to_string(), v)).collect(),
        Value::Object(map) => map.iter().map(|(key, v)| (key.clone(), v)).collect(),
        _ => return found,
    };
    for (key, value) in inner {
        found.extend(places(value).into_iter().map(|place| format!("/{key}{place}")));
    }
    found
}

#[test]
fn whatever_stands_anywhere_is_read_or_refused_by_its_place() {
    let (mut read, mut refused) = (0, 0);
    for (request, to_chat) in both() {
        assert!(to_chat(&request).is_ok());
        for place in places(&request) {
            for instead in [
                json!(null),
                json!(7),
                json!(-1.5),
                json!(true),
                json!(MARKER),
                json!([]),
                json!([MARKER]),
                json!({MARKER: MARKER}),
            ] {
                let mut request = request.clone();
                *request.pointer_mut(&place).unwrap() = instead.clone();
                let told = to_chat(&request).and_then(|translated| {
                    assert_eq!(translated.chat["messages"].as_array().unwrap().len(), translated.origins.len());
                    shape::check_chat(&translated.chat)?;
                    shape::check_calls(&translated.chat)
                });
                match told {
                    Ok(()) => read += 1,
                    Err(error) => {
                        refused += 1;
                        let param = error.error.param.unwrap_or_else(|| panic!("{place} {instead}: no place"));
                        assert!(!error.error.message.contains(MARKER), "{place} {instead}: {}", error.error.message);
                        // Where it says it is, or above or below it: a place of the client's own request. What an object is
                        // for is said by its role or type, so that a wrong one may show beside it.
                        let kind = place.strip_suffix("/role").or_else(|| place.strip_suffix("/type"));
                        let near =
                            param == "/" || place.starts_with(&param) || param.starts_with(kind.unwrap_or(&place));
                        assert!(near, "{place} {instead}: it says {param}");
                    }
                }
            }
        }
    }
    assert!(read > 100 && refused > 500, "{read} read, {refused} refused");
}

/// Texts that no tier needs: marks of the API's own, thoughts of other models, and ids that only another server knows.
const LEFT_OUT: &[&str] = &[
    "/cache_control/type",
    "/thinking",
    "/signature",
    "/service_tier",
    "/input/1/id",
    "/input/2/id",
    "/input/2/status",
    "/input/3/id",
    "/input/3/status",
];

#[test]
fn nothing_that_is_said_is_lost() {
    for (request, to_chat) in both() {
        let texts = places(&request);
        let texts: Vec<&String> = texts.iter().filter(|place| request.pointer(place).unwrap().is_string()).collect();
        let mut told = 0;
        for place in &texts {
            let mut request = request.clone();
            *request.pointer_mut(place).unwrap() = MARKER.into();
            let Ok(translated) = to_chat(&request) else { continue };
            let arrived = translated.chat.to_string().contains(MARKER);
            let left_out = LEFT_OUT.iter().any(|end| place.ends_with(end));
            assert_ne!(arrived, left_out, "{place}");
            told += u32::from(arrived);
        }
        assert!(told > 15, "{told} of {}", texts.len());
    }
}
