//! A Responses request as a chat completion.

use std::fmt;

use serde_json::{Map, Value, json};

use super::items;
use crate::error::ErrorBody;
use crate::members::{Members, UNTRANSLATED};
use crate::pointer::Pointer;
use crate::translated::{Messages, Translated};

/// Members that are read. `max_tool_calls` limits tools that run at the server, of which there are none;
/// `stream_options` says only how to pad events.
const TAKEN: &[&str] = &[
    "model",
    "input",
    "instructions",
    "max_output_tokens",
    "temperature",
    "top_p",
    "top_logprobs",
    "stream",
    "stream_options",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "max_tool_calls",
    "text",
    "reasoning",
    "include",
    "metadata",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "store",
    "background",
    "truncation",
    "service_tier",
];
/// Members that OpenAI has and tiers do not.
const KNOWN: &[&str] = &[
    "access_programs",
    "background_options",
    "context_management",
    "image",
    "moderation",
    "prompt",
    "prompt_cache_options",
    "prompt_cache_retention",
];
/// Members with the same name and meaning in both.
const SAME: &[&str] = &[
    "temperature",
    "top_p",
    "stream",
    "parallel_tool_calls",
    "metadata",
    "user",
    "safety_identifier",
    "prompt_cache_key",
];
/// Members that name what an earlier request left behind.
const KEPT: &[&str] = &["previous_response_id", "conversation"];
const NOT_KEPT: &str = "answers are not kept here: leave it out, and send the whole conversation in input";

/// Members of the request that come back in the answer.
#[derive(Clone, PartialEq)]
pub struct Echo(Map<String, Value>);

impl fmt::Debug for Echo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Echo")
    }
}

impl Echo {
    /// Each member, with OpenAI's default where the request has none.
    fn of(asked: &Members<'_>) -> Self {
        let defaults = [
            ("instructions", Value::Null),
            ("max_output_tokens", Value::Null),
            ("metadata", json!({})),
            ("parallel_tool_calls", json!(true)),
            ("reasoning", json!({"effort": null, "summary": null})),
            ("temperature", json!(1.0)),
            ("text", json!({"format": {"type": "text"}})),
            ("tool_choice", json!("auto")),
            ("tools", json!([])),
            ("top_logprobs", json!(0)),
            ("top_p", json!(1.0)),
            ("truncation", json!("disabled")),
            ("user", Value::Null),
        ];
        let mut echo: Map<String, Value> = defaults
            .into_iter()
            .map(|(name, default)| (name.to_owned(), asked.get(name).cloned().unwrap_or(default)))
            .collect();
        for (name, value) in
            [("background", json!(false)), ("store", json!(false)), ("previous_response_id", Value::Null)]
        {
            echo.insert(name.into(), value);
        }
        Self(echo)
    }

    /// A response with nothing said yet.
    pub(super) fn head(&self, id: &str, created: u64, model: &str) -> Map<String, Value> {
        let mut head = self.0.clone();
        for (name, value) in [
            ("id", json!(format!("resp_{id}"))),
            ("object", json!("response")),
            ("created_at", json!(created)),
            ("model", json!(model)),
            ("status", json!("in_progress")),
            ("error", Value::Null),
            ("incomplete_details", Value::Null),
            ("output", json!([])),
            ("usage", Value::Null),
        ] {
            head.insert(name.into(), value);
        }
        head
    }
}

