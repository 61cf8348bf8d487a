//! A Messages request as a chat completion.

use serde_json::{Map, Value, json};

use super::content;
use crate::error::ErrorBody;
use crate::members::{Members, UNTRANSLATED};
use crate::pointer::Pointer;
use crate::translated::{Messages, Translated};

/// Members that are read. `cache_control` and `service_tier` change no answer.
const TAKEN: &[&str] = &[
    "model",
    "messages",
    "max_tokens",
    "system",
    "stop_sequences",
    "stream",
    "temperature",
    "top_p",
    "top_k",
    "tools",
    "tool_choice",
    "metadata",
    "output_config",
    "output_format",
    "thinking",
    "service_tier",
    "cache_control",
];
/// Members that Anthropic has and tiers do not.
const KNOWN: &[&str] = &[
    "container",
    "context_management",
    "diagnostics",
    "inference_geo",
    "mcp_servers",
    "speed",
    "user_profile_id",
    "workspace_id",
];
/// Stop sequences that a chat completion may have.
const MOST_STOPS: usize = 4;

/// The chat completion that stands for a Messages request.
///
/// # Errors
/// 400 with the place in the Messages request.
pub fn to_chat(request: &Value) -> Result<Translated, ErrorBody> {
    let asked = Members::of(request, Pointer::root(), "the body must be a JSON object")?;
    asked.only(TAKEN, KNOWN)?;
    let model = "give the model's name as a string; `auto` leaves the choice to the policy";
    let mut chat = Map::new();
    chat.insert("model".into(), asked.needs_text("model", model)?.into());
    chat.insert("max_tokens".into(), output_limit(&asked)?);
    let (messages, origins) = messages(&asked)?;
    chat.insert("messages".into(), messages);
    for name in ["temperature", "top_p", "top_k", "stream"] {
        if let Some(value) = asked.get(name) {
            chat.insert(name.into(), value.clone());
        }
    }
    if let Some(stops) = stops(&asked)? {
        chat.insert("stop".into(), stops);
    }
    tools(&asked, &mut chat)?;
    metadata(&asked, &mut chat)?;
    output(&asked, &mut chat)?;
    if let Some(thinking) = asked.members("thinking")?
        && thinking.get("type").and_then(Value::as_str) != Some("disabled")
    {
        return Err(asked.fault("thinking", UNTRANSLATED));
    }
    Ok(Translated { chat: Value::Object(chat), origins })
}

fn output_limit(asked: &Members<'_>) -> Result<Value, ErrorBody> {
    let limit = asked.get("max_tokens").filter(|n| n.as_u64().is_some_and(|n| n >= 1 && u32::try_from(n).is_ok()));
    limit.cloned().ok_or_else(|| asked.fault("max_tokens", "give a whole number of at least 1"))
}

fn messages(asked: &Members<'_>) -> Result<(Value, Vec<Pointer>), ErrorBody> {
    let mut chat = Messages::default();
    if let Some(system) = asked.get("system") {
        content::system(system, &asked.at.key("system"), &mut chat)?;
    }
    let given = asked.list("messages")?.filter(|list| !list.is_empty());
    let given = given.ok_or_else(|| asked.fault("messages", "give at least one message"))?;
    let at = asked.at.key("messages");
    for (i, message) in given.iter().enumerate() {
        let message = Members::of(message, at.index(i), "a message is an object with role and content")?;
        message.only(&["role", "content"], &[])?;
        match message.get("role").and_then(Value::as_str) {
            Some("user") => content::user(&message, &mut chat)?,
            Some("assistant") if i + 1 == given.len() => {
                let what = "an answer cannot be begun for the model here: let the last message be the user's";
                return Err(message.fault("role", what));
            }
            Some("assistant") => content::assistant(&message, &mut chat)?,
            _ => return Err(message.fault("role", "the role must be user or assistant")),
        }
    }
    Ok(chat.into_parts())
}

fn stops(asked: &Members<'_>) -> Result<Option<Value>, ErrorBody> {
    let Some(list) = asked.list("stop_sequences")?.filter(|list| !list.is_empty()) else { return Ok(None) };
    let at = asked.at.key("stop_sequences");
    if let Some(i) = list.iter().position(|stop| !stop.is_string()) {
        return Err(ErrorBody::invalid(&at.index(i), "must be a string"));
    }
    if list.len() > MOST_STOPS {
        return Err(ErrorBody::invalid(&at, format!("has {}; a tier takes {MOST_STOPS} at most", list.len())));
    }
    Ok(Some(Value::Array(list.clone())))
}

