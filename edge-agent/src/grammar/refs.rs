//! What references mean: JSON pointers (RFC 6901) in fragments (RFC 3986), and anchors. Only those inside of the schema.

use std::collections::HashMap;

use serde_json::Value;

use super::place::{Place, Shape, Step, named, shape};

/// Why a reference means nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unresolved {
    /// It is to another document.
    Elsewhere,
    /// Nothing is there.
    Nothing,
}

/// What a reference means.
#[derive(Debug, Clone)]
pub(super) struct Found<'a> {
    pub(super) schema: &'a Value,
    pub(super) place: Place,
    /// Whether `llguidance` finds it by keys joined with slashes, which is all that it knows, and nothing on the way is
    /// written anew for it.
    pub(super) simple: bool,
    /// Those keys.
    pub(super) keys: Vec<String>,
}

/// Every reference of one schema.
pub(super) struct Refs<'a> {
    root: &'a Value,
    /// By name, the keys to each schema that has one.
    anchors: HashMap<&'a str, Vec<String>>,
}

impl<'a> Refs<'a> {
    pub(super) fn new(root: &'a Value) -> Self {
        let mut anchors = HashMap::new();
        anchored(root, &mut Vec::new(), &mut anchors);
        Refs { root, anchors }
    }

    pub(super) fn root(&self) -> &'a Value {
        self.root
    }

    /// What a reference means; none of one that means nothing.
    pub(super) fn get(&self, name: &str) -> Option<&'a Value> {
        self.find(name).ok().map(|found| found.schema)
    }

    /// What a reference means, and where it stands.
    pub(super) fn find(&self, name: &str) -> Result<Found<'a>, Unresolved> {
        let (document, fragment) = name.split_once('#').unwrap_or((name, ""));
        let own = self.root.get("$id").and_then(Value::as_str).map(|id| id.trim_end_matches('#'));
        if !document.is_empty() && own != Some(document) {
            return Err(Unresolved::Elsewhere);
        }
        let fragment = unescaped(fragment).ok_or(Unresolved::Nothing)?;
        if fragment.is_empty() {
            return self.follow(Vec::new());
        }
        match fragment.strip_prefix('/') {
            Some(pointer) => {
                let keys: Option<Vec<String>> = pointer.split('/').map(key).collect();
                self.follow(keys.ok_or(Unresolved::Nothing)?)
            }
            None => self.follow(self.anchors.get(fragment.as_str()).ok_or(Unresolved::Nothing)?.clone()),
        }
    }

    fn follow(&self, keys: Vec<String>) -> Result<Found<'a>, Unresolved> {
        let (mut value, mut place, mut simple) = (self.root, Place::new(), true);
        // What the value is: a schema, or what is inside of a keyword.
        let mut inside = Shape::One;
        for key in &keys {
            let step;
            (value, step, inside) = match value {
                Value::Object(members) => {
                    let position = members.keys().position(|k| k == key).ok_or(Unresolved::Nothing)?;
                    let keyword = named(key).filter(|_| matches!(inside, Shape::One | Shape::OneOrList));
                    let next = match inside {
                        Shape::One | Shape::OneOrList => shape(key),
                        Shape::Map => Shape::One,
                        Shape::List | Shape::Data => Shape::Data,
                    };
                    let renewed = matches!(key.as_str(), "oneOf" | "unevaluatedItems" | "unevaluatedProperties");
                    simple &= !(renewed && keyword.is_some());
                    (&members[key], keyword.unwrap_or(Step::Nth(position)), next)
                }
                Value::Array(list) => {
                    let plain = key == "0" || !key.starts_with(['0', '+']);
                    let index: usize = key.parse().ok().filter(|_| plain).ok_or(Unresolved::Nothing)?;
                    let next = match inside {
                        Shape::List | Shape::OneOrList => Shape::One,
                        _ => Shape::Data,
                    };
                    (list.get(index).ok_or(Unresolved::Nothing)?, Step::Index(index), next)
                }
                _ => return Err(Unresolved::Nothing),
            };
            place.push(step);
            simple &= !key.is_empty() && !key.contains(['/', '~', '%', '#']);
        }
        simple &= matches!(inside, Shape::One | Shape::OneOrList) && !value.is_array();
        Ok(Found { schema: value, place, simple, keys })
    }
}

