//! A chat completion's answer as a response.

use serde_json::{Map, Value, json};

use super::request::Echo;

/// The response that stands for a whole answer, `usage` and all; none if it has no message.
pub fn answer(chat: &Value, id: &str, echo: &Echo) -> Option<Value> {
    let choice = chat.get("choices")?.get(0)?;
    let message = choice.get("message")?;
    let finish = choice.get("finish_reason").and_then(Value::as_str).unwrap_or_default();
    let said = |name: &str| message.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let status = item_status(finish);
    let mut output = Vec::new();
    if let Some(text) = said("content") {
        let likely = choice.pointer("/logprobs/content").and_then(Value::as_array).cloned().unwrap_or_default();
        output.push(message_item(id, output.len(), status, Some(text_part(text, likely))));
    }
    if let Some(text) = said("refusal") {
        output.push(message_item(id, output.len(), status, Some(refusal_part(text))));
    }
    for call in message.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
        let function = call.get("function")?;
        let member = |name: &str| function.get(name).and_then(Value::as_str);
        let arguments = member("arguments").unwrap_or_default();
        output.push(call_item(id, output.len(), status, call.get("id")?.as_str()?, member("name")?, arguments));
    }
    let created = chat.get("created").and_then(Value::as_u64).unwrap_or(0);
    let mut response = echo.head(id, created, chat.get("model")?.as_str()?);
    end(&mut response, finish, output, chat.get("usage"));
    Some(Value::Object(response))
}

/// Fills in how a response ended.
pub(super) fn end(response: &mut Map<String, Value>, finish: &str, output: Vec<Value>, used: Option<&Value>) {
    let cut = match finish {
        "length" => Some("max_output_tokens"),
        "content_filter" => Some("content_filter"),
        _ => None,
    };
    response.insert("status".into(), if cut.is_some() { "incomplete" } else { "completed" }.into());
    response.insert("incomplete_details".into(), cut.map_or(Value::Null, |reason| json!({ "reason": reason })));
    response.insert("output".into(), Value::Array(output));
    response.insert("usage".into(), usage(used));
}

/// The status of the items of an answer that ended so.
pub(super) fn item_status(finish: &str) -> &'static str {
    if matches!(finish, "length" | "content_filter") { "incomplete" } else { "completed" }
}

/// An item that says something; without a part it has only begun.
pub(super) fn message_item(id: &str, at: usize, status: &str, part: Option<Value>) -> Value {
    let content: Vec<Value> = part.into_iter().collect();
    json!({"id": message_id(id, at), "type": "message", "status": status, "role": "assistant", "content": content})
}

/// An item that calls a function.
pub(super) fn call_item(id: &str, at: usize, status: &str, call: &str, name: &str, arguments: &str) -> Value {
    json!({"id": call_id(id, at), "type": "function_call", "status": status, "call_id": call, "name": name,
        "arguments": arguments})
}

/// Id of the message item at this place of the output.
pub(super) fn message_id(id: &str, at: usize) -> String {
    format!("msg_{id}_{at}")
}

/// Id of the call item at this place of the output.
pub(super) fn call_id(id: &str, at: usize) -> String {
    format!("fc_{id}_{at}")
}

/// A text.
pub(super) fn text_part(text: &str, logprobs: Vec<Value>) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs})
}

/// A refusal.
pub(super) fn refusal_part(text: &str) -> Value {
    json!({"type": "refusal", "refusal": text})
}

/// Tokens.
fn usage(chat: Option<&Value>) -> Value {
    let count = |pointer: &str| chat.and_then(|usage| usage.pointer(pointer)).and_then(Value::as_u64).unwrap_or(0);
    let (input, output) = (count("/prompt_tokens"), count("/completion_tokens"));
    json!({
        "input_tokens": input,
        "input_tokens_details": {"cached_tokens": count("/prompt_tokens_details/cached_tokens")},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": input + output,
    })
}

#[cfg(test)]
mod tests {
    use super::super::to_chat;
    use super::*;

    fn told(message: Value, finish: &str) -> Value {
        let echo = to_chat(&json!({"model": "auto", "input": "hi"})).unwrap().1;
        let likely = json!({"content": [{"token": "hi", "logprob": -0.5, "bytes": [104, 105], "top_logprobs": []}]});
        let chat = json!({"model": "small", "created": 7,
            "choices": [{"index": 0, "message": message, "logprobs": likely, "finish_reason": finish}],
            "usage": {"prompt_tokens": 11, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}}});
        answer(&chat, "r1", &echo).unwrap()
    }

    #[test]
    fn text_and_calls_become_items() {
        let call = json!({"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}});
        let response = told(json!({"content": "hi", "tool_calls": [call]}), "tool_calls");
        let likely = json!([{"token": "hi", "logprob": -0.5, "bytes": [104, 105], "top_logprobs": []}]);
        let want = json!([
            {"id": "msg_r1_0", "type": "message", "status": "completed", "role": "assistant",
                "content": [{"type": "output_text", "text": "hi", "annotations": [], "logprobs": likely}]},
            {"id": "fc_r1_1", "type": "function_call", "status": "completed", "call_id": "c1", "name": "f", "arguments": "{}"}]);
        assert_eq!(response["output"], want);
        let head = ["id", "object", "created_at", "model", "status"].map(|name| response[name].clone());
        assert_eq!(Value::from(head.to_vec()), json!(["resp_r1", "response", 7, "small", "completed"]));
        let usage = json!({"input_tokens": 11, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 3,
            "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 14});
        assert_eq!(response["usage"], usage);
    }

    #[test]
    fn what_was_cut_off_says_so() {
        let response = told(json!({"content": "hi"}), "length");
        assert_eq!(
            (&response["status"], &response["incomplete_details"]),
            (&json!("incomplete"), &json!({"reason": "max_output_tokens"}))
        );
        assert_eq!(response["output"][0]["status"], "incomplete");
        let refused = told(json!({"content": null, "refusal": "no"}), "stop");
        assert_eq!(refused["output"][0]["content"], json!([{"type": "refusal", "refusal": "no"}]));
    }
}