/// Tools and which of them to use.
fn tools(asked: &Members<'_>, chat: &mut Map<String, Value>) -> Result<(), ErrorBody> {
    let given = asked.list("tools")?.map(Vec::as_slice).unwrap_or_default();
    let at = asked.at.key("tools");
    let tools: Result<Vec<Value>, ErrorBody> =
        given.iter().enumerate().map(|(i, t)| tool(&Members::of(t, at.index(i), "a tool is an object")?)).collect();
    let tools = tools?;
    if !tools.is_empty() {
        chat.insert("tools".into(), Value::Array(tools));
    }
    let Some(choice) = asked.members("tool_choice")? else { return Ok(()) };
    choice.only(&["type", "name", "disable_parallel_tool_use"], &[])?;
    let word = match choice.get("type").and_then(Value::as_str) {
        Some("auto") => json!("auto"),
        Some("any") => json!("required"),
        Some("none") => json!("none"),
        Some("tool") => {
            let name = choice.needs_text("name", "give the name of one of the tools")?;
            json!({"type": "function", "function": {"name": name}})
        }
        _ => return Err(choice.fault("type", "must be one of: auto, any, tool, none")),
    };
    chat.insert("tool_choice".into(), word);
    if choice.flag("disable_parallel_tool_use")? == Some(true) {
        chat.insert("parallel_tool_calls".into(), false.into());
    }
    Ok(())
}

fn tool(tool: &Members<'_>) -> Result<Value, ErrorBody> {
    // Anthropic's own tools run at Anthropic, or have a schema that only its models know.
    if tool.get("type").is_some_and(|kind| kind.as_str() != Some("custom")) {
        return Err(tool.fault("type", "only custom tools can be translated: describe it with input_schema"));
    }
    let taken = ["type", "name", "description", "input_schema", "strict", "cache_control", "eager_input_streaming"];
    tool.only(&taken, &["allowed_callers", "defer_loading", "input_examples"])?;
    let mut function = Map::new();
    function.insert("name".into(), tool.needs_text("name", "give the tool's name as a string")?.into());
    if let Some(description) = tool.text("description")? {
        function.insert("description".into(), description.into());
    }
    let schema = tool.get("input_schema").filter(|schema| schema.is_object());
    let schema = schema.ok_or_else(|| tool.fault("input_schema", "give a JSON Schema, which is an object"))?;
    function.insert("parameters".into(), schema.clone());
    if let Some(strict) = tool.flag("strict")? {
        function.insert("strict".into(), strict.into());
    }
    Ok(json!({"type": "function", "function": function}))
}

/// Who asks. The whole member is kept beside it: the router reads the feature there.
fn metadata(asked: &Members<'_>, chat: &mut Map<String, Value>) -> Result<(), ErrorBody> {
    let Some(metadata) = asked.members("metadata")? else { return Ok(()) };
    if let Some(user) = metadata.text("user_id")? {
        chat.insert("user".into(), user.into());
    }
    chat.insert("metadata".into(), asked.get("metadata").cloned().unwrap_or_default());
    Ok(())
}

