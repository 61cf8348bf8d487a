//! The schemas of a schema: those that an answer may come to, by its parts and by references.

use std::collections::HashSet;

use serde_json::{Map, Value};

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
];

/// Every schema that an answer may come to, the root first; those that stand beside, in `$defs` or as data, are none.
pub(super) fn reachable(root: &Value) -> Vec<&Map<String, Value>> {
    let (mut parts, mut left, mut seen) = (Vec::new(), vec![root], HashSet::new());
    while let Some(part) = left.pop() {
        let Some(part) = part.as_object().filter(|part| seen.insert(std::ptr::from_ref(*part))) else { continue };
        parts.push(part);
        for key in INSIDE {
            match part.get(*key) {
                Some(Value::Object(members)) if matches!(*key, "properties" | "patternProperties") => {
                    left.extend(members.values());
                }
                Some(Value::Array(list)) => left.extend(list),
                Some(schema) => left.push(schema),
                None => {}
            }
        }
        left.extend(part.get("$ref").and_then(Value::as_str).and_then(|name| at(root, name)));
    }
    parts
}

/// What a reference means; none of one to somewhere else, which is not followed anyway.
pub(super) fn at<'a>(root: &'a Value, name: &str) -> Option<&'a Value> {
    root.pointer(name.strip_prefix('#')?)
}
