//! What both the router and the agent require of a request's tree, each fault named by its JSON pointer.

use serde_json::{Map, Value};

use crate::error::{Code, ErrorBody};
use crate::message::ROLES;
use crate::pointer::Pointer;

/// What a field must be, if it is given and not null.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Flag,
    Whole(i64, i64),
    Number(f64, f64),
    Object,
    /// An object whose members are true or false, as far as they are known.
    Flags(&'static [&'static str]),
    List,
    Stop,
    Bias,
}

use Kind::{Bias, Flag, Flags, List, Number, Object, Stop, Text, Whole};

const COUNT: Kind = Whole(1, u32::MAX as i64);
const ANY_INTEGER: Kind = Whole(i64::MIN, i64::MAX);
/// Choices of a request at most, as OpenAI's.
const MOST_CHOICES: i64 = 128;
/// Alternatives at one place at most, as OpenAI's.
const MOST_ALTERNATIVES: i64 = 20;
/// Texts of one request at most, as OpenAI's.
const MOST_INPUTS: usize = 2048;

/// What an assistant may have said in place of content.
const INSTEAD: [&str; 5] = ["tool_calls", "function_call", "refusal", "audio", "reasoning_content"];
/// Where something must be said, and nothing is.
pub(crate) const EMPTY_LIST: &str = "is an empty list: give at least one part";

/// Fields of chat and text completions.
const SHARED: &[(&str, Kind)] = &[
    ("n", Whole(1, MOST_CHOICES)),
    ("temperature", Number(0.0, 2.0)),
    ("top_p", Number(0.0, 1.0)),
    ("top_k", Whole(-1, i64::MAX)),
    ("min_p", Number(0.0, 1.0)),
    ("repetition_penalty", Number(0.01, 10.0)),
    ("presence_penalty", Number(-2.0, 2.0)),
    ("frequency_penalty", Number(-2.0, 2.0)),
    ("logit_bias", Bias),
    ("seed", ANY_INTEGER),
    ("stop", Stop),
    ("stream", Flag),
    ("stream_options", Flags(&["include_usage", "include_obfuscation"])),
    ("user", Text),
    ("metadata", Object),
];
const CHAT: &[(&str, Kind)] = &[
    ("max_tokens", COUNT),
    ("max_completion_tokens", COUNT),
    ("logprobs", Flag),
    ("top_logprobs", Whole(0, MOST_ALTERNATIVES)),
    ("tools", List),
    ("parallel_tool_calls", Flag),
    ("response_format", Object),
    ("safety_identifier", Text),
    ("prompt_cache_key", Text),
    ("prompt_cache_retention", Text),
];
const COMPLETION: &[(&str, Kind)] = &[
    // None at all: with `echo`, the prompt comes back alone.
    ("max_tokens", Whole(0, u32::MAX as i64)),
    ("echo", Flag),
    ("logprobs", Whole(0, MOST_ALTERNATIVES)),
    ("best_of", Whole(1, MOST_CHOICES)),
    ("suffix", Text),
];

/// A chat completion's tree.
///
/// # Errors
/// The error body to send (400).
pub fn check_chat(value: &Value) -> Result<(), ErrorBody> {
    let (object, root) = head(value)?;
    let at = root.key("messages");
    let messages = object.get("messages").and_then(Value::as_array);
    let messages = messages.ok_or_else(|| ErrorBody::invalid(&at, "give a list of messages"))?;
    if messages.is_empty() {
        return Err(ErrorBody::invalid(&at, "give at least one message"));
    }
    messages.iter().enumerate().try_for_each(|(i, message)| check_message(message, &at.index(i)))?;
    check_fields(object, SHARED, &root)?;
    check_fields(object, CHAT, &root)
}

/// A text completion's tree.
///
/// # Errors
/// The error body to send (400).
pub fn check_completion(value: &Value) -> Result<(), ErrorBody> {
    let (object, root) = head(value)?;
    check_inputs(object.get("prompt"), &root.key("prompt"))?;
    check_fields(object, SHARED, &root)?;
    check_fields(object, COMPLETION, &root)
}

