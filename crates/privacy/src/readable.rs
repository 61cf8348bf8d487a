//! Whether what stands at a place is of a kind whose text can be read. Pictures, sound and files are not, wherever they
//! stand; nor are parts of content, or members of them, that are not known.

use serde_json::{Map, Value};

use crate::segments::Step;

/// Kinds of parts that are text.
const TEXTS: &[&str] = &["text", "refusal", "input_text", "output_text"];
/// Members of such a part.
const OF_TEXT: &[&str] =
    &["type", "text", "refusal", "annotations", "cache_control", "citations", "id", "index", "logprobs"];
/// Members that hold a picture, a sound or a file, or say where it is.
const HOLDS: &[&str] = &["source", "data", "url", "uri", "file_id", "file_data", "file_url", "image_url"];

/// Whether all of a value that stands at `path` can be read, what is within it aside.
pub(crate) fn is_readable(path: &[Step], value: &Value) -> bool {
    match *path {
        [Step::Field("messages"), Step::Index(_), Step::Field("content")]
        | [Step::Field("prediction"), Step::Field("content")] => {
            matches!(value, Value::Null | Value::String(_) | Value::Array(_))
        }
        [Step::Field("messages"), Step::Index(_), Step::Field("content"), Step::Index(_)]
        | [Step::Field("prediction"), Step::Field("content"), Step::Index(_)] => is_text_part(value),
        [Step::Field("messages"), Step::Index(_), Step::Field("audio")] => value.is_null(),
        [Step::Field("prompt" | "input")] => {
            let other = |v: &Value| v.is_number() || v.is_object();
            let ids = |v: &Value| v.as_array().is_some_and(|a| a.iter().any(other));
            !ids(value) && !value.as_array().is_some_and(|a| a.iter().any(ids))
        }
        _ => match value {
            Value::Object(members) => is_schema(path) || !is_held(members),
            Value::String(s) => is_words(path) || !is_data(s),
            _ => true,
        },
    }
}

fn is_text_part(value: &Value) -> bool {
    let Some(members) = value.as_object() else { return false };
    let kind = members.get("type").and_then(Value::as_str);
    let known = |(name, value): (&String, &Value)| OF_TEXT.contains(&name.as_str()) || value.is_null();
    let words = ["text", "refusal"].iter().all(|name| members.get(*name).is_none_or(|v| v.is_null() || v.is_string()));
    words && kind.is_some_and(|kind| TEXTS.contains(&kind)) && members.iter().all(known)
}

/// Whether a text is there to be read as one: a model sees the letters of a picture's address there, not the picture.
fn is_words(path: &[Step]) -> bool {
    matches!(
        path,
        [Step::Field("messages" | "prediction"), .., Step::Field("content" | "text" | "refusal" | "arguments")]
            | [Step::Field("prompt" | "input"), ..]
    ) || path.contains(&Step::Parsed)
}

/// Whether an object describes what others look like, rather than being it.
fn is_schema(path: &[Step]) -> bool {
    matches!(path, [Step::Field("tools" | "functions" | "response_format"), ..]) || path.contains(&Step::Parsed)
}

/// Whether an object is a part that holds something other than text.
fn is_held(members: &Map<String, Value>) -> bool {
    let Some(kind) = members.get("type").and_then(Value::as_str) else { return false };
    let kinds = ["image", "audio", "video", "file", "document"];
    kinds.iter().any(|other| kind.contains(other))
        && (members.contains_key(kind) || HOLDS.iter().any(|name| members.contains_key(*name)))
}

/// Whether a text is bytes in an address of their own, of anything but plain text.
fn is_data(text: &str) -> bool {
    let text = text.trim_start();
    let begins = |text: &str, with: &str| text.get(..with.len()).is_some_and(|b| b.eq_ignore_ascii_case(with));
    begins(text, "data:") && !begins(&text[5..], "text/") && memchr::memchr(b',', text.as_bytes()).is_some()
}
