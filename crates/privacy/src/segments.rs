//! Walks a request's tree once and hands out every text in it with its place: all roles, parts, tool definitions, tool
//! arguments (the JSON in the string too), results, schemas, names, metadata, keys, long numbers.

use serde_json::{Map, Value};

use crate::readable::is_readable;
pub use crate::words::{field, is_wire_word};

/// Levels of nesting that are read.
const MAX_DEPTH: usize = 32;
/// Digits from which a number is text: a card or an identity number may come unquoted.
const NUMBER_DIGITS: usize = 8;

/// Numbers of one object that are looked at together: a card has few groups, a table of tokens has many numbers.
const MAX_MEMBERS: usize = 16;

/// One step from the root of a request to a text. A key that is not the API's own appears by its position, since it may
/// be content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A field of the API.
    Field(&'static str),
    /// Another key, by its position in the object.
    Key(usize),
    /// An element of a list.
    Index(usize),
    /// Into the JSON in a string.
    Parsed,
}

/// The JSON pointer of a path; foreign keys are `[n]`, so that no content shows.
pub fn pointer(path: &[Step]) -> String {
    use std::fmt::Write as _;
    let mut out = String::new();
    for step in path {
        let written = match step {
            Step::Field(name) => write!(out, "/{name}"),
            Step::Key(at) => write!(out, "/[{at}]"),
            Step::Index(at) => write!(out, "/{at}"),
            Step::Parsed => write!(out, "/(json)"),
        };
        // Writing to a string cannot fail.
        debug_assert!(written.is_ok());
    }
    out
}

/// Who wrote a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Author {
    /// The user's turns.
    User,
    /// Any other turn.
    Other,
    /// Not a message.
    None,
}

/// A text and its place.
#[derive(Clone, Copy)]
pub struct Segment<'a> {
    /// The text.
    pub text: &'a str,
    /// Its place.
    pub path: &'a [Step],
    /// Whose turn it belongs to.
    pub author: Author,
    /// Whether it is the name of a member, not what stands there.
    pub is_name: bool,
}

impl Segment<'_> {
    /// Whether it is what a turn says, not a name or an option beside it.
    pub fn is_said(&self) -> bool {
        matches!(
            self.path,
            [Step::Field("messages"), Step::Index(_), Step::Field("content")]
                | [
                    Step::Field("messages"),
                    Step::Index(_),
                    Step::Field("content"),
                    Step::Index(_),
                    Step::Field("text" | "refusal")
                ]
        )
    }
}

/// Why a walk stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Content that cannot be read: an unknown part, an image, token ids, too deep.
    Unreadable,
    /// The visitor had enough.
    Visitor,
}

/// What is called for each text; false stops the walk.
pub type Visit<'v> = dyn FnMut(Segment<'_>) -> bool + 'v;

/// Hands every text of a request to `visit`.
///
/// # Errors
/// [`Stop`], at the first place that cannot be read or when `visit` says so.
pub fn walk(body: &Value, visit: &mut Visit<'_>) -> Result<(), Stop> {
    Walker { path: Vec::with_capacity(16), author: Author::None, visit }.value(body)
}

struct Walker<'v, 'f> {
    path: Vec<Step>,
    author: Author,
    visit: &'v mut Visit<'f>,
}

impl Walker<'_, '_> {
    fn text(&mut self, text: &str) -> Result<(), Stop> {
        self.visit(text, false)
    }

    fn visit(&mut self, text: &str, is_name: bool) -> Result<(), Stop> {
        let segment = Segment { text, path: &self.path, author: self.author, is_name };
        if (self.visit)(segment) { Ok(()) } else { Err(Stop::Visitor) }
    }

    fn within(&mut self, step: Step, value: &Value) -> Result<(), Stop> {
        self.path.push(step);
        let outer = self.author;
        if let [Step::Field("messages"), Step::Index(_)] = self.path[..] {
            let user = value.get("role").and_then(Value::as_str) == Some("user");
            self.author = if user { Author::User } else { Author::Other };
        }
        let result = if self.path.len() > MAX_DEPTH { Err(Stop::Unreadable) } else { self.value(value) };
        self.author = outer;
        self.path.pop();
        result
    }