/// An embedding request's tree. Members that are not OpenAI's are not looked at: an agent refuses them, an endpoint
/// may know them.
///
/// # Errors
/// The error body to send (400).
pub fn check_embedding(value: &Value) -> Result<(), ErrorBody> {
    let (object, root) = head(value)?;
    check_inputs(object.get("input"), &root.key("input"))?;
    check_fields(object, &[("dimensions", COUNT), ("user", Text)], &root)?;
    match object.get("encoding_format") {
        None | Some(Value::Null) => Ok(()),
        Some(Value::String(word)) if matches!(word.as_str(), "float" | "base64") => Ok(()),
        Some(_) => Err(ErrorBody::invalid(&root.key("encoding_format"), "must be one of: float, base64")),
    }
}

/// Tool calls in a chat's messages.
///
/// # Errors
/// The error body to send: 400, or 422 for calls that are not of functions.
pub fn check_calls(value: &Value) -> Result<(), ErrorBody> {
    let messages = value.get("messages").and_then(Value::as_array);
    for (i, message) in messages.into_iter().flatten().enumerate() {
        let at = Pointer::root().key("messages").index(i);
        for name in ["name", "tool_call_id", "refusal", "reasoning_content"] {
            if message.get(name).is_some_and(|v| !v.is_null() && !v.is_string()) {
                return Err(ErrorBody::invalid(&at.key(name), "must be a string"));
            }
        }
        if message.get("role").and_then(Value::as_str) == Some("tool") && !is_text(message.get("tool_call_id")) {
            return Err(ErrorBody::invalid(&at.key("tool_call_id"), "give the id of the call that this answers"));
        }
        let at = at.key("tool_calls");
        let Some(calls) = message.get("tool_calls").filter(|c| !c.is_null()) else { continue };
        let calls = calls.as_array().ok_or_else(|| ErrorBody::invalid(&at, "must be a list"))?;
        calls.iter().enumerate().try_for_each(|(i, call)| check_call(call, &at.index(i)))?;
    }
    Ok(())
}

fn check_call(call: &Value, at: &Pointer) -> Result<(), ErrorBody> {
    match call.get("type").and_then(Value::as_str) {
        Some("function") => {}
        Some(_) => return Err(ErrorBody::unsupported(&at.key("type"), "only calls of functions are supported")),
        None => return Err(ErrorBody::invalid(&at.key("type"), "give the call's type: function")),
    }
    if !is_text(call.get("id")) {
        return Err(ErrorBody::invalid(&at.key("id"), "give the call's id as a string"));
    }
    let (function, at) = (call.get("function"), at.key("function"));
    for name in ["name", "arguments"] {
        if !is_text(function.and_then(|f| f.get(name))) {
            return Err(ErrorBody::invalid(&at.key(name), "must be a string"));
        }
    }
    Ok(())
}

/// What is left to say where a tree has the right shape and still cannot be read.
pub(crate) fn unreadable(what: &str) -> ErrorBody {
    let message = format!("a field has the wrong type: compare the request with OpenAI's {what} API");
    ErrorBody::new(Code::InvalidRequest, message)
}

fn head(value: &Value) -> Result<(&Map<String, Value>, Pointer), ErrorBody> {
    let root = Pointer::root();
    let object = value.as_object().ok_or_else(|| ErrorBody::invalid(&root, "the body must be a JSON object"))?;
    if is_text(object.get("model")) {
        return Ok((object, root));
    }
    let what = "give the model's name as a string; `auto` leaves the choice to the policy";
    Err(ErrorBody::invalid(&root.key("model"), what))
}

fn is_text(value: Option<&Value>) -> bool {
    value.is_some_and(Value::is_string)
}

