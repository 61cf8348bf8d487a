//! The schemas of a schema: those that an answer may come to, by its parts and by references.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::place::{Place, Shape, Step, shape};
use super::refs::Refs;

/// Keys with a schema, or several, that an answer may come to.
const INSIDE: &[&str] = &[
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "items",
    "oneOf",
    "patternProperties",
    "prefixItems",
    "properties",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// What stands where a schema should.
pub(super) struct Part<'a> {
    pub(super) place: Place,
    pub(super) schema: &'a Value,
}

/// Every schema that an answer may come to, the root first, each before its parts; those that stand beside, in `$defs` or
/// as data, are none.
pub(super) fn reachable<'a>(refs: &Refs<'a>) -> Vec<Part<'a>> {
    let mut parts = Vec::new();
    let mut left = vec![Part { place: Place::new(), schema: refs.root() }];
    let mut seen = HashSet::new();
    while let Some(part) = left.pop() {
        let schema = part.schema;
        if schema.is_object() && !seen.insert(std::ptr::from_ref(schema)) {
            continue;
        }
        if let Some(members) = schema.as_object() {
            // A reference is followed where all else has been seen: what stands in its own place is named by that.
            if let Some(found) = members.get("$ref").and_then(Value::as_str).and_then(|name| refs.find(name).ok()) {
                left.insert(0, Part { place: found.place, schema: found.schema });
            }
            let inside = inside(members).into_iter().rev();
            left.extend(inside.map(|(steps, schema)| Part { place: [&part.place[..], &steps].concat(), schema }));
        }
        parts.push(part);
    }
    parts
}

/// The same, of those that are objects.
pub(super) fn objects<'a>(refs: &Refs<'a>) -> Vec<&'a Map<String, Value>> {
    reachable(refs).into_iter().filter_map(|part| part.schema.as_object()).collect()
}

/// What an answer may come to directly inside of a schema, in its order.
fn inside(members: &Map<String, Value>) -> Vec<(Vec<Step>, &Value)> {
    let mut inside = Vec::new();
    for (name, value) in members {
        let Some(key) = INSIDE.iter().copied().find(|key| key == name) else { continue };
        match (shape(key), value) {
            (Shape::Map, Value::Object(map)) => {
                inside.extend(map.values().enumerate().map(|(i, part)| (vec![Step::Key(key), Step::Nth(i)], part)));
            }
            (Shape::List | Shape::OneOrList, Value::Array(list)) => {
                inside.extend(list.iter().enumerate().map(|(i, part)| (vec![Step::Key(key), Step::Index(i)], part)));
            }
            (Shape::One | Shape::OneOrList, part) => inside.push((vec![Step::Key(key)], part)),
            _ => {}
        }
    }
    inside
}
