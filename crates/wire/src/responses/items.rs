//! Items of a Responses input as messages of a chat completion.

use serde_json::{Value, json};

use crate::error::ErrorBody;
use crate::members::{Members, UNTRANSLATED};
use crate::shape::EMPTY_LIST;
use crate::translated::Messages;

/// Reads one item. What another server thought (`reasoning`) means nothing to a tier and is left out.
pub(super) fn read(item: &Members<'_>, chat: &mut Messages) -> Result<(), ErrorBody> {
    match item.get("type").and_then(Value::as_str) {
        Some("message") => message(item, chat),
        None if item.get("type").is_none() && item.get("role").is_some() => message(item, chat),
        Some("function_call") => call(item, chat),
        Some("function_call_output") => result(item, chat),
        Some("reasoning") => Ok(()),
        Some("item_reference") => {
            Err(item.fault("type", "items are not kept here: send the item itself in place of its id"))
        }
        _ => Err(item.fault("type", UNTRANSLATED)),
    }
}

fn message(item: &Members<'_>, chat: &mut Messages) -> Result<(), ErrorBody> {
    item.only(&["type", "role", "content", "id", "status", "phase"], &[])?;
    let role = match item.get("role").and_then(Value::as_str) {
        Some(role @ ("user" | "assistant" | "system" | "developer")) => role,
        _ => return Err(item.fault("role", "the role must be one of user, assistant, system, developer")),
    };
    let content = match item.get("content") {
        Some(text @ Value::String(_)) => text.clone(),
        Some(Value::Array(parts)) if parts.is_empty() => return Err(item.fault("content", EMPTY_LIST)),
        Some(Value::Array(parts)) => {
            let at = item.at.key("content");
            let part = |(i, part)| part_of(&Members::of(part, at.index(i), "a part is an object with a type")?);
            joined(parts.iter().enumerate().map(part).collect::<Result<_, _>>()?)
        }
        _ => return Err(item.fault("content", "give a string or a list of parts")),
    };
    chat.push(json!({"role": role, "content": content}), &item.at);
    Ok(())
}

/// One text alone is a plain string, which every tier reads.
fn joined(mut parts: Vec<Value>) -> Value {
    match parts.as_mut_slice() {
        [one] if one["type"] == "text" => one["text"].take(),
        _ => Value::Array(parts),
    }
}

fn part_of(part: &Members<'_>) -> Result<Value, ErrorBody> {
    match part.get("type").and_then(Value::as_str) {
        Some("input_text" | "output_text") => {
            part.only(&["type", "text", "annotations", "logprobs"], &[])?;
            Ok(json!({"type": "text", "text": part.needs_text("text", "must be a string")?}))
        }
        Some("refusal") => {
            part.only(&["type", "refusal"], &[])?;
            Ok(json!({"type": "refusal", "refusal": part.needs_text("refusal", "must be a string")?}))
        }
        Some("input_image") => {
            part.only(&["type", "image_url", "detail"], &["file_id"])?;
            let mut image =
                json!({"url": part.needs_text("image_url", "give the image as a URL: files are not kept here")?});
            if let Some(detail) = part.text("detail")? {
                image["detail"] = detail.into();
            }
            Ok(json!({"type": "image_url", "image_url": image}))
        }
        _ => Err(part.fault("type", UNTRANSLATED)),
    }
}

/// A call belongs to the answer before it, with the calls beside it.
fn call(item: &Members<'_>, chat: &mut Messages) -> Result<(), ErrorBody> {
    item.only(&["type", "call_id", "name", "arguments", "id", "status"], &["namespace", "caller"])?;
    let call = json!({
        "id": item.needs_text("call_id", "give the call's id as a string")?,
        "type": "function",
        "function": {
            "name": item.needs_text("name", "must be a string")?,
            "arguments": item.needs_text("arguments", "must be a string")?,
        },
    });
    if let Some(last) = chat.last_mut().filter(|last| last["role"] == "assistant") {
        match last.get_mut("tool_calls").and_then(Value::as_array_mut) {
            Some(calls) => calls.push(call),
            None => last["tool_calls"] = json!([call]),
        }
    } else {
        chat.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}), &item.at);
    }
    Ok(())
}