/// The chat completion that stands for a Responses request, and what of it comes back.
///
/// # Errors
/// 400 with the place in the Responses request.
pub fn to_chat(request: &Value) -> Result<(Translated, Echo), ErrorBody> {
    let asked = Members::of(request, Pointer::root(), "the body must be a JSON object")?;
    stateless(&asked)?;
    asked.only(TAKEN, KNOWN)?;
    let model = "give the model's name as a string; `auto` leaves the choice to the policy";
    let mut chat = Map::new();
    chat.insert("model".into(), asked.needs_text("model", model)?.into());
    let (messages, origins) = messages(&asked)?;
    chat.insert("messages".into(), messages);
    for name in SAME {
        if let Some(value) = asked.get(name) {
            chat.insert((*name).into(), value.clone());
        }
    }
    if let Some(limit) = asked.get("max_output_tokens") {
        if !limit.as_u64().is_some_and(|n| n >= 1 && u32::try_from(n).is_ok()) {
            return Err(asked.fault("max_output_tokens", "must be a whole number of at least 1"));
        }
        chat.insert("max_tokens".into(), limit.clone());
    }
    tools(&asked, &mut chat)?;
    form(&asked, &mut chat)?;
    included(&asked, &mut chat)?;
    Ok((Translated { chat: Value::Object(chat), origins }, Echo::of(&asked)))
}

/// Refuses what would have to be remembered, or goes on when the request is over.
fn stateless(asked: &Members<'_>) -> Result<(), ErrorBody> {
    if let Some(name) = KEPT.iter().find(|name| asked.get(name).is_some()) {
        return Err(asked.fault(name, NOT_KEPT));
    }
    if asked.flag("store")? == Some(true) {
        return Err(asked.fault("store", "answers are not kept here: leave it out, or say false"));
    }
    if asked.flag("background")? == Some(true) {
        return Err(asked.fault("background", "answers are not kept here: leave it out, and wait for the answer"));
    }
    if asked.text("truncation")?.is_some_and(|word| word != "disabled") {
        return Err(asked.fault("truncation", "must be disabled: an input that is too long is refused, not cut"));
    }
    if asked.text("service_tier")?.is_some_and(|word| !matches!(word, "auto" | "default")) {
        return Err(asked.fault("service_tier", "must be auto or default"));
    }
    asked.members("stream_options").map(|_| ())
}

fn messages(asked: &Members<'_>) -> Result<(Value, Vec<Pointer>), ErrorBody> {
    let mut chat = Messages::default();
    if let Some(instructions) = asked.text("instructions")? {
        chat.push(json!({"role": "system", "content": instructions}), &asked.at.key("instructions"));
    }
    let at = asked.at.key("input");
    match asked.get("input") {
        Some(Value::String(text)) => chat.push(json!({"role": "user", "content": text}), &at),
        Some(Value::Array(list)) if !list.is_empty() => {
            for (i, item) in list.iter().enumerate() {
                let item =
                    Members::of(item, at.index(i), "an item is an object with a type, or with role and content")?;
                items::read(&item, &mut chat)?;
            }
        }
        _ => return Err(asked.fault("input", "give a string or a list of items")),
    }
    Ok(chat.into_parts())
}

fn tools(asked: &Members<'_>, chat: &mut Map<String, Value>) -> Result<(), ErrorBody> {
    let at = asked.at.key("tools");
    let mut tools = Vec::new();
    for (i, tool) in asked.list("tools")?.into_iter().flatten().enumerate() {
        let tool = Members::of(tool, at.index(i), "a tool is an object with a type")?;
        if tool.get("type").and_then(Value::as_str) != Some("function") {
            return Err(tool.fault("type", "only functions can be translated: no tool runs at this server"));
        }
        tool.only(&["type", "name", "description", "parameters", "strict"], &["defer_loading"])?;
        tool.needs_text("name", "give the function's name as a string")?;
        let members = ["name", "description", "parameters", "strict"];
        let function: Map<String, Value> =
            members.iter().filter_map(|n| tool.get(n).map(|v| ((*n).to_owned(), v.clone()))).collect();
        tools.push(json!({"type": "function", "function": function}));
    }
    if !tools.is_empty() {
        chat.insert("tools".into(), Value::Array(tools));
    }
    let choice = match asked.get("tool_choice") {
        None => return Ok(()),
        Some(word @ Value::String(_)) => word.clone(),
        Some(_) => {
            let choice = asked.members("tool_choice")?;
            let name = choice.as_ref().filter(|c| c.get("type").and_then(Value::as_str) == Some("function"));
            let name = name.ok_or_else(|| {
                asked.fault("tool_choice", "must be none, auto, required, or an object that names a function")
            })?;
            let name = name.needs_text("name", "give the name of one of the functions")?;
            json!({"type": "function", "function": {"name": name}})
        }
    };
    chat.insert("tool_choice".into(), choice);
    Ok(())
}

