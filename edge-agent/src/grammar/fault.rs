//! What is wrong with a schema, and where. What can be told by looking is told by [`lint`](super::lint); for the rest parts are
//! taken out until the others pass, since `llguidance` says what it does not like in words that repeat the schema.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::place::{Place, Step, at, at_mut, named, parts};

/// Time for the search; past it the place found so far must do.
const PATIENCE: Duration = Duration::from_millis(300);
/// Keywords that are named last, when leaving out any of several would do: those with schemas inside, and types.
const LAST: &[&str] =
    &["allOf", "anyOf", "items", "patternProperties", "prefixItems", "properties", "required", "type"];

/// What is wrong with a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The keyword or value at fault.
    pub place: Place,
    /// What is wrong with it and what to do, without any of its content.
    pub what: String,
    /// Whether it means something that is not done here; else it is wrong.
    pub unsupported: bool,
}

impl Fault {
    /// Something that is wrong.
    pub(super) fn wrong(place: Place, what: impl Into<String>) -> Self {
        Fault { place, what: what.into(), unsupported: false }
    }

    /// Something that is not done here.
    pub(super) fn beyond(place: Place, what: impl Into<String>) -> Self {
        Fault { place, what: what.into(), unsupported: true }
    }

    /// What `llguidance` does not take, told by the keyword at which it was found.
    pub(super) fn found(place: Place) -> Self {
        let Some(Step::Key(key)) = place.last() else {
            return Fault::wrong(place, "nothing fits this together with what stands around it: widen it");
        };
        let beyond = match *key {
            "pattern" => "this pattern cannot be followed: write it with classes, groups, alternatives and counts only",
            "patternProperties" => "some of these patterns take the same names: make them differ, or join them",
            "oneOf" => {
                "these may overlap, and a grammar cannot see to it that only one fits: use anyOf if any of them will do, \
                 or give each a required property with a const of its own"
            }
            "minProperties" | "maxProperties" => {
                "members can be counted only where all that are listed are required, or for a count of 1 where \
                 additionalProperties is false: list them in required, or leave the count out"
            }
            "$ref" => {
                "what this refers to contains itself and cannot be joined with the keywords beside the reference: \
                 leave those out"
            }
            _ => {
                return Fault::wrong(
                    place,
                    "nothing fits this together with the keywords beside it: widen one of them",
                );
            }
        };
        Fault::beyond(place, beyond)
    }
}

/// The first place for which a schema does not pass, as far as it can be told; none if it passes.
pub(super) fn first(schema: &Value, passes: impl Fn(&Value) -> bool) -> Option<Place> {
    if passes(schema) {
        return None;
    }
    let end = Instant::now() + PATIENCE;
    let (mut schema, mut place) = (schema.clone(), Vec::new());
    while Instant::now() < end {
        let Some((further, rest)) = inside(&schema, &place, &passes, end) else { break };
        place.extend(further);
        schema = rest;
    }
    if let Some(key) = keyword(&schema, &place, &passes, end) {
        place.push(key);
    }
    Some(place)
}

/// The part of the schema at `place` that is at fault, with the whole in which no later part is; none if it is the schema
/// there itself.
fn inside(schema: &Value, place: &[Step], passes: &impl Fn(&Value) -> bool, end: Instant) -> Option<(Place, Value)> {
    let parts = parts(at(schema, place)?);
    // With `true`, which takes anything, in place of every part; then part by part as it is.
    let mut trial = schema.clone();
    for part in &parts {
        *at_mut(&mut trial, place, part)? = Value::Bool(true);
    }
    if !passes(&trial) {
        return None;
    }
    for part in parts {
        let original = at(at(schema, place)?, &part)?;
        *at_mut(&mut trial, place, &part)? = original.clone();
        if Instant::now() > end || !passes(&trial) {
            return Some((part, trial));
        }
    }
    None
}

/// The keyword without which the schema at `place` is fine, its parts aside.
fn keyword(schema: &Value, place: &[Step], passes: &impl Fn(&Value) -> bool, end: Instant) -> Option<Step> {
    let mut trial = schema.clone();
    let here = at(schema, place)?;
    for part in parts(here) {
        *at_mut(&mut trial, place, &part)? = Value::Bool(true);
    }
    let mut keys: Vec<(usize, &String)> = here.as_object()?.keys().enumerate().collect();
    keys.sort_by_key(|(_, key)| LAST.contains(&key.as_str()));
    for (position, key) in keys {
        if Instant::now() > end {
            return None;
        }
        let mut without = trial.clone();
        at_mut(&mut without, place, &[])?.as_object_mut()?.shift_remove(key);
        if passes(&without) {
            return Some(named(key).unwrap_or(Step::Nth(position)));
        }
    }
    None
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
