//! Where in a schema the trouble lies. `llguidance` says what it does not like in words that repeat the schema, so the
//! place is found by trying: parts are taken out until the rest compiles.

use std::time::{Duration, Instant};

use serde_json::Value;

/// Time for the search; past it the place found so far must do.
const PATIENCE: Duration = Duration::from_millis(300);

/// Keys of a schema by name; any other is its writer's own.
const KEYWORDS: &[&str] = &[
    "$anchor",
    "$defs",
    "$dynamicRef",
    "$id",
    "$ref",
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
/// Keys whose value is a schema, a list of schemas, or an object of schemas.
const ONE: &[&str] = &["items", "additionalProperties", "additionalItems"];
const LISTS: &[&str] = &["anyOf", "oneOf", "allOf", "prefixItems", "items"];
const MAPS: &[&str] = &["properties", "patternProperties", "$defs", "definitions"];

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

/// The place of a fault, from the schema's root.
pub type Fault = Vec<Step>;

/// The first place at fault, as far as it can be told; none if the schema compiles.
pub(super) fn first(schema: &Value, compiles: impl Fn(&Value) -> bool) -> Option<Fault> {
    if compiles(schema) {
        return None;
    }
    let end = Instant::now() + PATIENCE;
    let (mut schema, mut place) = (schema.clone(), Vec::new());
    while Instant::now() < end {
        let Some((further, rest)) = inside(&schema, &place, &compiles, end) else { break };
        place.extend(further);
        schema = rest;
    }
    if let Some(key) = keyword(&schema, &place, &compiles, end) {
        place.push(key);
    }
    Some(place)
}

/// The part of the schema at `place` that is at fault, with the whole in which no later part is; none if it is the schema
/// there itself.
fn inside(schema: &Value, place: &[Step], compiles: &impl Fn(&Value) -> bool, end: Instant) -> Option<(Fault, Value)> {
    let parts = parts(at(schema, place)?);
    // With `true`, which takes anything, in place of every part; then part by part as it is.
    let mut trial = schema.clone();
    for part in &parts {
        *at_mut(&mut trial, place, part)? = Value::Bool(true);
    }
    if !compiles(&trial) {
        return None;
    }
    for part in parts {
        let original = at(at(schema, place)?, &part)?;
        *at_mut(&mut trial, place, &part)? = original.clone();
        if Instant::now() > end || !compiles(&trial) {
            return Some((part, trial));
        }
    }
    None
}

/// The keyword without which the schema at `place` is fine, its parts aside.
fn keyword(schema: &Value, place: &[Step], compiles: &impl Fn(&Value) -> bool, end: Instant) -> Option<Step> {
    let mut trial = schema.clone();
    let here = at(schema, place)?;
    for part in parts(here) {
        *at_mut(&mut trial, place, &part)? = Value::Bool(true);
    }
    for (position, key) in here.as_object()?.keys().enumerate() {
        if Instant::now() > end {
            return None;
        }
        let mut without = trial.clone();
        at_mut(&mut without, place, &[])?.as_object_mut()?.shift_remove(key);
        if compiles(&without) {
            return Some(named(key).unwrap_or(Step::Nth(position)));
        }
    }
    None
}

fn named(key: &str) -> Option<Step> {
    KEYWORDS.iter().find(|k| **k == key).map(|k| Step::Key(k))
}

/// The schemas directly inside one.
fn parts(schema: &Value) -> Vec<Fault> {
    let Some(members) = schema.as_object() else { return Vec::new() };
    let mut parts = Vec::new();
    for (key, value) in members {
        let Some(step) = named(key) else { continue };
        match value {
            Value::Object(map) if MAPS.contains(&key.as_str()) => {
                parts.extend((0..map.len()).map(|i| vec![step, Step::Nth(i)]));
            }
            Value::Array(list) if LISTS.contains(&key.as_str()) => {
                parts.extend((0..list.len()).map(|i| vec![step, Step::Index(i)]));
            }
            Value::Object(_) if ONE.contains(&key.as_str()) => parts.push(vec![step]),
            _ => {}
        }
    }
    parts
}

fn at<'a>(mut value: &'a Value, place: &[Step]) -> Option<&'a Value> {
    for step in place {
        value = match step {
            Step::Key(key) => value.get(key)?,
            Step::Nth(n) => value.as_object()?.values().nth(*n)?,
            Step::Index(i) => value.get(i)?,
        };
    }
    Some(value)
}

fn at_mut<'a>(mut value: &'a mut Value, place: &[Step], further: &[Step]) -> Option<&'a mut Value> {
    for step in place.iter().chain(further) {
        value = match step {
            Step::Key(key) => value.get_mut(key)?,
            Step::Nth(n) => value.as_object_mut()?.values_mut().nth(*n)?,
            Step::Index(i) => value.get_mut(i)?,
        };
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A compiler that knows no `not`, and wants patterns without brackets.
    fn simple(schema: &Value) -> bool {
        let fine = schema.get("not").is_none() && !schema["pattern"].as_str().is_some_and(|p| p.contains('['));
        fine && parts(schema).iter().all(|part| at(schema, part).is_some_and(simple))
    }

    #[test]
    fn the_first_fault_is_found_however_deep() {
        let place = |schema: Value| first(&schema, simple);
        let (key, nth, index) = (Step::Key, Step::Nth, Step::Index);
        assert_eq!(place(json!({"type": "object"})), None);
        assert_eq!(place(json!({"type": "object", "not": {}})), Some(vec![key("not")]));
        let deep = json!({"properties": {"a": {"type": "string"}, "b": {"items": {"anyOf": [{}, {"pattern": "["}]}},
            "c": {"not": {}}}});
        let b = vec![key("properties"), nth(1), key("items"), key("anyOf"), index(1), key("pattern")];
        assert_eq!(place(deep), Some(b));
        let two = json!({"$defs": {"x": {"pattern": "[", "not": {}}}});
        assert_eq!(place(two), Some(vec![key("$defs"), nth(0)]), "neither key alone");
    }
}
