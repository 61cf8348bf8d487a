//! A chat completion's answer as a message of Anthropic's.

use serde_json::{Map, Value, json};

/// The message that stands for a whole answer, `usage` and all; none if it calls a tool with what is no object.
pub fn answer(chat: &Value, id: &str) -> Option<Value> {
    let choice = chat.get("choices")?.get(0)?;
    let message = choice.get("message")?;
    let finish = choice.get("finish_reason").and_then(Value::as_str).unwrap_or_default();
    let said = |name: &str| message.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let text = |text: &str| json!({"type": "text", "text": text});
    let mut content: Vec<Value> = [said("content"), said("refusal")].into_iter().flatten().map(text).collect();
    let mut called = false;
    for call in message.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
        match tool_use(call) {
            Some(block) => content.push(block),
            // The call that the limit cut off is no call.
            None if finish == "length" => continue,
            None => return None,
        }
        called = true;
    }
    let mut whole = head(id, chat.get("model")?.as_str()?);
    whole.insert("content".into(), Value::Array(content));
    whole.insert("stop_reason".into(), stop_reason(finish, called, said("refusal").is_some()).into());
    whole.insert("usage".into(), usage(chat.get("usage")));
    Some(Value::Object(whole))
}

/// A message without anything said yet.
pub(super) fn head(id: &str, model: &str) -> Map<String, Value> {
    let mut head = Map::new();
    head.insert("id".into(), format!("msg_{id}").into());
    head.insert("type".into(), "message".into());
    head.insert("role".into(), "assistant".into());
    head.insert("model".into(), model.into());
    head.insert("content".into(), Value::Array(Vec::new()));
    head.insert("stop_reason".into(), Value::Null);
    head.insert("stop_sequence".into(), Value::Null);
    head
}

fn tool_use(call: &Value) -> Option<Value> {
    let function = call.get("function")?;
    let arguments = function.get("arguments").and_then(Value::as_str).unwrap_or_default();
    let input: Value = if arguments.trim().is_empty() { json!({}) } else { serde_json::from_str(arguments).ok()? };
    let (id, name) = (call.get("id")?.as_str()?, function.get("name")?.as_str()?);
    input.is_object().then(|| json!({"type": "tool_use", "id": id, "name": name, "input": input}))
}

/// Why the answer ended. A tier does not say which stop sequence it met: that is `end_turn`, too.
pub(super) fn stop_reason(finish: &str, called: bool, refused: bool) -> &'static str {
    match finish {
        "length" => "max_tokens",
        "content_filter" => "refusal",
        "tool_calls" | "function_call" => "tool_use",
        _ if refused => "refusal",
        // A call that the caller forced may end as any other answer.
        _ if called => "tool_use",
        _ => "end_turn",
    }
}

/// Tokens: Anthropic counts what was found in a cache apart from the rest of the prompt.
pub(super) fn usage(chat: Option<&Value>) -> Value {
    let count = |pointer: &str| chat.and_then(|usage| usage.pointer(pointer)).and_then(Value::as_u64).unwrap_or(0);
    let cached = count("/prompt_tokens_details/cached_tokens");
    json!({
        "input_tokens": count("/prompt_tokens").saturating_sub(cached),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": count("/completion_tokens"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chat(message: Value, finish: &str) -> Value {
        json!({"model": "small", "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": {"prompt_tokens": 11, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}}})
    }

    fn call(arguments: &str) -> Value {
        json!({"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}})
    }

    #[test]
    fn text_and_calls_become_blocks() {
        let message = json!({"role": "assistant", "content": "hi", "tool_calls": [call("{\"a\": 1}"), call("")]});
        let want = json!({
            "id": "msg_r1", "type": "message", "role": "assistant", "model": "small", "stop_sequence": null,
            "content": [{"type": "text", "text": "hi"}, {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}},
                {"type": "tool_use", "id": "c1", "name": "f", "input": {}}],
            "stop_reason": "tool_use",
            "usage": {"input_tokens": 7, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 4, "output_tokens": 3}});
        assert_eq!(answer(&chat(message, "tool_calls"), "r1").unwrap(), want);
    }

    #[test]
    fn an_answer_ends_for_one_reason() {
        let reason = |message: Value, finish: &str| answer(&chat(message, finish), "r").unwrap()["stop_reason"].clone();
        let said = json!({"content": "x"});
        for (finish, want) in [("stop", "end_turn"), ("length", "max_tokens"), ("content_filter", "refusal")] {
            assert_eq!(reason(said.clone(), finish), want);
        }
        assert_eq!(reason(json!({"content": null, "refusal": "no"}), "stop"), "refusal");
        assert_eq!(reason(json!({"content": null, "tool_calls": [call("{}")]}), "stop"), "tool_use");
    }

    #[test]
    fn a_call_that_cannot_be_read_is_no_answer_unless_the_limit_cut_it() {
        let message = json!({"content": null, "tool_calls": [call("{}"), call("{\"a\":")]});
        assert_eq!(answer(&chat(message.clone(), "tool_calls"), "r"), None);
        assert_eq!(answer(&chat(json!({"tool_calls": [call("[1]")]}), "tool_calls"), "r"), None);
        let cut = answer(&chat(message, "length"), "r").unwrap();
        assert_eq!((cut["content"].as_array().unwrap().len(), &cut["stop_reason"]), (1, &json!("max_tokens")));
    }
}