    fn value(&mut self, value: &Value) -> Result<(), Stop> {
        if !is_readable(&self.path, value) {
            return Err(Stop::Unreadable);
        }
        match value {
            Value::Null | Value::Bool(_) => Ok(()),
            Value::Number(n) => {
                let digits = n.to_string();
                if digits.len() < NUMBER_DIGITS { Ok(()) } else { self.text(&digits) }
            }
            Value::String(s) => self.string(s),
            Value::Array(items) => {
                if let Some(joined) = in_pieces(items, " ") {
                    self.text(&joined)?;
                }
                items.iter().enumerate().try_for_each(|(i, v)| self.within(Step::Index(i), v))
            }
            Value::Object(map) => {
                self.in_members(map)?;
                map.iter().enumerate().try_for_each(|(at, (key, v))| match field(key) {
                    Some(name) => self.within(Step::Field(name), v),
                    None => {
                        self.path.push(Step::Key(at));
                        let seen = self.visit(key, true);
                        self.path.pop();
                        seen?;
                        self.within(Step::Key(at), v)
                    }
                })
            }
        }
    }

    /// The numbers of an object's members and of their names: they may be a card in its groups.
    fn in_members(&mut self, map: &Map<String, Value>) -> Result<(), Stop> {
        let numbers: Vec<Value> = map.values().filter(|v| v.is_number()).cloned().collect();
        let number = |key: &&String| !key.is_empty() && key.bytes().all(|b| b.is_ascii_digit());
        let names: Vec<Value> = map.keys().filter(number).map(|key| Value::from(key.as_str())).collect();
        for list in [numbers, names].iter().filter(|list| (2..=MAX_MEMBERS).contains(&list.len())) {
            if let Some(joined) = in_pieces(list, "|") {
                self.text(&joined)?;
            }
        }
        Ok(())
    }

    /// A string, and if it is a JSON document, what is in it: tool arguments hide text behind escapes.
    fn string(&mut self, s: &str) -> Result<(), Stop> {
        if is_wire_word(s) {
            return Ok(());
        }
        self.text(s)?;
        if !s.trim_start().starts_with(['{', '[', '"']) {
            return Ok(());
        }
        match serde_json::from_str::<Value>(s) {
            Ok(inner) => self.within(Step::Parsed, &inner),
            // The parser's own limit is past ours; anything else is just text that starts like JSON.
            Err(e) if e.to_string().starts_with("recursion limit") => Err(Stop::Unreadable),
            Err(_) => Ok(()),
        }
    }
}

