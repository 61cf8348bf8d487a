//! What turns say: Anthropic's blocks as messages of a chat completion.

use serde_json::{Map, Value, json};

use crate::error::ErrorBody;
use crate::members::{Members, UNTRANSLATED};
use crate::pointer::Pointer;
use crate::shape::EMPTY_LIST;
use crate::translated::Messages;

/// The system prompt: a text, or blocks of text.
pub(super) fn system(system: &Value, at: &Pointer, chat: &mut Messages) -> Result<(), ErrorBody> {
    let parts = match system {
        Value::String(text) => vec![text_part(text)],
        Value::Array(blocks) => each(blocks, at, text_block)?,
        _ => return Err(ErrorBody::invalid(at, "must be a string or a list of text blocks")),
    };
    if !parts.is_empty() {
        chat.push(json!({"role": "system", "content": content(parts)}), at);
    }
    Ok(())
}

/// A user's turn. Results of tools become messages of their own, before what the user says: they answer the turn before.
pub(super) fn user(message: &Members<'_>, chat: &mut Messages) -> Result<(), ErrorBody> {
    let (blocks, at) = match message.get("content") {
        Some(Value::String(text)) => {
            chat.push(json!({"role": "user", "content": text}), &message.at);
            return Ok(());
        }
        Some(Value::Array(blocks)) if blocks.is_empty() => return Err(message.fault("content", EMPTY_LIST)),
        Some(Value::Array(blocks)) => (blocks, message.at.key("content")),
        _ => return Err(message.fault("content", "give a string or a list of blocks")),
    };
    let mut parts = Vec::new();
    for (i, block) in blocks.iter().enumerate() {
        let block = Members::of(block, at.index(i), "a block is an object with a type")?;
        match block.get("type").and_then(Value::as_str) {
            Some("text") => parts.push(text_block(&block)?),
            Some("image") => parts.push(image(&block)?),
            Some("tool_result") => chat.push(tool_result(&block)?, &block.at),
            _ => return Err(block.fault("type", UNTRANSLATED)),
        }
    }
    if !parts.is_empty() {
        chat.push(json!({"role": "user", "content": content(parts)}), &message.at);
    }
    Ok(())
}

/// An earlier answer: its text, and its calls. Thoughts are left out, as Anthropic leaves those of earlier turns out.
pub(super) fn assistant(message: &Members<'_>, chat: &mut Messages) -> Result<(), ErrorBody> {
    let (blocks, at) = match message.get("content") {
        Some(Value::String(text)) => {
            chat.push(json!({"role": "assistant", "content": text}), &message.at);
            return Ok(());
        }
        Some(Value::Array(blocks)) => (blocks, message.at.key("content")),
        _ => return Err(message.fault("content", "give a string or a list of blocks")),
    };
    let (mut text, mut calls) = (String::new(), Vec::new());
    for (i, block) in blocks.iter().enumerate() {
        let block = Members::of(block, at.index(i), "a block is an object with a type")?;
        match block.get("type").and_then(Value::as_str) {
            Some("text") => text.push_str(block.needs_text("text", "must be a string")?),
            Some("tool_use") => calls.push(tool_use(&block)?),
            Some("thinking" | "redacted_thinking") => {}
            _ => return Err(block.fault("type", UNTRANSLATED)),
        }
    }
    let mut answer = Map::new();
    answer.insert("role".into(), "assistant".into());
    let silent = text.is_empty() && !calls.is_empty();
    answer.insert("content".into(), if silent { Value::Null } else { text.into() });
    if !calls.is_empty() {
        answer.insert("tool_calls".into(), Value::Array(calls));
    }
    chat.push(Value::Object(answer), &message.at);
    Ok(())
}