fn check_message(message: &Value, at: &Pointer) -> Result<(), ErrorBody> {
    let message =
        message.as_object().ok_or_else(|| ErrorBody::invalid(at, "a message is an object with role and content"))?;
    let Some(role) = message.get("role").and_then(Value::as_str).filter(|role| ROLES.contains(role)) else {
        return Err(ErrorBody::invalid(&at.key("role"), format!("the role must be one of {}", ROLES.join(", "))));
    };
    let at = at.key("content");
    match message.get("content") {
        Some(Value::String(_)) => Ok(()),
        Some(Value::Array(parts)) if !parts.is_empty() => {
            parts.iter().enumerate().try_for_each(|(i, part)| check_part(part, &at.index(i)))
        }
        content @ (None | Some(Value::Null | Value::Array(_))) => match (role, content) {
            // OpenAI's may be null there: a function that returned nothing.
            ("function", None | Some(Value::Null)) => Ok(()),
            ("assistant", _) if INSTEAD.iter().any(|name| message.get(*name).is_some_and(says)) => Ok(()),
            ("assistant", _) => {
                let what = "give a string or a list of parts: an assistant's message needs content or tool_calls";
                Err(ErrorBody::invalid(&at, what))
            }
            (_, Some(Value::Array(_))) => Err(ErrorBody::invalid(&at, EMPTY_LIST)),
            _ => {
                let what = format!("give a string or a list of parts: a message of the role {role} needs content");
                Err(ErrorBody::invalid(&at, what))
            }
        },
        Some(_) => Err(ErrorBody::invalid(&at, "content is a string or a list of parts")),
    }
}

/// Whether a member is more than its absence.
fn says(value: &Value) -> bool {
    !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty())
}

fn check_part(part: &Value, at: &Pointer) -> Result<(), ErrorBody> {
    let Some(kind) = part.get("type").and_then(Value::as_str) else {
        return Err(ErrorBody::invalid(&at.key("type"), "a content part needs a type"));
    };
    for name in ["text", "refusal"] {
        let there = part.get(name).is_some_and(|text| !text.is_null());
        if (kind == name || there) && !is_text(part.get(name)) {
            return Err(ErrorBody::invalid(&at.key(name), "must be a string"));
        }
    }
    Ok(())
}

/// A text, a list of texts, a list of token ids or a list of those.
fn check_inputs(value: Option<&Value>, at: &Pointer) -> Result<(), ErrorBody> {
    let what = "give a string, a list of strings, a list of token ids, or a list of such lists";
    let list = match value {
        Some(Value::String(_)) => return Ok(()),
        Some(Value::Array(list)) if list.is_empty() => {
            return Err(ErrorBody::invalid(at, format!("is an empty list: {what}")));
        }
        Some(Value::Array(list)) => list,
        _ => return Err(ErrorBody::invalid(at, what)),
    };
    let is_id = |v: &Value| v.as_u64().is_some_and(|id| id <= u64::from(u32::MAX));
    let fits = |v: &Value| match (&list[0], v) {
        (Value::String(_), v) => v.is_string(),
        (Value::Array(_), Value::Array(ids)) => !ids.is_empty() && ids.iter().all(is_id),
        (Value::Array(_), _) => false,
        (_, v) => is_id(v),
    };
    if let Some(i) = list.iter().position(|v| !fits(v)) {
        return Err(ErrorBody::invalid(&at.index(i), what));
    }
    if !is_id(&list[0]) && list.len() > MOST_INPUTS {
        return Err(ErrorBody::invalid(at, format!("has {} texts; {MOST_INPUTS} is the most", list.len())));
    }
    Ok(())
}

fn check_fields(object: &Map<String, Value>, fields: &[(&str, Kind)], root: &Pointer) -> Result<(), ErrorBody> {
    for (name, value) in object.iter().filter(|(_, value)| !value.is_null()) {
        if let Some((_, kind)) = fields.iter().find(|(field, _)| field == name) {
            check_field(value, *kind, &root.key(name))?;
        }
    }
    Ok(())
}

