//! What of an upstream's answer passes to a client, read from it member by member: everything else is left behind.
//!
//! Types rather than trees: a tree costs an event three times as much, and every answer passes here.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// One event of an upstream's stream, or its whole answer.
#[derive(Clone, Default, PartialEq, Deserialize)]
pub struct Event {
    /// The answer's choices, or parts of them.
    #[serde(default)]
    pub choices: Option<Vec<Choice>>,
    /// The vectors of embeddings.
    #[serde(default)]
    pub data: Option<Value>,
    /// Tokens, where it has them.
    #[serde(default)]
    pub usage: Option<Value>,
    /// What went wrong.
    #[serde(default)]
    pub error: Option<Value>,
    /// What an agent says beside an answer.
    #[serde(default)]
    pub terrace: Option<Value>,
}

/// One choice of an answer, or what an event adds to it.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// Which choice.
    #[serde(default, deserialize_with = "index")]
    pub index: u64,
    /// What an event of a chat completion adds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta: Option<Part>,
    /// The message of a whole chat completion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Box<Part>>,
    /// The text of a text completion, or what an event adds to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Log-probabilities, or null.
    #[serde(default)]
    pub logprobs: Value,
    /// Why it ended, if it did.
    #[serde(default, deserialize_with = "word")]
    pub finish_reason: Option<String>,
}

/// Members of a message, or of what is added to one. A member that is null is another thing than one that is not there.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "their names are OpenAI's")]
pub struct Part {
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub role: Option<Value>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub content: Option<Value>,
    #[serde(default, deserialize_with = "seldom", skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<Box<Value>>,
    #[serde(default, deserialize_with = "seldom", skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Box<Value>>,
    #[serde(default, deserialize_with = "seldom", skip_serializing_if = "Option::is_none")]
    pub function_call: Option<Box<Value>>,
    #[serde(default, deserialize_with = "seldom", skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<Box<Value>>,
    #[serde(default, deserialize_with = "seldom", skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Box<Value>>,
}

/// Null too.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

/// The same, out of the way: events are moved often, and few have it.
fn seldom<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Box<Value>>, D::Error> {
    Box::<Value>::deserialize(from).map(Some)
}

/// 0 for what is no number: some servers leave it away or null.
fn index<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    Ok(Value::deserialize(from)?.as_u64().unwrap_or(0))
}

/// None for what is no text.
fn word<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(match Value::deserialize(from)? {
        Value::String(word) => Some(word),
        _ => None,
    })
}

impl Event {
    /// Whether it says that something went wrong.
    pub fn is_error(&self) -> bool {
        self.error.is_some()
    }
}

impl Choice {
    /// What ends a choice whose answer broke off; its part of the answer is still to be added.
    pub fn broken(index: u64) -> Self {
        Self { index, finish_reason: Some("error".to_owned()), ..Self::default() }
    }

    /// Whether it carries a part of the answer, and not only a role.
    pub fn has_content(&self) -> bool {
        self.text.as_ref().is_some_and(|text| !text.is_empty()) || self.delta.as_ref().is_some_and(Part::has_content)
    }

    /// Whether it ends its answer.
    pub fn is_finished(&self) -> bool {
        self.finish_reason.is_some()
    }

    /// Its texts, for counting tokens that an upstream did not count.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let parts = self.delta.iter().chain(self.message.as_deref());
        parts.filter_map(|part| part.content.as_ref()?.as_str()).chain(self.text.as_deref())
    }
}

impl Part {
    /// Whether something other than the role is filled.
    fn has_content(&self) -> bool {
        let filled = |member: &Value| match member {
            Value::String(s) => !s.is_empty(),
            Value::Array(a) => !a.is_empty(),
            Value::Object(o) => !o.is_empty(),
            _ => false,
        };
        let Self { role: _, content, tool_calls, refusal, function_call, reasoning_content, annotations } = self;
        let seldom = [tool_calls, refusal, function_call, reasoning_content, annotations].into_iter().flatten();
        content.iter().chain(seldom.map(|member| &**member)).any(filled)
    }
}

impl std::fmt::Debug for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Event({} choices)", self.choices.as_ref().map_or(0, Vec::len))
    }
}

impl std::fmt::Debug for Choice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Choice({})", self.index)
    }
}

impl std::fmt::Debug for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Part")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn choice(of: Value) -> Choice {
        serde_json::from_value(of).unwrap()
    }

    #[test]
    fn only_listed_members_pass() {
        let upstream = json!({"index": 1, "stop_reason": 128_001, "finish_reason": null,
            "delta": {"role": "assistant", "content": null, "audio": {"id": 1}}});
        let want = json!({"index": 1, "delta": {"role": "assistant", "content": null}, "logprobs": null,
            "finish_reason": null});
        assert_eq!(json!(choice(upstream)), want);
    }

    #[test]
    fn what_servers_write_otherwise_is_read() {
        for (index, finish) in [(json!(null), json!(false)), (json!("x"), json!({}))] {
            let read = choice(json!({"index": index, "finish_reason": finish, "text": "a"}));
            assert_eq!((read.index, read.is_finished(), read.has_content()), (0, false, true));
        }
        for wrong in [json!({"delta": 7}), json!({"text": 7})] {
            assert!(serde_json::from_value::<Choice>(wrong).is_err());
        }
    }

    #[test]
    fn a_role_alone_is_no_content() {
        let has = |delta: Value| choice(json!({ "delta": delta })).has_content();
        assert!(!has(json!({"role": "assistant", "content": ""})));
        assert!(has(json!({"content": "a"})) && has(json!({"tool_calls": [{}]})));
        assert!(choice(json!({"finish_reason": "stop"})).is_finished());
    }

    #[test]
    fn nothing_of_an_answer_is_shown_by_debug() {
        let event: Event = serde_json::from_value(json!({"choices": [{"delta": {"content": "secret"}}]})).unwrap();
        let first = event.choices.as_ref().unwrap().first().unwrap();
        assert!(!format!("{event:?} {first:?} {:?}", first.delta).contains("secret"));
    }
}
