//! Conditions in an object's status.

use serde_json::Value;

/// The condition of this type; none: the object does not have it (yet).
pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|c| c["type"] == kind)
}
