//! Places in a schema, and which of its keywords have schemas inside.

use serde_json::Value;

/// Keys of a schema by name; any other is its writer's own.
const KEYWORDS: &[&str] = &[
    "$anchor",
    "$defs",
    "$dynamicAnchor",
    "$dynamicRef",
    "$id",
    "$recursiveRef",
    "$ref",
    "$schema",
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "contains",
    "definitions",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "if",
    "items",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "required",
    "then",
    "type",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
];

/// One step from a schema's root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A keyword.
    Key(&'static str),
    /// A member that the schema's writer named, by its position.
    Nth(usize),
    /// An element of a list.
    Index(usize),
}

/// A place, from the schema's root.
pub type Place = Vec<Step>;

/// What is inside of a keyword.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// A schema.
    One,
    /// A list of schemas.
    List,
    /// A schema, or a list of them.
    OneOrList,
    /// An object of schemas, whose names are the writer's own.
    Map,
    /// No schema.
    Data,
}

/// What is inside of this keyword.
pub(super) fn shape(key: &str) -> Shape {
    match key {
        "additionalItems" | "additionalProperties" | "unevaluatedItems" | "unevaluatedProperties" => Shape::One,
        "allOf" | "anyOf" | "oneOf" | "prefixItems" => Shape::List,
        "items" => Shape::OneOrList,
        "$defs" | "definitions" | "patternProperties" | "properties" => Shape::Map,
        _ => Shape::Data,
    }
}

/// A key as a step: by name if it is a keyword.
pub(super) fn named(key: &str) -> Option<Step> {
    KEYWORDS.iter().find(|k| **k == key).map(|k| Step::Key(k))
}

/// The schemas directly inside of one, those that only references come to included.
pub(super) fn parts(schema: &Value) -> Vec<Place> {
    let Some(members) = schema.as_object() else { return Vec::new() };
    let mut parts = Vec::new();
    for (key, value) in members {
        let Some(step) = named(key) else { continue };
        match (shape(key), value) {
            (Shape::Map, Value::Object(map)) => parts.extend((0..map.len()).map(|i| vec![step, Step::Nth(i)])),
            (Shape::List | Shape::OneOrList, Value::Array(list)) => {
                parts.extend((0..list.len()).map(|i| vec![step, Step::Index(i)]));
            }
            (Shape::One | Shape::OneOrList, Value::Object(_)) => parts.push(vec![step]),
            _ => {}
        }
    }
    parts
}

/// What stands at a place.
pub(super) fn at<'a>(mut value: &'a Value, place: &[Step]) -> Option<&'a Value> {
    for step in place {
        value = match step {
            Step::Key(key) => value.get(key)?,
            Step::Nth(n) => value.as_object()?.values().nth(*n)?,
            Step::Index(i) => value.get(i)?,
        };
    }
    Some(value)
}

/// What stands at a place further in.
pub(super) fn at_mut<'a>(mut value: &'a mut Value, place: &[Step], further: &[Step]) -> Option<&'a mut Value> {
    for step in place.iter().chain(further) {
        value = match step {
            Step::Key(key) => value.get_mut(key)?,
            Step::Nth(n) => value.as_object_mut()?.values_mut().nth(*n)?,
            Step::Index(i) => value.get_mut(i)?,
        };
    }
    Some(value)
}
