//! What an agent does with each field of a request: what is not built is refused by name, never silently ignored.

use serde_json::{Map, Value};
use terrace_wire::error::ErrorBody;
use terrace_wire::pointer::Pointer;

use super::request::Wire;

/// A field's fate.
enum Fate {
    /// Read.
    Read,
    /// Tells who asks or where to keep things; changes no answer.
    Harmless,
    /// Read if it has one of these values, which ask for nothing.
    Only(&'static [&'static str], &'static str),
    /// Understood, not built.
    Refused(&'static str),
}

use Fate::{Harmless, Only, Read, Refused};

const PARAMS: &[(&str, Fate)] = &[
    ("model", Read),
    ("stream", Read),
    ("stream_options", Read),
    ("max_tokens", Read),
    ("temperature", Read),
    ("top_p", Read),
    ("top_k", Read),
    ("min_p", Read),
    ("repetition_penalty", Read),
    ("presence_penalty", Read),
    ("frequency_penalty", Read),
    ("logit_bias", Read),
    ("seed", Read),
    ("stop", Read),
    ("n", Read),
    ("logprobs", Read),
    ("user", Harmless),
    ("metadata", Harmless),
];
const CHAT: &[(&str, Fate)] = &[
    ("messages", Read),
    ("max_completion_tokens", Read),
    ("top_logprobs", Read),
    ("tools", Read),
    ("tool_choice", Read),
    ("parallel_tool_calls", Read),
    ("response_format", Read),
    ("safety_identifier", Harmless),
    ("prompt_cache_key", Harmless),
    ("prompt_cache_retention", Harmless),
    ("store", Only(&["false"], "nothing is stored here")),
    ("service_tier", Only(&["\"auto\"", "\"default\""], "there is one tier of service")),
    ("modalities", Only(&["[\"text\"]"], "answers are text")),
    ("audio", Refused("answers are text")),
    ("functions", Refused("use tools")),
    ("function_call", Refused("use tool_choice")),
    ("prediction", Refused("predicted outputs are not supported")),
    ("reasoning_effort", Refused("the effort cannot be set")),
    ("verbosity", Refused("the length can only be limited, with max_completion_tokens")),
    ("web_search_options", Refused("nothing is searched from here")),
];
const COMPLETION: &[(&str, Fate)] = &[
    ("prompt", Read),
    ("echo", Read),
    ("best_of", Read),
    ("suffix", Only(&["\"\""], "text cannot be inserted before a suffix: leave it out")),
];
const STREAM_OPTIONS: &[(&str, Fate)] =
    &[("include_usage", Read), ("include_obfuscation", Only(&["false"], "events are not padded"))];
const MESSAGE: &[(&str, Fate)] = &[
    ("role", Read),
    ("content", Read),
    ("name", Read),
    ("tool_calls", Read),
    ("tool_call_id", Read),
    ("refusal", Read),
    ("reasoning_content", Read),
    ("annotations", Only(&["[]"], "annotations are not read: leave them out")),
    ("audio", Refused("only text is read")),
    ("function_call", Refused("use tool_calls")),
];
const CALL: &[(&str, Fate)] = &[("id", Read), ("type", Read), ("function", Read), ("index", Harmless)];
const CALLED: &[(&str, Fate)] = &[("name", Read), ("arguments", Read)];
const TOOL: &[(&str, Fate)] = &[("type", Read), ("function", Read)];
const FUNCTION: &[(&str, Fate)] = &[("name", Read), ("description", Read), ("parameters", Read), ("strict", Read)];
const CHOICE: &[(&str, Fate)] = &[("type", Read), ("function", Read)];
const CHOSEN: &[(&str, Fate)] = &[("name", Read)];
const FORMAT: &[(&str, Fate)] = &[("type", Read), ("json_schema", Read)];
const SCHEMA: &[(&str, Fate)] = &[("name", Read), ("description", Read), ("schema", Read), ("strict", Read)];
const PART: &[(&str, Fate)] = &[("type", Read), ("text", Read), ("refusal", Read)];

/// Whether everything that a request says is done.
///
/// # Errors
/// 422 for a field that is understood and not built, 400 for one that is not known, by its position.
pub(super) fn check(wire: Wire, request: &Value) -> Result<(), ErrorBody> {
    let root = Pointer::root();
    let lists = match wire {
        Wire::Chat => [PARAMS, CHAT],
        Wire::Text => [PARAMS, COMPLETION],
    };
    members(request, &lists, &root)?;
    let at = root.key("stream_options");
    if let Some(options) = request.get("stream_options").filter(|o| !o.is_null()) {
        if request.get("stream") != Some(&Value::Bool(true)) {
            return Err(ErrorBody::invalid(&at, "is for streams: set stream to true, or leave it out"));
        }
        members(options, &[STREAM_OPTIONS], &at)?;
    }
    within(request, "response_format", FORMAT, "json_schema", SCHEMA, &root)?;
    within(request, "tool_choice", CHOICE, "function", CHOSEN, &root)?;
    let tools = request.get("tools").and_then(Value::as_array);
    for (i, tool) in tools.into_iter().flatten().enumerate() {
        both(tool, TOOL, "function", FUNCTION, &root.key("tools").index(i))?;
    }
    let messages = request.get("messages").and_then(Value::as_array);
    for (i, message) in messages.into_iter().flatten().enumerate() {
        let at = root.key("messages").index(i);
        members(message, &[MESSAGE], &at)?;
        let calls = message.get("tool_calls").and_then(Value::as_array);
        for (j, call) in calls.into_iter().flatten().enumerate() {
            both(call, CALL, "function", CALLED, &at.key("tool_calls").index(j))?;
        }
        let parts = message.get("content").and_then(Value::as_array);
        for (j, part) in parts.into_iter().flatten().enumerate() {
            // Parts of another type are refused for that.
            if matches!(part.get("type").and_then(Value::as_str), Some("text" | "refusal")) {
                members(part, &[PART], &at.key("content").index(j))?;
            }
        }
    }
    Ok(())
}

/// The members of a member, and of one of its own.
fn within(
    value: &Value,
    name: &str,
    outer: &[(&str, Fate)],
    inside: &str,
    inner: &[(&str, Fate)],
    at: &Pointer,
) -> Result<(), ErrorBody> {
    value.get(name).map_or(Ok(()), |member| both(member, outer, inside, inner, &at.key(name)))
}

fn both(
    value: &Value,
    outer: &[(&str, Fate)],
    inside: &str,
    inner: &[(&str, Fate)],
    at: &Pointer,
) -> Result<(), ErrorBody> {
    members(value, &[outer], at)?;
    value.get(inside).map_or(Ok(()), |member| members(member, &[inner], &at.key(inside)))
}

fn members(value: &Value, lists: &[&[(&str, Fate)]], at: &Pointer) -> Result<(), ErrorBody> {
    let empty = Map::new();
    for (position, (name, value)) in value.as_object().unwrap_or(&empty).iter().enumerate() {
        if value.is_null() {
            continue;
        }
        match lists.iter().copied().flatten().find(|(known, _)| known == name) {
            Some((_, Read | Harmless)) => {}
            Some((_, Only(values, _))) if values.contains(&value.to_string().as_str()) => {}
            Some((known, Only(_, why) | Refused(why))) => {
                return Err(ErrorBody::unsupported(&at.key(known), format!("not supported by this agent: {why}")));
            }
            None => {
                let what = "this agent knows no field of this name: leave it out, or check its spelling";
                return Err(ErrorBody::invalid(&at.nth(position), what));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nothing_is_silently_ignored() {
        let fault = |wire, request: Value| {
            let error = check(wire, &request).unwrap_err().error;
            assert!(!error.message.contains("secret"), "{}", error.message);
            (error.param.unwrap(), error.code)
        };
        let said = |body: Value| json!({"messages": [body]});
        for (wire, request, at, code) in [
            (Wire::Chat, json!({"model": "m", "secret": 1}), "/[1]", "invalid_request"),
            (Wire::Chat, json!({"store": true}), "/store", "unsupported_feature"),
            (Wire::Chat, json!({"functions": []}), "/functions", "unsupported_feature"),
            (Wire::Chat, json!({"modalities": ["text", "audio"]}), "/modalities", "unsupported_feature"),
            (Wire::Chat, json!({"prompt": "x"}), "/[0]", "invalid_request"),
            (Wire::Chat, json!({"stream_options": {}}), "/stream_options", "invalid_request"),
            (
                Wire::Chat,
                json!({"stream": true, "stream_options": {"secret": 1}}),
                "/stream_options/[0]",
                "invalid_request",
            ),
            (Wire::Chat, said(json!({"role": "user", "secret": 1})), "/messages/0/[1]", "invalid_request"),
            (
                Wire::Chat,
                json!({"tools": [{"type": "function", "function": {"name": "f", "secret": 2}}]}),
                "/tools/0/function/[1]",
                "invalid_request",
            ),
            (Wire::Chat, json!({"tools": [{"type": "function", "secret": 2}]}), "/tools/0/[1]", "invalid_request"),
            (
                Wire::Chat,
                json!({"response_format": {"type": "text", "secret": 1}}),
                "/response_format/[1]",
                "invalid_request",
            ),
            (
                Wire::Chat,
                json!({"response_format": {"type": "json_schema", "json_schema": {"secret": 1}}}),
                "/response_format/json_schema/[0]",
                "invalid_request",
            ),
            (
                Wire::Chat,
                json!({"tool_choice": {"type": "function", "secret": 2}}),
                "/tool_choice/[1]",
                "invalid_request",
            ),
            (
                Wire::Chat,
                said(json!({"tool_calls": [{"id": "a", "function": {"name": "f", "secret": 1}}]})),
                "/messages/0/tool_calls/0/function/[1]",
                "invalid_request",
            ),
            (Wire::Chat, said(json!({"function_call": {}})), "/messages/0/function_call", "unsupported_feature"),
            (
                Wire::Chat,
                said(json!({"content": [{"type": "text", "text": "a", "secret": 1}]})),
                "/messages/0/content/0/[2]",
                "invalid_request",
            ),
            (Wire::Text, json!({"suffix": "x"}), "/suffix", "unsupported_feature"),
            (Wire::Text, json!({"messages": []}), "/[0]", "invalid_request"),
        ] {
            assert_eq!(fault(wire, request), (at.to_owned(), code.to_owned()));
        }
        for (wire, request) in [
            (Wire::Chat, json!({"store": false, "user": "u", "audio": null, "modalities": ["text"], "secret": null})),
            (Wire::Chat, said(json!({"role": "assistant", "annotations": [], "audio": null, "refusal": null}))),
            (Wire::Text, json!({"suffix": null, "echo": true, "best_of": 1})),
        ] {
            assert!(check(wire, &request).is_ok(), "{request}");
        }
    }
}