/// The form of the answer, and how hard to think about it.
fn form(asked: &Members<'_>, chat: &mut Map<String, Value>) -> Result<(), ErrorBody> {
    if let Some(text) = asked.members("text")? {
        text.only(&["format", "verbosity"], &[])?;
        if let Some(verbosity) = text.text("verbosity")? {
            chat.insert("verbosity".into(), verbosity.into());
        }
        if let Some(format) = text.members("format")? {
            match format.get("type").and_then(Value::as_str) {
                Some("text") => {}
                Some("json_object") => {
                    chat.insert("response_format".into(), json!({"type": "json_object"}));
                }
                Some("json_schema") => {
                    chat.insert("response_format".into(), json_schema(&format)?);
                }
                _ => return Err(format.fault("type", "must be one of: text, json_object, json_schema")),
            }
        }
    }
    let Some(reasoning) = asked.members("reasoning")? else { return Ok(()) };
    reasoning.only(&["effort", "summary"], &["generate_summary", "context"])?;
    if let Some(effort) = reasoning.text("effort")? {
        chat.insert("reasoning_effort".into(), effort.into());
    }
    // `auto` is what there is, which is none.
    if reasoning.text("summary")?.is_some_and(|word| word != "auto") {
        return Err(reasoning.fault("summary", UNTRANSLATED));
    }
    Ok(())
}

fn json_schema(format: &Members<'_>) -> Result<Value, ErrorBody> {
    format.only(&["type", "name", "schema", "strict", "description"], &[])?;
    format.needs_text("name", "give the schema's name as a string")?;
    if !format.get("schema").is_some_and(Value::is_object) {
        return Err(format.fault("schema", "give a JSON Schema, which is an object"));
    }
    let members = ["name", "schema", "strict", "description"];
    let named: Map<String, Value> =
        members.iter().filter_map(|n| format.get(n).map(|v| ((*n).to_owned(), v.clone()))).collect();
    Ok(json!({"type": "json_schema", "json_schema": named}))
}

