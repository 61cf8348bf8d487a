//! What an agent does with each field of a request: what is not built is refused by name, never silently ignored.

use serde_json::{Map, Value};
use terrace_wire::error::ErrorBody;
use terrace_wire::pointer::Pointer;

use super::request::Wire;

/// A field's fate.
enum Fate {
    /// Read.
    Read,
    /// Tells who asks or where to keep things; changes no answer. Of this form all the same.
    Harmless(Form),
    /// Read if it has one of these values, which ask for nothing.
    Only(Form, &'static [&'static str], &'static str),
    /// Understood, not built.
    Refused(Form, &'static str),
}

/// What a field must be to be what its name says: a wrong type is the caller's mistake whatever is done with the field.
#[derive(Clone, Copy)]
struct Form(&'static str, fn(&Value) -> bool);

const TEXT: Form = Form("a string", Value::is_string);
const FLAG: Form = Form("true or false", Value::is_boolean);
const WHOLE: Form = Form("a whole number", |v| v.is_u64() || v.is_i64());
const OBJECT: Form = Form("an object", Value::is_object);
const LIST: Form = Form("a list", Value::is_array);
const TEXTS: Form = Form("a list of strings", |v| v.as_array().is_some_and(|list| list.iter().all(Value::is_string)));
const TEXT_OR_OBJECT: Form = Form("a string or an object", |v| v.is_string() || v.is_object());

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
    ("user", Harmless(TEXT)),
    ("metadata", Harmless(OBJECT)),
];
const CHAT: &[(&str, Fate)] = &[
    ("messages", Read),
    ("max_completion_tokens", Read),
    ("top_logprobs", Read),
    ("tools", Read),
    ("tool_choice", Read),
    ("parallel_tool_calls", Read),
    ("response_format", Read),
    ("safety_identifier", Harmless(TEXT)),
    ("prompt_cache_key", Harmless(TEXT)),
    ("prompt_cache_retention", Harmless(TEXT)),
    ("store", Only(FLAG, &["false"], "nothing is stored here")),
    ("service_tier", Only(TEXT, &["\"auto\"", "\"default\""], "there is one tier of service")),
    ("modalities", Only(TEXTS, &["[\"text\"]"], "answers are text")),
    ("audio", Refused(OBJECT, "answers are text")),
    ("functions", Refused(LIST, "use tools")),
    ("function_call", Refused(TEXT_OR_OBJECT, "use tool_choice")),
    ("prediction", Refused(OBJECT, "predicted outputs are not supported")),
    ("reasoning_effort", Refused(TEXT, "the effort cannot be set")),
    ("verbosity", Refused(TEXT, "the length can only be limited, with max_completion_tokens")),
    ("web_search_options", Refused(OBJECT, "nothing is searched from here")),
];
const COMPLETION: &[(&str, Fate)] = &[
    ("prompt", Read),
    ("echo", Read),
    ("best_of", Read),
    ("suffix", Only(TEXT, &["\"\""], "text cannot be inserted before a suffix: leave it out")),
];
const STREAM_OPTIONS: &[(&str, Fate)] =
    &[("include_usage", Read), ("include_obfuscation", Only(FLAG, &["false"], "events are not padded"))];
const MESSAGE: &[(&str, Fate)] = &[
    ("role", Read),
    ("content", Read),
    ("name", Read),
    ("tool_calls", Read),
    ("tool_call_id", Read),
    ("refusal", Read),
    ("reasoning_content", Read),
    ("annotations", Only(LIST, &["[]"], "annotations are not read: leave them out")),
    ("audio", Refused(OBJECT, "only text is read")),
    ("function_call", Refused(OBJECT, "use tool_calls")),
];
const CALL: &[(&str, Fate)] = &[("id", Read), ("type", Read), ("function", Read), ("index", Harmless(WHOLE))];
const CALLED: &[(&str, Fate)] = &[("name", Read), ("arguments", Read)];
const TOOL: &[(&str, Fate)] = &[("type", Read), ("function", Read)];
const FUNCTION: &[(&str, Fate)] = &[("name", Read), ("description", Read), ("parameters", Read), ("strict", Read)];
const CHOICE: &[(&str, Fate)] = &[("type", Read), ("function", Read), ("allowed_tools", Read)];
const ALLOWED: &[(&str, Fate)] = &[("mode", Read), ("tools", Read)];
const ALLOWED_TOOL: &[(&str, Fate)] = &[("type", Read), ("function", Read)];
const CHOSEN: &[(&str, Fate)] = &[("name", Read)];
const FORMAT: &[(&str, Fate)] = &[("type", Read), ("json_schema", Read)];
const SCHEMA: &[(&str, Fate)] = &[("name", Read), ("description", Read), ("schema", Read), ("strict", Read)];
const PART: &[(&str, Fate)] = &[("type", Read), ("text", Read), ("refusal", Read)];

/// Whether everything that a request says is done.
///
/// # Errors
/// 422 for a field that is understood and not built; 400 for one of a wrong type, and for one that is not known, by its
/// position.
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
    if let Some(allowed) = request.get("tool_choice").and_then(|choice| choice.get("allowed_tools")) {
        let at = root.key("tool_choice").key("allowed_tools");
        members(allowed, &[ALLOWED], &at)?;
        let tools = allowed.get("tools").and_then(Value::as_array);
        for (i, tool) in tools.into_iter().flatten().enumerate() {
            both(tool, ALLOWED_TOOL, "function", CHOSEN, &at.key("tools").index(i))?;
        }
    }
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
            Some((known, Harmless(form) | Only(form, ..) | Refused(form, _))) if !(form.1)(value) => {
                return Err(ErrorBody::invalid(&at.key(known), format!("must be {}", form.0)));
            }
            Some((_, Read | Harmless(_))) => {}
            Some((_, Only(_, values, _))) if values.contains(&value.to_string().as_str()) => {}
            Some((known, Only(_, _, why) | Refused(_, why))) => {
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
        let allowed = |tools: Value| json!({"tool_choice": {"type": "allowed_tools", "allowed_tools": tools}});
        for (wire, request, at, code) in [
            (Wire::Chat, allowed(json!({"secret": 1})), "/tool_choice/allowed_tools/[0]", "invalid_request"),
            (
                Wire::Chat,
                allowed(json!({"tools": [{"type": "function", "function": {"secret": 1}}]})),
                "/tool_choice/allowed_tools/tools/0/function/[0]",
                "invalid_request",
            ),
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
            (
                Wire::Chat,
                json!({"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [
                {"type": "function", "function": {"name": "f"}}]}}}),
            ),
            (Wire::Chat, json!({"store": false, "user": "u", "audio": null, "modalities": ["text"], "secret": null})),
            (Wire::Chat, said(json!({"role": "assistant", "annotations": [], "audio": null, "refusal": null}))),
            (Wire::Text, json!({"suffix": null, "echo": true, "best_of": 1})),
        ] {
            assert!(check(wire, &request).is_ok(), "{request}");
        }
    }
    /// A malformed value of a field that changes nothing, or that is not built, was said not to be supported.
    #[test]
    fn a_wrong_type_is_a_mistake_whatever_is_done_with_the_field() {
        let said = |name: &str, value: Value| json!({"messages": [{"role": "assistant", name: value}]});
        for (name, wrong, refused) in [
            ("store", json!("secret"), Some(json!(true))),
            ("service_tier", json!(1), Some(json!("flex"))),
            ("modalities", json!("secret"), Some(json!(["audio"]))),
            ("modalities", json!([1]), Some(json!(["audio"]))),
            ("audio", json!([]), Some(json!({}))),
            ("functions", json!({}), Some(json!([]))),
            ("function_call", json!(1), Some(json!("auto"))),
            ("prediction", json!("secret"), Some(json!({}))),
            ("reasoning_effort", json!(1), Some(json!("low"))),
            ("verbosity", json!({}), Some(json!("low"))),
            ("web_search_options", json!(true), Some(json!({}))),
            ("user", json!(1), None),
            ("metadata", json!("secret"), None),
            ("safety_identifier", json!(1), None),
            ("prompt_cache_key", json!([]), None),
            ("prompt_cache_retention", json!(24), None),
        ] {
            let error = check(Wire::Chat, &json!({name: wrong})).unwrap_err().error;
            assert_eq!((error.code.as_str(), error.param), ("invalid_request", Some(format!("/{name}"))));
            assert!(error.message.contains("must be") && !error.message.contains("secret"), "{}", error.message);
            if let Some(refused) = refused {
                let error = check(Wire::Chat, &json!({name: refused})).unwrap_err().error;
                assert_eq!((error.code.as_str(), error.param), ("unsupported_feature", Some(format!("/{name}"))));
            }
        }
        for (wire, request, at) in [
            (Wire::Text, json!({"suffix": 1}), "/suffix"),
            (
                Wire::Chat,
                json!({"stream": true, "stream_options": {"include_obfuscation": 1}}),
                "/stream_options/include_obfuscation",
            ),
            (Wire::Chat, said("annotations", json!("secret")), "/messages/0/annotations"),
            (Wire::Chat, said("audio", json!("secret")), "/messages/0/audio"),
            (Wire::Chat, said("tool_calls", json!([{"index": "secret"}])), "/messages/0/tool_calls/0/index"),
        ] {
            let error = check(wire, &request).unwrap_err().error;
            assert_eq!((error.code.as_str(), error.param.as_deref()), ("invalid_request", Some(at)));
        }
    }
}