/// The numbers of a list as one text: `[4111, 1111, 1111, 1111]` may be a card in pieces.
fn in_pieces(items: &[Value], between: &str) -> Option<String> {
    let mut joined = String::new();
    for item in items {
        let number = match item {
            Value::Null => continue,
            Value::Number(n) if n.is_u64() => n.to_string(),
            Value::String(s)
                if s.bytes().any(|b| b.is_ascii_digit()) && s.bytes().all(|b| !b.is_ascii_alphabetic()) =>
            {
                s.clone()
            }
            _ => return None,
        };
        joined.push_str(&number);
        joined.push_str(between);
    }
    (items.len() > 1 && joined.bytes().filter(u8::is_ascii_digit).count() > NUMBER_DIGITS).then_some(joined)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn texts(body: &Value) -> Result<Vec<(String, String)>, Stop> {
        let mut found = Vec::new();
        walk(body, &mut |s| {
            found.push((pointer(s.path), s.text.to_owned()));
            true
        })?;
        Ok(found)
    }

    #[test]
    fn every_place_that_carries_text_is_seen() {
        let body = json!({
            "model": "auto",
            "messages": [
                {"role": "system", "content": "s0"},
                {"role": "user", "name": "n1", "content": [{"type": "text", "text": "t2"}]},
                {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "c3", "type": "function", "function": {"name": "f4", "arguments": "{\"k5\": \"\\u0061\"}"}}]},
                {"role": "tool", "tool_call_id": "c3", "content": "r6"},
            ],
            "tools": [{"type": "function", "function": {"name": "f4", "description": "d7",
                "parameters": {"type": "object", "properties": {"p8": {"type": "string", "enum": ["e9"]}}}}}],
            "response_format": {"type": "json_schema", "json_schema": {"name": "x10", "schema": {}}},
            "metadata": {"m11": "v12"},
            "prediction": {"type": "content", "content": "p13"},
            "user": "u14",
            "seed": 4111111111111111u64,
        });
        let found = texts(&body).unwrap();
        for text in [
            "s0",
            "n1",
            "t2",
            "f4",
            "k5",
            "a",
            "r6",
            "d7",
            "p8",
            "e9",
            "x10",
            "m11",
            "v12",
            "p13",
            "u14",
            "4111111111111111",
        ] {
            assert!(found.iter().any(|(_, t)| t == text), "{text} in {found:?}");
        }
        let place = |text: &str| found.iter().find(|(_, t)| t == text).map(|(p, _)| p.as_str());
        assert_eq!(place("t2"), Some("/messages/1/content/0/text"));
        assert_eq!(place("v12"), Some("/metadata/[0]"), "a foreign key is content");
        assert_eq!(place("a"), Some("/messages/2/tool_calls/0/function/arguments/(json)/[0]"));
    }

    #[test]
    fn what_cannot_be_read_stops_the_walk() {
        let image = json!({"type": "image_url", "image_url": {"url": "https://x.example/a.png"}});
        let mut deep = json!("x");
        (0..40).for_each(|_| deep = json!([deep]));
        for body in [
            json!({"messages": [{"role": "user", "content": [image]}]}),
            json!({"messages": [{"role": "user", "content": [{"type": "hologram", "text": "x"}]}]}),
            json!({"messages": [{"role": "user", "content": [{"text": "no type"}]}]}),
            json!({"messages": [{"role": "user", "content": ["bare"]}]}),
            json!({"messages": [{"role": "user", "content": {"text": "x"}}]}),
            json!({"prompt": [1, 2, 3]}),
            json!({"input": [[1, 2], [3]]}),
            json!({"input": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]}),
            json!({"metadata": {"deep": deep}}),
            json!({"metadata": {"deep": "[".repeat(200)}}),
        ] {
            assert_eq!(texts(&body), Err(Stop::Unreadable), "{body}");
        }
    }

    #[test]
    fn a_picture_cannot_be_read_wherever_it_stands() {
        let data = "data:image/png;base64,iVBORw0KGgo=";
        let image = json!({"type": "image_url", "image_url": {"url": data}});
        let audio = json!({"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}});
        let source = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}});
        let mut bodies = Vec::new();
        for held in [&image, &audio, &source] {
            bodies.push(json!({"prediction": {"type": "content", "content": [held]}}));
            bodies.push(json!({"messages": [{"role": "assistant", "content": [held]}]}));
            bodies.push(json!({"an_extra": held}));
            bodies.push(json!({"an_extra": {"deep": [held]}}));
            let mut part = json!({"type": "text", "text": "x"});
            part["image_url"] = held.clone();
            bodies.push(json!({"messages": [{"role": "user", "content": [part]}]}));
            bodies.push(json!({"prediction": {"type": "content", "content": [part]}}));
        }
        bodies.push(json!({"user": data}));
        bodies.push(json!({"prediction": {"type": "content", "content": {"url": data}}}));
        bodies.push(json!({"messages": [{"role": "user", "content": [{"type": "text", "text": image}]}]}));
        bodies.push(json!({"messages": [{"role": "user", "content": [
            {"type": "text", "text": "x", "annotations": [{"picture": " DATA:image/png;base64,AAAA"}]}]}]}));
        for body in bodies {
            assert_eq!(texts(&body), Err(Stop::Unreadable), "{body}");
        }
    }

    #[test]
    fn words_about_pictures_can_be_read() {
        let data = "data:image/png;base64,iVBORw0KGgo=";
        let about = json!({"type": "image", "url": {"type": "string"}});
        let call = json!({"id": "c", "function": {"name": "f", "arguments": format!("{{\"a\": \"{data}\"}}")}});
        for body in [
            json!({"messages": [{"role": "user", "content": data}]}),
            json!({"messages": [{"role": "user", "content": [{"type": "text", "text": data, "cache_control": {"type": "ephemeral"}}]}]}),
            json!({"messages": [{"role": "assistant", "content": null, "tool_calls": [call]}]}),
            json!({"prediction": {"type": "content", "content": [{"type": "text", "text": data}]}}),
            json!({"tools": [{"type": "function", "function": {"name": "f", "parameters": {"properties": about}}}]}),
            json!({"prompt": [data, "x"], "metadata": {"type": "image", "note": "data: none"}}),
        ] {
            assert!(texts(&body).is_ok(), "{body}");
        }
    }
}
