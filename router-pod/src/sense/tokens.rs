//! How many tokens a prompt has, near enough to decide by: the tokenizer itself is at each tier, and they differ.
//!
//! The rule, by what small vocabularies make of each kind of character: a word is a token each four letters and half a
//! token more, and a capital counts as three letters; a digit, a sign, a line's end a token each; the blank before a word
//! is free, more of them a token each four. Beyond ASCII a character of two bytes is one token, one of three (Han) two and three
//! quarters, one of four (emoji) three and a quarter. So it errs upwards: on prose a little, on what large vocabularies know
//! well (Han) up to three times. What a tier's template adds of its own, a system message say, is not in it.

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
    /// Bytes that the compiler takes at once.
    const TOGETHER: usize = 16;
    /// How often: the eighths of so many fit a byte.
    const TIMES: usize = 6;
    let bytes = text.as_bytes();
    let Some(first) = bytes.first() else { return 0 };
    let mut sum = u64::from(eighths(b'\n', *first));
    let mut at = 0;
    // Each takes in the byte before.
    while let Some(many) = bytes[at..].first_chunk::<{ TOGETHER * TIMES + 1 }>() {
        let mut lanes = [0u8; TOGETHER];
        for time in 0..TIMES {
            for (lane, sum) in lanes.iter_mut().enumerate() {
                let i = time * TOGETHER + lane;
                *sum += eighths(many[i], many[i + 1]);
            }
        }
        sum += lanes.iter().map(|sum| u64::from(*sum)).sum::<u64>();
        at += TOGETHER * TIMES;
    }
    sum += bytes[at..].windows(2).map(|two| u64::from(eighths(two[0], two[1]))).sum::<u64>();
    sum / 8
}

/// Eighths of a token that a byte stands for, after another; without a branch. The byte that begins a character stands for
/// all of it.
#[inline(always)]
fn eighths(before: u8, byte: u8) -> u8 {
    let all = |is: bool| if is { 0xFF } else { 0 };
    let among = |byte: u8, first: u8, count: u8| all(byte.wrapping_sub(first) < count);
    let letter = among(byte | 0x20, b'a', 26);
    let blank = all(byte == b' ');
    let begins_a_word = letter & !among(before | 0x20, b'a', 26);
    let begins_a_character = all(byte.is_ascii()) | all(byte >= 0xC0);
    let of_letters = (letter & 2) + (among(byte, b'A', 26) & 4) + (begins_a_word & 4);
    let of_others = begins_a_character & !letter & !blank & 8;
    of_letters + (blank & all(before == b' ') & 2) + of_others + (all(byte >= 0xE0) & 14) + (all(byte >= 0xF0) & 4)
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
    fn words_are_a_token_each_four_letters_and_the_rest_by_its_kind() {
        assert_eq!(of_text("The quick brown fox jumps over the lazy dog."), 14);
        assert_eq!((of_text("今天天气很好"), of_text("é"), of_text("🦀")), (16, 1, 3));
        assert_eq!((of_text(""), of_text("a     b"), of_text("getUserName")), (0, 2, 4));
        // Longer than what is added up at a time, at every place.
        for len in [95, 96, 97, 98, 192, 193, 5000] {
            assert_eq!(of_text(&"7".repeat(len)), len as u64);
        }
    }

    /// What SmolLM2's vocabulary makes of texts of these kinds, without its template.
    #[test]
    fn no_kind_of_text_is_counted_below_what_a_small_vocabulary_makes_of_it() {
        let digits = "3141592653".repeat(60);
        let hex = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".repeat(8);
        for (kind, text, tokens) in [
            ("English", "The quick brown fox jumps over the lazy dog. ".repeat(10), 100),
            ("code", "for(int i=0;i<n;++i){a[i]+=b[i]*c;}\n".repeat(12), 335),
            ("digits", digits, 599),
            ("hex", hex, 434),
            ("Han", "我们今天去公园散步天气很好".repeat(23), 796),
            ("emoji", "🌀🌁🌂🌃🌄🌅🌆🌇🌈🌉".repeat(15), 449),
        ] {
            let counted = of_text(&text);
            assert!((tokens..2 * tokens).contains(&counted), "{kind}: {counted} of {tokens}");
        }
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
