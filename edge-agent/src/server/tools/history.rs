//! A conversation as templates take it: earlier calls and their results, tools that the template does not know.

use serde_json::{Value, json};
use terrace_wire::error::{Code, ErrorBody};
use terrace_wire::message::Message;
use terrace_wire::pointer::Pointer;
use terrace_wire::tools::ToolCall;

use super::format::Format;
use super::ids;

/// Messages for a template. `tools` are the request's own, for a template that does not take them itself.
///
/// # Errors
/// 422 for content that is not text, with its place.
pub(in crate::server) fn messages(
    format: &Format,
    messages: &[Message],
    tools: Option<&Value>,
) -> Result<Vec<Value>, ErrorBody> {
    let at = Pointer::root().key("messages");
    let mut out: Vec<Value> = Vec::with_capacity(messages.len() + 1);
    for (i, message) in messages.iter().enumerate() {
        let text = text(message, &at.index(i))?;
        if format.native {
            out.push(native(format, message, text));
        } else if message.role == "tool" {
            let result = result(message, &text, messages);
            // Results of calls that stood in one answer stay in one turn: templates want turns to alternate.
            match out.last_mut().filter(|_| i > 0 && messages[i - 1].role == "tool") {
                Some(last) => append(last, "\n", &result),
                None => out.push(json!({"role": "user", "content": result})),
            }
        } else {
            out.push(in_words(format, message, text));
        }
    }
    if let (false, Some(tools)) = (format.native, tools) {
        instruct(format, tools, &mut out);
    }
    Ok(out)
}

fn text(message: &Message, at: &Pointer) -> Result<String, ErrorBody> {
    if message.role == "function" {
        return Err(ErrorBody::unsupported(&at.key("role"), "use the role tool and tool_call_id"));
    }
    let text = message.content.text().map_err(|part| {
        let at = at.key("content").index(part).key("type");
        ErrorBody::about(Code::UnsupportedFeature, &at, "only text parts are supported by this agent")
    })?;
    Ok(if text.is_empty() { message.refusal.clone().unwrap_or_default() } else { text })
}

/// As Hugging Face's templates expect it: `developer` under its older name, arguments as objects.
fn native(format: &Format, message: &Message, text: String) -> Value {
    let mut out = json!({"role": role(message), "content": text});
    if let Some(name) = &message.name {
        out["name"] = name.as_str().into();
    }
    if let Some(thought) = &message.reasoning_content {
        out["reasoning_content"] = thought.as_str().into();
    }
    if let Some(id) = &message.tool_call_id {
        out["tool_call_id"] = ids::for_template(format, id).into();
    }
    if let Some(calls) = message.tool_calls.as_ref().filter(|calls| !calls.is_empty()) {
        out["tool_calls"] = calls.iter().map(|call| native_call(format, call)).collect();
    }
    out
}

fn native_call(format: &Format, call: &ToolCall) -> Value {
    let ToolCall { id, function, .. } = call;
    let function = json!({"name": function.name, "arguments": arguments(call)});
    json!({"id": ids::for_template(format, id), "type": "function", "function": function})
}

/// The arguments as an object; as they are if they are none.
fn arguments(call: &ToolCall) -> Value {
    let text = &call.function.arguments;
    match terrace_wire::json::parse(text.as_bytes()) {
        Ok(object @ Value::Object(_)) => object,
        _ => text.as_str().into(),
    }
}

fn role(message: &Message) -> &str {
    if message.role == "developer" { "system" } else { &message.role }
}

/// A result as the user's words.
fn result(message: &Message, text: &str, all: &[Message]) -> String {
    let id = message.tool_call_id.as_deref().unwrap_or_default();
    let call = all.iter().flat_map(|m| m.tool_calls.iter().flatten()).find(|call| call.id == id);
    let name = call.map_or("The function", |call| call.function.name.as_str());
    format!("{name} returned: {text}")
}

/// Calls as the model would have written them.
fn in_words(format: &Format, message: &Message, text: String) -> Value {
    let calls = message.tool_calls.as_deref().unwrap_or_default().iter();
    let lines: Vec<String> = calls
        .map(|ToolCall { function, .. }| {
            [format.head, &function.name, format.middle, &function.arguments, format.tail].concat()
        })
        .collect();
    let both = [text, lines.join(format.between.map_or("\n", |b| b.text))];
    let content = both.iter().filter(|t| !t.is_empty()).map(String::as_str).collect::<Vec<_>>().join("\n");
    json!({"role": role(message), "content": content})
}