/// A fragment without its percent signs.
fn unescaped(text: &str) -> Option<String> {
    let (mut bytes, mut left) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((&byte, rest)) = left.split_first() {
        left = rest;
        if byte == b'%' {
            let digits = left.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
            bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            left = &left[2..];
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

/// A pointer's token as the key that it means.
fn key(token: &str) -> Option<String> {
    // A tilde with anything else behind it is none.
    let wrong = token.match_indices('~').any(|(at, _)| !matches!(token.as_bytes().get(at + 1), Some(b'0' | b'1')));
    (!wrong).then(|| token.replace("~1", "/").replace("~0", "~"))
}

/// The schemas with names of their own; the first of a name counts.
fn anchored<'a>(schema: &'a Value, keys: &mut Vec<String>, anchors: &mut HashMap<&'a str, Vec<String>>) {
    let Some(members) = schema.as_object() else { return };
    let name = |key: &str| members.get(key).and_then(Value::as_str);
    // Before 2019, an anchor was an `$id` that is a fragment.
    let old = name("$id").and_then(|id| id.strip_prefix('#'));
    for name in [name("$anchor"), name("$dynamicAnchor"), old].into_iter().flatten() {
        anchors.entry(name).or_insert_with(|| keys.clone());
    }
    for (key, value) in members {
        keys.push(key.clone());
        match (shape(key), value) {
            (Shape::Map, Value::Object(map)) => {
                for (name, part) in map {
                    keys.push(name.clone());
                    anchored(part, keys, anchors);
                    keys.pop();
                }
            }
            (Shape::List | Shape::OneOrList, Value::Array(list)) => {
                for (i, part) in list.iter().enumerate() {
                    keys.push(i.to_string());
                    anchored(part, keys, anchors);
                    keys.pop();
                }
            }
            (Shape::One | Shape::OneOrList, part) => anchored(part, keys, anchors),
            _ => {}
        }
        keys.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pointers_are_unescaped_and_anchors_found() {
        let schema = json!({"$id": "https://example.com/s", "$defs": {"a/b": {"const": 1}, "c~d": {"const": 2}, "e f%": {"const": 3},
            "ü": {"const": 4}, "~1": {"const": 5}, "n": {"$anchor": "name", "const": 6}, "o": {"$id": "#old", "const": 7}},
            "prefixItems": [{"const": 8}], "default": {"$anchor": "data"}, "oneOf": [{"const": 9}]});
        let refs = Refs::new(&schema);
        for (name, value, simple) in [
            ("#/$defs/a~1b", 1, false),
            ("#/$defs/a%2fb", 1, false),
            ("#/%24defs/c~0d", 2, false),
            ("#/$defs/e%20f%25", 3, false),
            ("#/$defs/%C3%BC", 4, true),
            ("#/$defs/~01", 5, false),
            ("#name", 6, true),
            ("#old", 7, true),
            ("https://example.com/s#name", 6, true),
            ("#/prefixItems/0", 8, true),
            ("#/oneOf/0", 9, false),
        ] {
            // A slash that is escaped by the percent sign separates all the same: it is unescaped first.
            if name.contains("%2f") {
                assert_eq!(refs.find(name).unwrap_err(), Unresolved::Nothing);
                continue;
            }
            let found = refs.find(name).unwrap_or_else(|e| panic!("{name}: {e:?}"));
            assert_eq!((&found.schema["const"], found.simple), (&json!(value), simple), "{name}");
        }
        assert_eq!(refs.get("#"), Some(&schema));
        assert_eq!(refs.find("https://example.com/s").unwrap().schema, &schema);
        for (name, why) in [
            ("#/$defs/c~d", Unresolved::Nothing),
            ("#/$defs/%GG", Unresolved::Nothing),
            ("#/prefixItems/00", Unresolved::Nothing),
            ("#/prefixItems/1", Unresolved::Nothing),
            ("#data", Unresolved::Nothing),
            ("#/", Unresolved::Nothing),
            ("https://example.com/t", Unresolved::Elsewhere),
            ("other.json#/x", Unresolved::Elsewhere),
        ] {
            assert_eq!(refs.find(name).unwrap_err(), why, "{name}");
        }
    }
}
