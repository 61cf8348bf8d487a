//! Whether a live object already is what is wanted, judged without asking the API server.

use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::Value;

/// Two questions: was it this that was asked for last time (the annotation `mark` says so, also of fields that are no
/// longer wanted), and has nobody changed what we asked for since (everything wanted is still there)?
pub(super) fn same(have: &DynamicObject, want: &DynamicObject, mark: &str) -> bool {
    have.annotations().get(mark) == want.annotations().get(mark)
        && covers(&json(&have.metadata.labels), &json(&want.metadata.labels))
        && covers(&have.data, &want.data)
}

fn json<T: serde::Serialize>(value: &T) -> Value {
    serde_json::to_value(value).unwrap_or(Value::Null)
}

/// Whether `have` holds everything in `want`. The API server adds defaults and drops what is empty, and both are the
/// same object; a list is compared element by element since a longer one means something else.
fn covers(have: &Value, want: &Value) -> bool {
    match (have, want) {
        (Value::Object(have), Value::Object(want)) => {
            want.iter().all(|(key, value)| covers(have.get(key).unwrap_or(&Value::Null), value))
        }
        (Value::Array(have), Value::Array(want)) => {
            have.len() == want.len() && have.iter().zip(want).all(|(have, want)| covers(have, want))
        }
        (Value::Null, want) => is_empty(want),
        (have, want) => have == want,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        // Where a zero and nothing differ, the API server writes a default, and there is something.
        Value::Object(map) => map.values().all(is_empty),
        Value::Array(items) => items.is_empty(),
        Value::Bool(yes) => !yes,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn defaults_and_dropped_empties_are_the_same_object() {
        let want = json!({"template": {"labels": {"a": "b"}, "volumes": [{"name": "x", "emptyDir": {}}], "none": []}});
        let have = json!({"template": {"labels": {"a": "b"}, "volumes": [{"name": "x", "emptyDir": {}}]}, "grace": 30});
        assert!(covers(&have, &want));
    }

    #[test]
    fn a_zero_that_the_api_server_does_not_store_is_there() {
        assert!(covers(
            &json!({"ports": [1]}),
            &json!({"ports": [1], "publishNotReadyAddresses": false, "name": "", "n": 0})
        ));
        assert!(!covers(&json!({"ports": [1]}), &json!({"ports": [1], "publishNotReadyAddresses": true})));
    }

    #[test]
    fn a_changed_value_a_longer_list_and_a_missing_field_are_not() {
        let want = json!({"replicas": 2, "args": ["--a"], "selector": {"a": "b"}});
        for have in [
            json!({"replicas": 3, "args": ["--a"], "selector": {"a": "b"}}),
            json!({"replicas": 2, "args": ["--a", "--b"], "selector": {"a": "b"}}),
            json!({"replicas": 2, "args": ["--a"]}),
        ] {
            assert!(!covers(&have, &want), "{have}");
        }
    }
}