fn result(item: &Members<'_>, chat: &mut Messages) -> Result<(), ErrorBody> {
    item.only(&["type", "call_id", "output", "id", "status"], &["caller"])?;
    let output = match item.get("output") {
        Some(text @ Value::String(_)) => text.clone(),
        Some(Value::Array(parts)) if parts.is_empty() => return Err(item.fault("output", EMPTY_LIST)),
        Some(Value::Array(parts)) => {
            let at = item.at.key("output");
            let text = |(i, part)| {
                let part = Members::of(part, at.index(i), "a part is an object with a type")?;
                match part.get("type").and_then(Value::as_str) {
                    Some("input_text") => part_of(&part),
                    _ => Err(part.fault("type", "only text can be the result of a call here")),
                }
            };
            joined(parts.iter().enumerate().map(text).collect::<Result<_, _>>()?)
        }
        _ => return Err(item.fault("output", "give a string or a list of parts")),
    };
    let id = item.needs_text("call_id", "give the id of the call that this answers")?;
    chat.push(json!({"role": "tool", "tool_call_id": id, "content": output}), &item.at);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::to_chat;
    use super::*;

    fn body(input: Value) -> Value {
        json!({"model": "auto", "input": input})
    }

    #[test]
    fn a_conversation_with_calls_and_images_is_told_in_order() {
        let (translated, _) = to_chat(&body(json!([
            {"role": "developer", "content": "d"},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "look"},
                {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "low"}]},
            {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "x"},
            {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant",
                "content": [{"type": "output_text", "text": "I call.", "annotations": [], "logprobs": []}]},
            {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{\"a\":1}", "status": "completed"},
            {"type": "function_call", "call_id": "c2", "name": "g", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "17"},
            {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "18"}]},
            {"type": "function_call", "call_id": "c3", "name": "f", "arguments": "{}"},
        ])))
        .unwrap();
        let call = |id: &str, name: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
        let want = json!([
            {"role": "developer", "content": "d"},
            {"role": "user", "content": [{"type": "text", "text": "look"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}}]},
            {"role": "assistant", "content": "I call.", "tool_calls": [call("c1", "f", "{\"a\":1}"), call("c2", "g", "{}")]},
            {"role": "tool", "tool_call_id": "c1", "content": "17"},
            {"role": "tool", "tool_call_id": "c2", "content": "18"},
            {"role": "assistant", "content": null, "tool_calls": [call("c3", "f", "{}")]},
        ]);
        assert_eq!(translated.chat["messages"], want);
        crate::shape::check_chat(&translated.chat).unwrap();
        crate::shape::check_calls(&translated.chat).unwrap();
        let origins: Vec<String> = translated.origins.iter().map(ToString::to_string).collect();
        assert_eq!(origins, ["/input/0", "/input/1", "/input/3", "/input/6", "/input/7", "/input/8"]);
    }

    #[test]
    fn an_item_without_a_counterpart_is_named_by_its_place() {
        let user = |part: Value| json!({"role": "user", "content": [part]});
        for (item, place) in [
            (json!({"type": "item_reference", "id": "secret"}), "/input/0/type"),
            (json!({"type": "web_search_call"}), "/input/0/type"),
            (json!({"type": "secret", "role": "user", "content": "x"}), "/input/0/type"),
            (json!({"role": "secret", "content": "x"}), "/input/0/role"),
            (json!({"role": "user"}), "/input/0/content"),
            (json!({"role": "user", "content": null}), "/input/0/content"),
            (json!({"role": "assistant", "content": []}), "/input/0/content"),
            (json!({"type": "message", "role": "assistant"}), "/input/0/content"),
            (json!({"type": "function_call_output", "call_id": "c", "output": []}), "/input/0/output"),
            (user(json!("secret")), "/input/0/content/0"),
            (user(json!({"type": "input_file", "file_id": "secret"})), "/input/0/content/0/type"),
            (user(json!({"type": "input_image", "file_id": "secret"})), "/input/0/content/0/file_id"),
            (user(json!({"type": "input_image"})), "/input/0/content/0/image_url"),
            (user(json!({"type": "input_text"})), "/input/0/content/0/text"),
            (json!({"type": "function_call", "name": "secret", "arguments": "{}"}), "/input/0/call_id"),
            (json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": {}}), "/input/0/arguments"),
            (json!({"type": "function_call_output", "call_id": "c"}), "/input/0/output"),
            (
                json!({"type": "function_call_output", "call_id": "c", "output": [{"type": "input_image"}]}),
                "/input/0/output/0/type",
            ),
        ] {
            let error = to_chat(&body(json!([item]))).unwrap_err().error;
            assert_eq!(error.param.as_deref(), Some(place), "{}", error.message);
            assert!(!error.message.contains("secret"), "{}", error.message);
        }
    }
}