fn each(
    blocks: &[Value],
    at: &Pointer,
    read: fn(&Members<'_>) -> Result<Value, ErrorBody>,
) -> Result<Vec<Value>, ErrorBody> {
    let block = |(i, block)| read(&Members::of(block, at.index(i), "a block is an object with a type")?);
    blocks.iter().enumerate().map(block).collect()
}

/// One text alone is a plain string, which every tier reads.
fn content(mut parts: Vec<Value>) -> Value {
    match parts.as_mut_slice() {
        [one] if one["type"] == "text" => one["text"].take(),
        _ => Value::Array(parts),
    }
}

fn text_part(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn text_block(block: &Members<'_>) -> Result<Value, ErrorBody> {
    if block.get("type").and_then(Value::as_str) != Some("text") {
        return Err(block.fault("type", "only text can stand here"));
    }
    block.only(&["type", "text", "cache_control", "citations"], &[])?;
    Ok(text_part(block.needs_text("text", "must be a string")?))
}

fn image(block: &Members<'_>) -> Result<Value, ErrorBody> {
    block.only(&["type", "source", "cache_control"], &[])?;
    let source = block.members("source")?.ok_or_else(|| block.fault("source", "say where the image is"))?;
    let url = match source.get("type").and_then(Value::as_str) {
        Some("base64") => {
            let kind = source.needs_text("media_type", "give the image's type, such as image/png")?;
            format!("data:{kind};base64,{}", source.needs_text("data", "give the image in base64")?)
        }
        Some("url") => source.needs_text("url", "must be a string")?.to_owned(),
        _ => return Err(source.fault("type", "must be base64 or url: files are not kept here")),
    };
    Ok(json!({"type": "image_url", "image_url": {"url": url}}))
}

fn tool_use(block: &Members<'_>) -> Result<Value, ErrorBody> {
    block.only(&["type", "id", "name", "input", "cache_control", "caller"], &[])?;
    let input = block.get("input").filter(|input| input.is_object());
    let input = input.ok_or_else(|| block.fault("input", "must be an object"))?;
    Ok(json!({
        "id": block.needs_text("id", "give the call's id as a string")?,
        "type": "function",
        "function": {"name": block.needs_text("name", "must be a string")?, "arguments": input.to_string()},
    }))
}

/// A result. That it is an error has no member of its own in a chat completion: what it says must tell.
fn tool_result(block: &Members<'_>) -> Result<Value, ErrorBody> {
    block.only(&["type", "tool_use_id", "content", "is_error", "cache_control"], &[])?;
    let failed = block.flag("is_error")? == Some(true);
    let said = match block.get("content") {
        None if failed => "error".into(),
        None => Value::String(String::new()),
        Some(Value::Array(blocks)) if blocks.is_empty() => Value::String(String::new()),
        Some(Value::String(text)) => text.clone().into(),
        Some(Value::Array(blocks)) => content(each(blocks, &block.at.key("content"), text_block)?),
        Some(_) => return Err(block.fault("content", "must be a string or a list of text blocks")),
    };
    let id = block.needs_text("tool_use_id", "give the id of the call that this answers")?;
    Ok(json!({"role": "tool", "tool_call_id": id, "content": said}))
}

#[cfg(test)]
mod tests {
    use super::super::to_chat;
    use super::*;

    fn body(messages: Value) -> Value {
        json!({"model": "auto", "max_tokens": 9, "messages": messages})
    }

    #[test]
    fn a_conversation_with_tools_and_images_is_told_in_order() {
        let cached = json!({"type": "ephemeral"});
        let mut request = body(json!([
            {"role": "user", "content": [{"type": "text", "text": "look", "cache_control": cached},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
                {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}}]},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "text", "text": "I "}, {"type": "text", "text": "call."},
                {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}},
                {"type": "tool_use", "id": "t2", "name": "g", "input": {}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "17"},
                {"type": "tool_result", "tool_use_id": "t2", "is_error": true},
                {"type": "text", "text": "so?"}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t3", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t3",
                "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]},
        ]));
        request["system"] = json!([{"type": "text", "text": "s1"}, {"type": "text", "text": "s2"}]);
        let translated = to_chat(&request).unwrap();
        let call = |id: &str, name: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
        let want = json!([
            {"role": "system", "content": [{"type": "text", "text": "s1"}, {"type": "text", "text": "s2"}]},
            {"role": "user", "content": [{"type": "text", "text": "look"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                {"type": "image_url", "image_url": {"url": "https://x/y.png"}}]},
            {"role": "assistant", "content": "I call.", "tool_calls": [call("t1", "f", "{\"a\":1}"), call("t2", "g", "{}")]},
            {"role": "tool", "tool_call_id": "t1", "content": "17"},
            {"role": "tool", "tool_call_id": "t2", "content": "error"},
            {"role": "user", "content": "so?"},
            {"role": "assistant", "content": null, "tool_calls": [call("t3", "f", "{}")]},
            {"role": "tool", "tool_call_id": "t3", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        ]);
        assert_eq!(translated.chat["messages"], want);
        crate::shape::check_chat(&translated.chat).unwrap();
        crate::shape::check_calls(&translated.chat).unwrap();
        let origins: Vec<String> = translated.origins.iter().map(ToString::to_string).collect();
        assert_eq!(
            origins,
            [
                "/system",
                "/messages/0",
                "/messages/1",
                "/messages/2/content/0",
                "/messages/2/content/1",
                "/messages/2",
                "/messages/3",
                "/messages/4/content/0"
            ]
        );
    }

    #[test]
    fn a_block_without_a_counterpart_is_named_by_its_place() {
        let user = |block: Value| json!([{"role": "user", "content": [block]}]);
        let earlier =
            |block: Value| json!([{"role": "assistant", "content": [block]}, {"role": "user", "content": "x"}]);
        let result = |content: Value| user(json!({"type": "tool_result", "tool_use_id": "t", "content": content}));
        for (messages, place) in [
            (json!([{"role": "user"}]), "/messages/0/content"),
            (json!([{"role": "user", "content": null}]), "/messages/0/content"),
            (json!([{"role": "user", "content": []}]), "/messages/0/content"),
            (json!([{"role": "assistant"}, {"role": "user", "content": "x"}]), "/messages/0/content"),
            (json!([{"role": "assistant", "content": null}, {"role": "user", "content": "x"}]), "/messages/0/content"),
            (json!([{"role": "user", "content": "x", "secret": 1}]), "/messages/0/["),
            (user(json!("secret")), "/messages/0/content/0"),
            (user(json!({"type": "document", "source": {}})), "/messages/0/content/0/type"),
            (user(json!({"type": "text", "text": 1})), "/messages/0/content/0/text"),
            (user(json!({"type": "image"})), "/messages/0/content/0/source"),
            (
                user(json!({"type": "image", "source": {"type": "file", "file_id": "secret"}})),
                "/messages/0/content/0/source/type",
            ),
            (
                user(json!({"type": "image", "source": {"type": "base64", "data": "secret"}})),
                "/messages/0/content/0/source/media_type",
            ),
            (user(json!({"type": "tool_result"})), "/messages/0/content/0/tool_use_id"),
            (result(json!(7)), "/messages/0/content/0/content"),
            (result(json!([{"type": "image", "source": {}}])), "/messages/0/content/0/content/0/type"),
            (earlier(json!({"type": "server_tool_use"})), "/messages/0/content/0/type"),
            (
                earlier(json!({"type": "tool_use", "id": "t", "name": "f", "input": "secret"})),
                "/messages/0/content/0/input",
            ),
        ] {
            let error = to_chat(&body(messages)).unwrap_err().error;
            assert!(error.param.as_deref().unwrap().starts_with(place), "{error:?} {place}");
            assert!(!error.message.contains("secret"), "{}", error.message);
        }
    }
}
