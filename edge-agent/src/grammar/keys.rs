//! Objects whose members are counted. `llguidance` counts what is written: a name that is not listed may be written twice,
//! which is two to the grammar and one to whoever reads the answer. So no answer is promised that needs such names to differ.

use serde_json::{Map, Value};

use super::parts::objects;
use super::refs::Refs;

/// Whether this can be kept wherever an answer may come to.
pub(super) fn kept(schema: &Value) -> bool {
    objects(&Refs::new(schema)).into_iter().all(differ)
}

/// Whether what this schema says of an object's least members can be kept.
fn differ(schema: &Map<String, Value>) -> bool {
    let least = schema.get("minProperties").and_then(Value::as_u64).unwrap_or(0);
    let required = schema.get("required").and_then(Value::as_array).map_or(0, Vec::len) as u64;
    let patterns =
        schema.get("patternProperties").and_then(Value::as_object).is_some_and(|patterns| !patterns.is_empty());
    let open = patterns || schema.get("additionalProperties") != Some(&Value::Bool(false));
    // One more than what has to be there differs from it; a second may be the same again.
    !open || least <= required + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unlisted_names_need_not_differ_unless_they_are_counted() {
        let fine = |schema: Value| differ(schema.as_object().unwrap());
        assert!(fine(json!({"type": "object"})));
        assert!(fine(json!({"patternProperties": {"^a": {}}, "minProperties": 1, "maxProperties": 5})));
        assert!(fine(json!({"required": ["a", "b"], "minProperties": 3})));
        assert!(fine(json!({"additionalProperties": false, "properties": {"a": {}, "b": {}}, "minProperties": 2})));
        assert!(!fine(json!({"patternProperties": {"^a": {}}, "additionalProperties": false, "minProperties": 2})));
        assert!(!fine(json!({"required": ["a"], "minProperties": 3})));
    }
}
