//! What a tier must be able to do for this request.

use serde_json::Value;
use terrace_contract::tier::Feature;
use terrace_wire::json::member;

use crate::dispatch::body::Call;

/// The abilities that a request needs, each once.
pub fn of_request(call: Call, request: &Value) -> Vec<Feature> {
    if call == Call::Embedding {
        return vec![Feature::Embeddings];
    }
    let filled = |name: &str| member(request, name).and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    let mut needs = Vec::new();
    if filled("tools") || filled("functions") {
        needs.push(Feature::Tools);
    }
    if parts(request).any(|part| member(part, "type").and_then(Value::as_str).is_some_and(is_picture)) {
        needs.push(Feature::Vision);
    }
    let logprobs = member(request, "logprobs").is_some_and(|v| v.as_bool() == Some(true) || v.as_u64().is_some());
    if logprobs || member(request, "top_logprobs").is_some_and(|v| !v.is_null()) {
        needs.push(Feature::Logprobs);
    }
    if format(request) == Some("json_schema") {
        needs.push(Feature::JsonSchema);
    }
    needs
}

/// Whether an answer with a form is wanted: a tool's call, JSON, or what follows a tool's result.
pub fn form(request: &Value) -> bool {
    let filled = |name: &str| member(request, name).and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    let called =
        (filled("tools") || filled("functions")) && member(request, "tool_choice") != Some(&Value::from("none"));
    let json = format(request).is_some_and(|kind| kind != "text");
    let messages = member(request, "messages").and_then(Value::as_array);
    let last = messages.and_then(|messages| messages.last()?.get("role")?.as_str());
    called || json || matches!(last, Some("tool" | "function"))
}

/// The type of the answer's format.
fn format(request: &Value) -> Option<&str> {
    member(request, "response_format")?.get("type")?.as_str()
}

fn is_picture(kind: &str) -> bool {
    matches!(kind, "image_url" | "image" | "input_image")
}

/// Every content part of every message.
pub(super) fn parts(request: &Value) -> impl Iterator<Item = &Value> {
    let messages = member(request, "messages").and_then(Value::as_array);
    messages.into_iter().flatten().filter_map(|m| member(m, "content").and_then(Value::as_array)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_answer_with_a_form_is_seen() {
        let cases = [
            (json!({"messages": [{"role": "user"}]}), false),
            (json!({"tools": []}), false),
            (json!({"tools": [{"type": "function"}]}), true),
            (json!({"tools": [{"type": "function"}], "tool_choice": "none"}), false),
            (json!({"response_format": {"type": "json_object"}}), true),
            (json!({"response_format": {"type": "text"}}), false),
            (json!({"messages": [{"role": "user"}, {"role": "tool"}]}), true),
            (json!({"messages": [{"role": "tool"}, {"role": "user"}]}), false),
        ];
        for (request, want) in cases {
            assert_eq!(form(&request), want, "{request}");
        }
    }

    #[test]
    fn each_need_is_seen_where_openai_puts_it() {
        let cases = [
            (json!({"messages": []}), vec![]),
            (json!({"tools": []}), vec![]),
            (json!({"tools": [{"type": "function"}]}), vec![Feature::Tools]),
            (json!({"messages": [{"content": [{"type": "image_url"}]}]}), vec![Feature::Vision]),
            (json!({"logprobs": true}), vec![Feature::Logprobs]),
            (json!({"logprobs": false, "top_logprobs": null}), vec![]),
            (json!({"logprobs": 3}), vec![Feature::Logprobs]),
            (json!({"response_format": {"type": "json_schema"}}), vec![Feature::JsonSchema]),
            (json!({"response_format": {"type": "json_object"}}), vec![]),
        ];
        for (request, want) in cases {
            assert_eq!(of_request(Call::Chat, &request), want, "{request}");
        }
        assert_eq!(of_request(Call::Embedding, &json!({"input": "x", "tools": [1]})), [Feature::Embeddings]);
    }
}
