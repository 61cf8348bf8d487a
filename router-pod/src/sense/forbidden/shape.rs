//! What a value may be. What it may not is named by its place.

use serde_json::{Map, Value};
use terrace_wire::pointer::Pointer;

/// A value's shape. Null is of every shape, and so is a member that is null or false: it says nothing.
pub(super) enum Shape {
    /// A text, a number, true or false.
    Plain,
    /// One of some words.
    Word(&'static [&'static str]),
    /// Anything.
    Free,
    /// A JSON Schema: whatever its words mean, none may lead to another document.
    Schema,
    /// Elements of one shape.
    List(&'static Shape),
    /// An object with these members and no others.
    Object(Members),
    /// An object with these members; others do not travel.
    Open(Members),
    /// An object whose `type` says what members it has; none says the first.
    Tagged(&'static [(&'static str, Members)]),
    /// The first, or, for an object or a list, the second.
    Or(&'static Shape, &'static Shape),
    /// Bytes that are there themselves: a text, or an object that has them in the member of this name.
    Held(&'static str),
}

type Members = &'static [(&'static str, Shape)];

use Shape::{Free, Held, List, Object, Open, Or, Plain, Schema, Tagged, Word};

/// What stands beside the bytes of a [`Held`] object.
const BESIDE: &[&str] = &["detail", "format", "filename"];
/// Kinds of bytes that lead nowhere when they are shown: a page or a drawing may.
const MEDIA: &[&str] = &["image/", "audio/", "video/", "application/pdf", "application/octet-stream", "text/plain"];

/// The first place in a value that is not of a shape.
pub(super) fn fault(value: &Value, shape: &Shape, at: &Pointer) -> Option<Pointer> {
    let unless = |fine: bool| (!fine).then(|| at.clone());
    match (shape, value) {
        (_, Value::Null) | (Free, _) => None,
        (Plain, value) => unless(!value.is_object() && !value.is_array()),
        (Word(words), value) => unless(value.as_str().is_some_and(|word| words.contains(&word))),
        (Schema, value) => leads_out(value, at),
        (List(each), Value::Array(items)) => {
            items.iter().enumerate().find_map(|(i, item)| fault(item, each, &at.index(i)))
        }
        (Object(known), Value::Object(members)) => {
            members.iter().find_map(|(name, value)| member(name, value, known, at))
        }
        (Open(known), Value::Object(members)) => {
            known.iter().find_map(|(name, shape)| fault(members.get(*name)?, shape, &at.key(name)))
        }
        (Tagged(kinds), Value::Object(members)) => tagged(members, kinds, at),
        (Or(_, other), Value::Object(_) | Value::Array(_)) => fault(value, other, at),
        (Or(first, _), value) => fault(value, first, at),
        (Held(name), value) => unless(is_held(value, name)),
        (List(_) | Object(_) | Open(_) | Tagged(_), _) => Some(at.clone()),
    }
}

fn member(name: &str, value: &Value, known: Members, at: &Pointer) -> Option<Pointer> {
    match known.iter().find(|(known, _)| *known == name) {
        Some((_, shape)) => fault(value, shape, &at.key(name)),
        None => (!value.is_null() && value != &Value::Bool(false)).then(|| at.key(name)),
    }
}

fn tagged(members: &Map<String, Value>, kinds: &[(&str, Members)], at: &Pointer) -> Option<Pointer> {
    let kind = match members.get("type") {
        None | Some(Value::Null) => kinds.first(),
        Some(named) => kinds.iter().find(|(kind, _)| named.as_str() == Some(kind)),
    };
    let Some((_, known)) = kind else { return Some(at.key("type")) };
    members.iter().filter(|(name, _)| *name != "type").find_map(|(name, value)| member(name, value, known, at))
}

/// Whether bytes are there: nothing else may say where to get them.
fn is_held(value: &Value, name: &str) -> bool {
    match value {
        Value::String(text) => is_inline(text),
        Value::Object(members) => members.iter().all(|(member, value)| match value {
            Value::Null => true,
            Value::String(text) if member == name => is_inline(text),
            Value::String(_) => BESIDE.contains(&member.as_str()),
            _ => false,
        }),
        _ => false,
    }
}

/// Base64, alone or in a `data:` address.
fn is_inline(text: &str) -> bool {
    let bytes = match text.get(..5) {
        Some(scheme) if scheme.eq_ignore_ascii_case("data:") => {
            let Some((head, bytes)) = text[5..].split_once(',') else { return false };
            let head = head.to_ascii_lowercase();
            if !head.ends_with(";base64") || !MEDIA.iter().any(|kind| head.starts_with(kind)) || head.contains("svg") {
                return false;
            }
            bytes
        }
        _ => text,
    };
    // An address has a dot or a colon, but for `//` and a host's single name.
    let base64 = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'-' | b'_' | b'=' | b'\r' | b'\n');
    let bare = bytes.len() == text.len();
    bytes.bytes().all(base64) && !(bare && bytes.starts_with("//"))
}

/// Where a schema refers to another document.
fn leads_out(value: &Value, at: &Pointer) -> Option<Pointer> {
    match value {
        Value::Array(items) => items.iter().enumerate().find_map(|(i, item)| leads_out(item, &at.index(i))),
        Value::Object(members) => members.iter().find_map(|(name, value)| match value {
            Value::String(text) if matches!(name.as_str(), "$ref" | "$dynamicRef" | "$recursiveRef") => {
                (text.contains("://") || text.starts_with("//")).then(|| at.key(name))
            }
            value => leads_out(value, &at.key(name)),
        }),
        _ => None,
    }
}
