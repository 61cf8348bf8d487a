//! A request of another API, translated into the chat completion that the router decides on and sends.

use std::fmt;

use serde::de::IgnoredAny;
use serde_json::Value;

use crate::passing::{Choice, Part};
use crate::pointer::Pointer;

/// What a tier streams that would be told as a whole call of a tool, and is none.
pub const CUT: &str = "the tier left a call before its arguments were whole JSON";

/// Whether arguments of a call can be acted on: JSON, or nothing for a tool that takes none.
pub(crate) fn is_whole(arguments: &str) -> bool {
    arguments.trim().is_empty() || serde_json::from_str::<IgnoredAny>(arguments).is_ok()
}

/// A chat completion that stands for a request of another API.
#[derive(Clone, PartialEq)]
pub struct Translated {
    /// The chat completion's tree, as [`crate::shape::check_chat`] wants it.
    pub chat: Value,
    /// For each of its messages, where in the client's request it comes from.
    pub origins: Vec<Pointer>,
}

impl fmt::Debug for Translated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Translated({} messages)", self.origins.len())
    }
}

impl Translated {
    /// Where in the client's request a place of the chat completion comes from. Members outside the messages have the
    /// same name in both.
    pub fn origin(origins: &[Pointer], place: &Pointer) -> Pointer {
        let message = place.as_str().strip_prefix("/messages/").and_then(|rest| rest.split('/').next()?.parse().ok());
        message.and_then(|index: usize| origins.get(index)).unwrap_or(place).clone()
    }
}

/// Messages of a chat completion as they are made, each with its origin.
#[derive(Default)]
pub(crate) struct Messages {
    list: Vec<Value>,
    origins: Vec<Pointer>,
}

impl Messages {
    /// Adds one.
    pub(crate) fn push(&mut self, message: Value, origin: &Pointer) {
        self.list.push(message);
        self.origins.push(origin.clone());
    }

    /// The last one.
    pub(crate) fn last_mut(&mut self) -> Option<&mut Value> {
        self.list.last_mut()
    }

    /// All, and their origins.
    pub(crate) fn into_parts(self) -> (Value, Vec<Pointer>) {
        (Value::Array(self.list), self.origins)
    }
}

/// What a chunk of a chat completion adds to its first choice, the only one that has a counterpart in another API.
pub(crate) struct Said<'a> {
    choice: &'a Choice,
}

impl<'a> Said<'a> {
    /// Of these choices.
    pub(crate) fn each(choices: &'a [Choice]) -> impl Iterator<Item = Self> {
        choices.iter().filter(|choice| choice.index == 0).map(|choice| Self { choice })
    }

    fn text_of(&self, member: impl Fn(&'a Part) -> Option<&'a Value>) -> &'a str {
        self.choice.delta.as_ref().and_then(|part| member(part)?.as_str()).unwrap_or_default()
    }

    /// Its text, empty if there is none.
    pub(crate) fn content(&self) -> &'a str {
        self.text_of(|part| part.content.as_ref())
    }

    /// Text of a refusal, empty if there is none.
    pub(crate) fn refusal(&self) -> &'a str {
        self.text_of(|part| part.refusal.as_deref())
    }

    /// Parts of calls.
    pub(crate) fn calls(&self) -> impl Iterator<Item = &'a Value> + use<'a> {
        let calls = self.choice.delta.as_ref().and_then(|part| part.tool_calls.as_ref()?.as_array());
        calls.into_iter().flatten()
    }

    /// Log-probabilities of its text.
    pub(crate) fn logprobs(&self) -> Option<&'a Value> {
        self.choice.logprobs.get("content")
    }

    /// Why it ended, if it did.
    pub(crate) fn finish(&self) -> Option<&'a str> {
        self.choice.finish_reason.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_a_message_is_where_the_message_came_from() {
        let at = |n| Pointer::root().key("input").index(n);
        let origins = [at(4), at(7)];
        let place = Pointer::root().key("messages").index(1).key("content").index(0);
        assert_eq!(Translated::origin(&origins, &place), at(7));
        for same in [Pointer::root().key("temperature"), Pointer::root().key("messages").index(9)] {
            assert_eq!(Translated::origin(&origins, &same), same);
        }
    }
}
