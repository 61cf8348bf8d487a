//! How many tokens a prompt has, near enough to decide by: the tokenizer itself is at each tier, and they differ.
//!
//! The rule: ASCII text is a token each four bytes, any other character a token of its own (right for Han, high for
//! accented Latin), four tokens of template a message, 85 a picture. It errs upwards on ordinary prose, so that a
//! context that is too long is more often refused here than at a device.

use serde_json::Value;
use terrace_wire::json::member;

/// Template tokens of one message.
const PER_MESSAGE: u64 = 4;
/// Template tokens of the prompt's end.
const PER_PROMPT: u64 = 3;
/// Tokens of one picture, at OpenAI's low detail.
const PER_IMAGE: u64 = 85;

/// Tokens of a text.
pub fn of_text(text: &str) -> u64 {
    if text.is_ascii() {
        return (text.len() as u64).div_ceil(4);
    }
    // A character beyond ASCII has one byte that begins it. Both counts are over bytes, which takes a tenth of the time.
    let ascii = text.bytes().filter(u8::is_ascii).count() as u64;
    let other = text.bytes().filter(|b| *b >= 0xC0).count() as u64;
    ascii.div_ceil(4) + other
}

/// Tokens of a request's prompt: messages or prompt, tools and schema.
pub fn of_request(request: &Value) -> u64 {
    let tree = |name: &str| member(request, name).map_or(0, of_tree);
    let messages = member(request, "messages")
        .and_then(Value::as_array)
        .map_or(0, |messages| messages.iter().map(|message| PER_MESSAGE + of_message(message)).sum());
    PER_PROMPT + messages + tree("prompt") + tree("input") + tree("tools") + tree("functions") + tree("response_format")
}

/// Tokens of the longest of several prompts or inputs, each of which has a context to itself; none: there is one.
pub fn of_longest(request: &Value) -> Option<u64> {
    let several = member(request, "prompt").or_else(|| member(request, "input")).and_then(Value::as_array)?;
    let longest = several.iter().map(of_tree).max().filter(|_| !several[0].is_number())?;
    Some(PER_PROMPT + longest)
}

fn of_message(message: &Value) -> u64 {
    let content = match member(message, "content") {
        Some(Value::String(text)) => of_text(text),
        Some(Value::Array(parts)) => parts.iter().map(of_part).sum(),
        _ => 0,
    };
    let rest = ["name", "tool_calls", "function_call"];
    content + rest.iter().filter_map(|name| member(message, name)).map(of_tree).sum::<u64>()
}

fn of_part(part: &Value) -> u64 {
    match member(part, "text") {
        Some(Value::String(text)) => of_text(text),
        _ => PER_IMAGE,
    }
}

/// Every string and key of a tree.
fn of_tree(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
        Value::String(text) => of_text(text),
        Value::Array(items) => items.iter().map(of_tree).sum(),
        Value::Object(map) => map.iter().map(|(key, value)| of_text(key) + of_tree(value)).sum(),
    }
}

/// Output tokens that the caller allows; none: it did not say.
pub fn output_limit(request: &Value) -> Option<u64> {
    let number = |name: &str| member(request, name).and_then(Value::as_u64);
    number("max_completion_tokens").or_else(|| number("max_tokens"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn prose_is_a_token_each_four_bytes_and_han_one_each() {
        assert_eq!(of_text("The quick brown fox jumps over the lazy dog."), 11);
        assert_eq!(of_text("今天天气很好"), 6);
        assert_eq!(of_text(""), 0);
    }

    #[test]
    fn everything_that_becomes_prompt_counts() {
        let plain = json!({"messages": [{"role": "user", "content": "abcd"}]});
        assert_eq!(of_request(&plain), 3 + 4 + 1);
        let parts = json!({"messages": [{"role": "user", "content": [
            {"type": "text", "text": "abcdefgh"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}]});
        assert_eq!(of_request(&parts), 3 + 4 + 2 + 85);
        let tools = json!({"messages": [], "tools": [{"type": "function", "function": {"name": "find"}}]});
        assert!(of_request(&tools) > 3);
        assert_eq!(of_request(&json!({"prompt": "abcdefgh"})), 3 + 2);
        assert_eq!(of_request(&json!({"input": ["abcdefgh", "abcd"]})), 3 + 2 + 1);
        assert_eq!(of_request(&json!({"input": [[1, 2], [3]]})), 3 + 3);
    }

    #[test]
    fn several_inputs_have_a_context_each() {
        assert_eq!(of_longest(&json!({"input": ["abcdefgh", "abcd"]})), Some(3 + 2));
        assert_eq!(of_longest(&json!({"prompt": [[1, 2], [3]]})), Some(3 + 2));
        for one in [json!({"prompt": "abcd"}), json!({"input": [1, 2, 3]}), json!({"messages": []})] {
            assert_eq!(of_longest(&one), None, "{one}");
        }
    }

    #[test]
    fn the_newer_name_of_the_limit_wins() {
        assert_eq!(output_limit(&json!({"max_tokens": 5, "max_completion_tokens": 7})), Some(7));
        assert_eq!(output_limit(&json!({})), None);
    }
}