fn check_field(value: &Value, kind: Kind, at: &Pointer) -> Result<(), ErrorBody> {
    match kind {
        Text => must(at, value.is_string(), "a string"),
        Flag => must(at, value.is_boolean(), "true or false"),
        Object => must(at, value.is_object(), "an object"),
        List => must(at, value.is_array(), "a list"),
        Whole(low, high) => {
            let fits = value.as_i64().is_some_and(|n| (low..=high).contains(&n));
            must(at, fits, format_args!("a whole number from {low} to {high}"))
        }
        Number(low, high) => must(
            at,
            value.as_f64().is_some_and(|n| (low..=high).contains(&n)),
            format_args!("a number from {low} to {high}"),
        ),
        Flags(names) => {
            let object = value.as_object().ok_or_else(|| ErrorBody::invalid(at, "must be an object"))?;
            let wrong = |name: &&&str| object.get(**name).is_some_and(|flag| !flag.is_boolean() && !flag.is_null());
            match names.iter().find(wrong) {
                None => Ok(()),
                Some(name) => Err(ErrorBody::invalid(&at.key(name), "must be true or false")),
            }
        }
        Stop => match value {
            Value::String(_) => Ok(()),
            Value::Array(many) if many.len() <= 4 => match many.iter().position(|stop| !stop.is_string()) {
                None => Ok(()),
                Some(i) => Err(ErrorBody::invalid(&at.index(i), "must be a string")),
            },
            _ => must(at, false, "a string or a list of at most four strings"),
        },
        Bias => {
            let object = value.as_object().ok_or_else(|| ErrorBody::invalid(at, "must be an object"))?;
            let fits = |(id, bias): (&String, &Value)| {
                is_token(id) && bias.as_f64().is_some_and(|b| (-100.0..=100.0).contains(&b))
            };
            match object.iter().position(|entry| !fits(entry)) {
                None => Ok(()),
                Some(i) => {
                    let what =
                        "must be a token id, in digits without sign or leading zeros, with a number from -100 to 100";
                    Err(ErrorBody::invalid(&at.nth(i), what))
                }
            }
        }
    }
}

fn must(at: &Pointer, fits: bool, be: impl std::fmt::Display) -> Result<(), ErrorBody> {
    if fits { Ok(()) } else { Err(ErrorBody::invalid(at, format!("must be {be}"))) }
}