/// The form of the answer, and how hard to think about it.
fn output(asked: &Members<'_>, chat: &mut Map<String, Value>) -> Result<(), ErrorBody> {
    let config = asked.members("output_config")?;
    if let Some(config) = &config {
        config.only(&["format", "effort"], &["task_budget"])?;
        match config.text("effort")? {
            // What happens without the member, too.
            None | Some("high") => {}
            Some(effort @ ("low" | "medium")) => {
                chat.insert("reasoning_effort".into(), effort.into());
            }
            Some(_) => return Err(config.fault("effort", "must be one of: low, medium, high")),
        }
    }
    let format = config.map(|config| config.members("format")).transpose()?.flatten();
    let Some(format) = format.map_or_else(|| asked.members("output_format"), |format| Ok(Some(format)))? else {
        return Ok(());
    };
    format.only(&["type", "schema"], &[])?;
    if format.get("type").and_then(Value::as_str) != Some("json_schema") {
        return Err(format.fault("type", "must be json_schema"));
    }
    let schema = format.get("schema").filter(|schema| schema.is_object());
    let schema = schema.ok_or_else(|| format.fault("schema", "give a JSON Schema, which is an object"))?;
    let named = json!({"name": "answer", "schema": schema, "strict": true});
    chat.insert("response_format".into(), json!({"type": "json_schema", "json_schema": named}));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(more: Value) -> Result<Translated, ErrorBody> {
        let mut body = json!({"model": "auto", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        to_chat(&body)
    }

    #[test]
    fn every_member_has_its_counterpart() {
        let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
        let body = json!({
            "system": "Be brief.", "stop_sequences": ["a", "b"], "stream": true, "temperature": 0.5, "top_p": 0.9,
            "top_k": 5, "metadata": {"user_id": "u", "feature": "f"}, "thinking": {"type": "disabled"},
            "service_tier": "auto", "cache_control": {"type": "ephemeral"}, "container": null,
            "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": schema}},
            "tools": [{"name": "f", "description": "d", "input_schema": schema, "cache_control": {"type": "ephemeral"}},
                {"type": "custom", "name": "g", "input_schema": {"type": "object"}, "strict": true}],
            "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": true}});
        let chat = with(body).unwrap().chat;
        let want = json!({
            "model": "auto", "max_tokens": 9, "stop": ["a", "b"], "stream": true, "temperature": 0.5, "top_p": 0.9,
            "top_k": 5, "user": "u", "metadata": {"user_id": "u", "feature": "f"}, "reasoning_effort": "low",
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
            "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": true}},
            "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": schema}},
                {"type": "function", "function": {"name": "g", "parameters": {"type": "object"}, "strict": true}}],
            "tool_choice": {"type": "function", "function": {"name": "f"}}, "parallel_tool_calls": false});
        assert_eq!(chat, want);
        // As an agent reads it.
        let read = crate::chat::ChatRequest::from_value(chat).unwrap();
        let tools = crate::tools::read_tools(read.tools.as_ref()).unwrap();
        crate::tools::read_choice(read.tool_choice.as_ref(), &tools).unwrap();
        crate::format::ResponseFormat::read(read.response_format.as_ref()).unwrap();
        for (choice, word) in [("auto", "auto"), ("any", "required"), ("none", "none")] {
            assert_eq!(with(json!({"tool_choice": {"type": choice}})).unwrap().chat["tool_choice"], word);
        }
    }

    #[test]
    fn what_has_no_counterpart_is_named_by_its_place_and_never_by_content() {
        let tool = |tool: Value| json!({ "tools": [tool] });
        for (more, place) in [
            (json!({"model": 7}), "/model"),
            (json!({"max_tokens": null}), "/max_tokens"),
            (json!({"max_tokens": 0}), "/max_tokens"),
            (json!({"messages": []}), "/messages"),
            (json!({"messages": ["secret"]}), "/messages/0"),
            (json!({"messages": [{"role": "secret", "content": "x"}]}), "/messages/0/role"),
            (json!({"messages": [{"role": "assistant", "content": "x"}]}), "/messages/0/role"),
            (json!({"stop_sequences": ["1", "2", "3", "4", "secret"]}), "/stop_sequences"),
            (json!({"stop_sequences": [1]}), "/stop_sequences/0"),
            (tool(json!({"type": "web_search_20250305", "name": "secret"})), "/tools/0/type"),
            (tool(json!({"name": "secret"})), "/tools/0/input_schema"),
            (tool(json!({"input_schema": {}})), "/tools/0/name"),
            (tool(json!({"name": "x", "input_schema": {}, "defer_loading": true})), "/tools/0/defer_loading"),
            (json!({"tool_choice": {"type": "secret"}}), "/tool_choice/type"),
            (json!({"tool_choice": {"type": "tool"}}), "/tool_choice/name"),
            (json!({"thinking": {"type": "enabled", "budget_tokens": 1024}}), "/thinking"),
            (json!({"mcp_servers": [{"url": "https://secret"}]}), "/mcp_servers"),
            (json!({"container": "secret"}), "/container"),
            (json!({"output_config": {"effort": "max"}}), "/output_config/effort"),
            (json!({"output_format": {"type": "secret"}}), "/output_format/type"),
            (json!({"metadata": "secret"}), "/metadata"),
            (json!({"metadata": {"user_id": 3}}), "/metadata/user_id"),
        ] {
            let error = with(more).unwrap_err().error;
            assert_eq!((error.param.as_deref(), error.code.as_str()), (Some(place), "invalid_request"));
            assert!(error.message.starts_with(place) && !error.message.contains("secret"), "{}", error.message);
        }
        let unknown = with(json!({"secret": 1})).unwrap_err().error;
        assert!(unknown.param.unwrap().starts_with("/["));
        assert!(!unknown.message.contains("secret"), "{}", unknown.message);
        assert_eq!(to_chat(&json!([])).unwrap_err().error.param.as_deref(), Some("/"));
    }
}