fn append(message: &mut Value, between: &str, more: &str) {
    let so_far = message["content"].as_str().unwrap_or_default();
    message["content"] = format!("{so_far}{between}{more}").into();
}

/// Tells a model of functions that its template does not.
fn instruct(format: &Format, tools: &Value, out: &mut Vec<Value>) {
    let functions = tools.as_array().into_iter().flatten().filter_map(|tool| tool.get("function"));
    let lines: Vec<String> = functions.map(Value::to_string).collect();
    let example = [format.head, "NAME", format.middle, "{\"KEY\": VALUE}", format.tail].concat();
    let words = format!(
        "You can call these functions:\n{}\nTo call one, answer with nothing but its name and its arguments as JSON, like \
         this: {example}. What it returns comes back to you. Answer in words when no function helps.",
        lines.join("\n")
    );
    match out.first_mut() {
        Some(first) if first["role"] == "system" => append(first, "\n\n", &words),
        _ => out.insert(0, json!({"role": "system", "content": words})),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conversation() -> Vec<Message> {
        let call = |id: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": "find", "arguments": arguments}});
        serde_json::from_value(json!([
            {"role": "developer", "content": "Be kind."},
            {"role": "user", "content": [{"type": "text", "text": "Where?"}]},
            {"role": "assistant", "content": null, "tool_calls": [call("call_1", "{\"q\": 1}"), call("call_2", "{\"q\": 2}")]},
            {"role": "tool", "tool_call_id": "call_1", "content": "here"},
            {"role": "tool", "tool_call_id": "call_2", "content": "there"},
        ]))
        .unwrap()
    }

    #[test]
    fn templates_that_know_tools_get_objects() {
        let got = messages(&Format::of("tools <tool_call>"), &conversation(), None).unwrap();
        assert_eq!(got[0]["role"], "system");
        assert_eq!(got[2]["tool_calls"][1]["function"]["arguments"], json!({"q": 2}));
        assert_eq!((&got[2]["content"], &got[3]["tool_call_id"]), (&json!(""), &json!("call_1")));
        // Mistral's template refuses any other ids.
        let got = messages(&Format::of("tools [TOOL_CALLS]"), &conversation(), None).unwrap();
        let id = got[3]["tool_call_id"].as_str().unwrap();
        assert!(id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()), "{id}");
        assert_eq!(got[2]["tool_calls"][0]["id"], id);
        assert_ne!(got[2]["tool_calls"][1]["id"], id);
    }

    #[test]
    fn templates_that_do_not_get_words() {
        let tools = json!([{"type": "function", "function": {"name": "find", "description": "finds things"}}]);
        let got = messages(&Format::of("messages"), &conversation(), Some(&tools)).unwrap();
        let system = got[0]["content"].as_str().unwrap();
        assert!(system.starts_with("Be kind.\n\n") && system.contains("finds things"), "{system}");
        assert_eq!(
            got[2],
            json!({"role": "assistant", "content":
            "{\"name\": \"find\", \"arguments\": {\"q\": 1}}\n{\"name\": \"find\", \"arguments\": {\"q\": 2}}"})
        );
        assert_eq!(got[3]["content"], "find returned: here\nfind returned: there");
        assert_eq!((got.len(), &got[3]["role"]), (4, &json!("user")));
        let alone = messages(&Format::of("messages"), &conversation()[1..2], Some(&tools)).unwrap();
        assert_eq!((alone.len(), &alone[0]["role"]), (2, &json!("system")));
    }

    #[test]
    fn what_is_not_text_is_named_by_its_place() {
        let picture = json!([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url"}]}]);
        let error =
            messages(&Format::of(""), &serde_json::from_value::<Vec<Message>>(picture).unwrap(), None).unwrap_err();
        assert_eq!(
            (error.error.param.as_deref(), error.error.code.as_str()),
            (Some("/messages/0/content/1/type"), "unsupported_feature")
        );
    }
}
