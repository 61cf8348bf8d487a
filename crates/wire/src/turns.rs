//! What OpenAI requires of a conversation beyond the shape of each message: somebody says something, and a result is one
//! of a call.

use serde_json::Value;

use crate::error::ErrorBody;
use crate::pointer::Pointer;

/// Roles whose messages need content. An assistant's may be calls alone, or an answer that was cut off before it began.
const SPEAKERS: [&str; 4] = ["system", "developer", "user", "tool"];

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
        let role = text("role").unwrap_or_default();
        if SPEAKERS.contains(&role) {
            match message.get("content") {
                None | Some(Value::Null) => {
                    let what = format!("give a string or a list of parts: a message of the role {role} needs content");
                    return Err(ErrorBody::invalid(&at.key("content"), what));
                }
                Some(Value::Array(parts)) if parts.is_empty() => {
                    return Err(ErrorBody::invalid(&at.key("content"), "is an empty list: give at least one part"));
                }
                Some(_) => {}
            }
        }
        if role == "tool" && !text("tool_call_id").is_some_and(|id| called.contains(&id)) {
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
    fn a_user_says_something_and_a_tool_answers_a_call() {
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
        for role in ["system", "developer", "user"] {
            for content in [json!(null), json!([])] {
                assert_eq!(place(json!([user, {"role": role, "content": content}])), "/messages/1/content");
            }
            assert_eq!(place(json!([{"role": role}])), "/messages/0/content");
        }
        let silent = json!({"role": "tool", "tool_call_id": "secret-1"});
        assert_eq!(place(json!([user, call, silent])), "/messages/2/content");
        assert_eq!(place(json!([user, result("secret-1")])), "/messages/1/tool_call_id");
        assert_eq!(place(json!([user, call, result("secret-2")])), "/messages/2/tool_call_id");
        // Before the call is not behind it.
        assert_eq!(place(json!([user, result("secret-1"), call])), "/messages/1/tool_call_id");
        for messages in [
            json!([user, call, result("secret-1"), user]),
            json!([user, {"role": "assistant", "content": null}, {"role": "user", "content": ""}]),
        ] {
            assert_eq!(check(&json!({"messages": messages})), Ok(()));
        }
    }
}