/// What comes with the answer.
fn included(asked: &Members<'_>, chat: &mut Map<String, Value>) -> Result<(), ErrorBody> {
    let alternatives = asked.get("top_logprobs").filter(|n| n.as_u64() != Some(0));
    let mut likely = alternatives.is_some();
    let at = asked.at.key("include");
    for (i, what) in asked.list("include")?.into_iter().flatten().enumerate() {
        match what.as_str() {
            Some("message.output_text.logprobs") => likely = true,
            // Tiers give none, encrypted or not.
            Some("reasoning.encrypted_content") => {}
            _ => return Err(ErrorBody::invalid(&at.index(i), "must be message.output_text.logprobs")),
        }
    }
    if likely {
        chat.insert("logprobs".into(), true.into());
    }
    if let Some(count) = alternatives {
        chat.insert("top_logprobs".into(), count.clone());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(more: Value) -> Result<(Translated, Echo), ErrorBody> {
        let mut body = json!({"model": "auto", "input": "hi"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        to_chat(&body)
    }

    #[test]
    fn every_member_has_its_counterpart() {
        let schema = json!({"type": "object"});
        let (translated, echo) = with(json!({
            "instructions": "Be brief.", "max_output_tokens": 9, "temperature": 0.5, "top_p": 0.9, "stream": true,
            "tools": [{"type": "function", "name": "f", "description": "d", "parameters": schema, "strict": true}],
            "tool_choice": {"type": "function", "name": "f"}, "parallel_tool_calls": false, "store": false,
            "text": {"format": {"type": "json_schema", "name": "n", "schema": schema, "strict": true}, "verbosity": "low"},
            "reasoning": {"effort": "low", "summary": "auto"}, "include": ["reasoning.encrypted_content"],
            "top_logprobs": 2, "metadata": {"feature": "f"}, "user": "u", "truncation": "disabled",
            "previous_response_id": null, "service_tier": "auto", "stream_options": {"include_obfuscation": false}}))
        .unwrap();
        let want = json!({
            "model": "auto", "max_tokens": 9, "temperature": 0.5, "top_p": 0.9, "stream": true, "verbosity": "low",
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
            "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": schema, "strict": true}}],
            "tool_choice": {"type": "function", "function": {"name": "f"}}, "parallel_tool_calls": false,
            "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema, "strict": true}},
            "reasoning_effort": "low", "logprobs": true, "top_logprobs": 2, "metadata": {"feature": "f"}, "user": "u"});
        assert_eq!(translated.chat, want);
        // As an agent reads it.
        let read = crate::chat::ChatRequest::from_value(translated.chat).unwrap();
        let tools = crate::tools::read_tools(read.tools.as_ref()).unwrap();
        crate::tools::read_choice(read.tool_choice.as_ref(), &tools).unwrap();
        crate::format::ResponseFormat::read(read.response_format.as_ref()).unwrap();
        let head = echo.head("r1", 7, "small");
        assert_eq!(
            (&head["id"], &head["store"], &head["instructions"]),
            (&json!("resp_r1"), &json!(false), &json!("Be brief."))
        );
        assert_eq!(head["tools"][0]["name"], "f");
        let plain = with(json!({})).unwrap();
        assert_eq!(plain.0.chat, json!({"model": "auto", "messages": [{"role": "user", "content": "hi"}]}));
        assert_eq!(plain.1.head("r", 7, "m")["tool_choice"], "auto");
    }

    #[test]
    fn what_has_no_counterpart_is_named_by_its_place_and_never_by_content() {
        for (more, place) in [
            (json!({"model": 7}), "/model"),
            (json!({"input": []}), "/input"),
            (json!({"input": ["secret"]}), "/input/0"),
            (json!({"store": true}), "/store"),
            (json!({"background": true}), "/background"),
            (json!({"previous_response_id": "secret"}), "/previous_response_id"),
            (json!({"conversation": {"id": "secret"}}), "/conversation"),
            (json!({"prompt": {"id": "secret"}}), "/prompt"),
            (json!({"truncation": "auto"}), "/truncation"),
            (json!({"service_tier": "flex"}), "/service_tier"),
            (json!({"max_output_tokens": 0}), "/max_output_tokens"),
            (json!({"tools": [{"type": "web_search"}]}), "/tools/0/type"),
            (json!({"tools": [{"type": "mcp", "server_url": "https://secret"}]}), "/tools/0/type"),
            (json!({"tools": [{"type": "function"}]}), "/tools/0/name"),
            (json!({"tool_choice": {"type": "file_search"}}), "/tool_choice"),
            (json!({"tool_choice": {"type": "function"}}), "/tool_choice/name"),
            (json!({"text": {"format": {"type": "secret"}}}), "/text/format/type"),
            (json!({"text": {"format": {"type": "json_schema", "schema": {}}}}), "/text/format/name"),
            (json!({"text": {"format": {"type": "json_schema", "name": "x"}}}), "/text/format/schema"),
            (json!({"reasoning": {"summary": "detailed"}}), "/reasoning/summary"),
            (json!({"include": ["file_search_call.results"]}), "/include/0"),
        ] {
            let error = with(more).unwrap_err().error;
            assert_eq!((error.param.as_deref(), error.code.as_str()), (Some(place), "invalid_request"));
            assert!(error.message.starts_with(place) && !error.message.contains("secret"), "{}", error.message);
        }
        let unknown = with(json!({"secret": 1})).unwrap_err().error;
        assert!(unknown.param.unwrap().starts_with("/[") && !unknown.message.contains("secret"));
    }
}