/// Whether a key is a token id, written in the one way that no other key can mean.
fn is_token(key: &str) -> bool {
    key.parse::<u32>().is_ok_and(|id| id.to_string() == key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::ChatRequest;
    use crate::completion::CompletionRequest;
    use serde_json::json;

    fn fault<T: std::fmt::Debug>(read: Result<T, ErrorBody>) -> String {
        let error = read.unwrap_err().error;
        assert!(!error.message.contains("secret"), "{}", error.message);
        error.param.unwrap()
    }

    /// A router passed these on, to be refused by whichever tier was decided on, in its own words.
    #[test]
    fn everyone_says_something_but_an_assistant_who_did_something_instead() {
        let read = |message: Value| check_chat(&json!({"model": "m", "messages": [message]}));
        for role in ["system", "developer", "user", "tool", "assistant"] {
            for content in [json!(null), json!([])] {
                let silent = json!({"role": role, "content": content, "tool_call_id": "secret", "tool_calls": []});
                assert_eq!(fault(read(silent)), "/messages/0/content");
            }
            assert_eq!(fault(read(json!({"role": role}))), "/messages/0/content");
            assert_eq!(read(json!({"role": role, "content": ""})), Ok(()));
        }
        assert_eq!(
            fault(read(json!({"role": "assistant", "content": null, "tool_calls": null}))),
            "/messages/0/content"
        );
        for (name, value) in [
            ("tool_calls", json!([{"id": "c"}])),
            ("function_call", json!({"name": "f"})),
            ("refusal", json!("no")),
            ("reasoning_content", json!("hm")),
        ] {
            for content in [json!(null), json!([])] {
                assert_eq!(read(json!({"role": "assistant", "content": content, name: value})), Ok(()));
            }
            assert_eq!(read(json!({"role": "assistant", name: value})), Ok(()));
            assert_eq!(fault(read(json!({"role": "user", name: value}))), "/messages/0/content");
        }
        assert_eq!(read(json!({"role": "function", "name": "f", "content": null})), Ok(()));
    }

    #[test]
    fn faults_of_a_chat_are_named_by_pointer_and_never_by_content() {
        let ok = json!({"role": "user", "content": "x"});
        let with = |name: &str, value: Value| {
            let mut body = json!({"model": "m", "messages": [ok]});
            body[name] = value;
            body
        };
        let call = |call: Value| with("messages", json!([{"role": "assistant", "tool_calls": [call]}]));
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
            (with("messages", json!([{"role": "tool", "content": "secret"}])), "/messages/0/tool_call_id"),
            (call(json!({"type": "secret"})), "/messages/0/tool_calls/0/type"),
            (call(json!({"type": "function"})), "/messages/0/tool_calls/0/id"),
            (
                call(json!({"type": "function", "id": "x", "function": {"name": "secret", "arguments": {}}})),
                "/messages/0/tool_calls/0/function/arguments",
            ),
            (with("temperature", json!(9)), "/temperature"),
            (with("temperature", json!("secret")), "/temperature"),
            (with("max_tokens", json!(0)), "/max_tokens"),
            (with("n", json!(129)), "/n"),
            (with("top_logprobs", json!(21)), "/top_logprobs"),
            (with("logprobs", json!(3)), "/logprobs"),
            (with("seed", json!(1.5)), "/seed"),
            (with("top_k", json!(-2)), "/top_k"),
            (with("tools", json!({})), "/tools"),
            (with("logit_bias", json!({"5": 1, "secret": 1})), "/logit_bias/[1]"),
            (with("logit_bias", json!({"5": 101})), "/logit_bias/[0]"),
            // Each another way to write a token that may stand there already.
            (with("logit_bias", json!({"5": 1, "+5": 1})), "/logit_bias/[1]"),
            (with("logit_bias", json!({"05": 1})), "/logit_bias/[0]"),
            (with("logit_bias", json!({"4294967296": 1})), "/logit_bias/[0]"),
            (with("stream_options", json!({"include_usage": "secret"})), "/stream_options/include_usage"),
            (with("stop", json!(["a", 5])), "/stop/1"),
            (with("max_tokens", json!(4_294_967_296u64)), "/max_tokens"),
            (with("seed", json!(u64::MAX)), "/seed"),
            (with("metadata", json!("secret")), "/metadata"),
            (with("messages", json!([{"role": "user", "content": [{"type": "text"}]}])), "/messages/0/content/0/text"),
            (with("stop", json!(["a", "b", "c", "d", "e"])), "/stop"),
        ];
        for (body, pointer) in cases {
            assert_eq!(fault(ChatRequest::from_value(body)), pointer);
        }
    }

    #[test]
    fn prompts_are_texts_or_tokens() {
        let completion = |prompt: Value| CompletionRequest::from_value(json!({"model": "m", "prompt": prompt}));
        for (good, count) in [(json!("a"), 1), (json!(["a", "b"]), 2), (json!([1, 2]), 1), (json!([[1], [2, 3]]), 2)] {
            assert_eq!(completion(good).unwrap().prompt.each().len(), count);
        }
        for (bad, at) in [
            (json!(null), ""),
            (json!([]), ""),
            (json!(["a", 3]), "/1"),
            (json!([1, "secret"]), "/1"),
            (json!([1, -1]), "/1"),
            (json!([[1], []]), "/1"),
            (json!([{"secret": 1}]), "/0"),
            (vec!["a"; 2049].into(), ""),
        ] {
            assert_eq!(fault(completion(bad)), format!("/prompt{at}"));
        }
        let logprobs = json!({"model": "m", "prompt": "a", "logprobs": true});
        assert_eq!(fault(CompletionRequest::from_value(logprobs)), "/logprobs");
        let limited = |n: i64| CompletionRequest::from_value(json!({"model": "m", "prompt": "a", "max_tokens": n}));
        assert_eq!(limited(0).unwrap().params.max_tokens, Some(0));
        assert_eq!(fault(limited(-1)), "/max_tokens");
    }
}
