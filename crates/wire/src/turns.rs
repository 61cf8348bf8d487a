//! What OpenAI requires of a conversation beyond the shape of each message: a result is one of a call.

use serde_json::Value;

use crate::error::ErrorBody;
use crate::pointer::Pointer;

/// Checks messages that have the right shape.
///
/// # Errors
/// The error body to send (400), with the place.
pub fn check(request: &Value) -> Result<(), ErrorBody> {
    let at = Pointer::root().key("messages");
    let mut called: Vec<&str> = Vec::new();
    for (i, message) in request.get("messages").and_then(Value::as_array).into_iter().flatten().enumerate() {
        let at = at.index(i);
        let text = |name: &str| message.get(name).and_then(Value::as_str);
        if text("role") == Some("tool") && !text("tool_call_id").is_some_and(|id| called.contains(&id)) {
            let what = "answers no call: it must be the id of one in tool_calls of an earlier message";
            return Err(ErrorBody::invalid(&at.key("tool_call_id"), what));
        }
        let calls = message.get("tool_calls").and_then(Value::as_array);
        called.extend(calls.into_iter().flatten().filter_map(|call| call.get("id").and_then(Value::as_str)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_tool_answers_a_call() {
        let call =
            json!({"role": "assistant", "content": null, "tool_calls": [{"id": "secret-1", "type": "function"}]});
        let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "7"});
        let user = json!({"role": "user", "content": "x"});
        let place = |messages: Value| {
            let error = check(&json!({"messages": messages})).unwrap_err().error;
            assert_eq!(error.code, "invalid_request");
            assert!(!error.message.contains("secret"), "{}", error.message);
            error.param.unwrap()
        };
        assert_eq!(place(json!([user, result("secret-1")])), "/messages/1/tool_call_id");
        assert_eq!(place(json!([user, call, result("secret-2")])), "/messages/2/tool_call_id");
        // Before the call is not behind it.
        assert_eq!(place(json!([user, result("secret-1"), call])), "/messages/1/tool_call_id");
        assert_eq!(check(&json!({"messages": [user, call, result("secret-1"), user]})), Ok(()));
    }
}
