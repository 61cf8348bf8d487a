//! How much the schemas of one request may say. Compiling them takes longer the larger they are, of optional properties even
//! their square, and it is done before the engine has a say in who is served: on a small device, at everybody's cost.

use std::fmt;

use serde_json::{Map, Value};

/// Properties and patterns of properties.
const MOST_PROPERTIES: usize = 2000;
/// Optional properties of one object, each of which may follow any before it.
const MOST_OPTIONAL: usize = 400;
/// Values of `enum`s.
const MOST_VALUES: usize = 5000;
/// Bytes of what an answer may repeat: names of properties, values, patterns.
const MOST_TEXT: usize = 120_000;

/// What some schemas come to together. Words that only a person or the model reads (`description`) do not count.
#[derive(Debug, Clone, Copy, Default)]
pub struct Size {
    properties: usize,
    optional: usize,
    values: usize,
    text: usize,
}

/// Which limit a schema is past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLarge {
    what: &'static str,
    limit: usize,
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a request's schemas may have {} {} at most: make them smaller", self.limit, self.what)
    }
}

impl Size {
    /// These and one more schema; what they were if that is too much.
    ///
    /// # Errors
    /// The limit.
    pub fn add(&mut self, schema: &Value) -> Result<(), TooLarge> {
        let mut sum = *self;
        sum.count(schema);
        for (count, limit, what) in [
            (sum.properties, MOST_PROPERTIES, "properties"),
            (sum.optional, MOST_OPTIONAL, "optional properties in one object"),
            (sum.values, MOST_VALUES, "values in enums"),
            (sum.text, MOST_TEXT, "bytes of names, values and patterns"),
        ] {
            if count > limit {
                return Err(TooLarge { what, limit });
            }
        }
        *self = sum;
        Ok(())
    }

    fn count(&mut self, root: &Value) {
        let mut left = vec![root];
        while let Some(value) = left.pop() {
            match value {
                Value::Array(list) => left.extend(list),
                Value::Object(members) => {
                    self.members(members);
                    left.extend(members.values());
                }
                _ => {}
            }
        }
    }

    fn members(&mut self, schema: &Map<String, Value>) {
        for key in ["properties", "patternProperties"] {
            let Some(members) = schema.get(key).and_then(Value::as_object) else { continue };
            self.properties += members.len();
            self.text += members.keys().map(String::len).sum::<usize>();
            if key == "properties" {
                let required = schema.get("required").and_then(Value::as_array).map_or(0, Vec::len);
                self.optional = self.optional.max(members.len().saturating_sub(required));
            }
        }
        for key in ["required", "enum"] {
            let Some(list) = schema.get(key).and_then(Value::as_array) else { continue };
            self.values += if key == "enum" { list.len() } else { 0 };
            self.text += list.iter().map(bytes).sum::<usize>();
        }
        self.text += ["const", "pattern"].iter().filter_map(|key| schema.get(*key)).map(bytes).sum::<usize>();
    }
}

/// Bytes of a value's text, roughly.
fn bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(list) => list.iter().map(bytes).sum(),
        Value::Object(members) => members.iter().map(|(name, value)| name.len() + bytes(value)).sum(),
        _ => 8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(count: usize) -> Value {
        let properties =
            (0..count).map(|i| (format!("p{i}"), json!({"type": "string", "description": "x".repeat(500)})));
        json!({"type": "object", "properties": properties.collect::<Map<_, _>>()})
    }

    #[test]
    fn what_is_too_large_is_told_its_limit_and_what_a_request_needs_is_not() {
        let limit = |schema: Value| Size::default().add(&schema).unwrap_err().to_string();
        assert!(limit(object(MOST_OPTIONAL + 1)).contains("400 optional properties"));
        assert!(limit(json!({"enum": (0..100_000).collect::<Vec<_>>()})).contains("5000 values"));
        assert!(limit(json!({"const": "x".repeat(MOST_TEXT + 1)})).contains("120000 bytes"));
        assert!(limit(json!({"items": {"enum": ["x".repeat(MOST_TEXT + 1)]}})).contains("120000 bytes"));
        // Together: forty tools of forty arguments, not eighty.
        let mut all = Size::default();
        for _ in 0..40 {
            all.add(&object(40)).unwrap();
        }
        let refused = (0..40).find_map(|_| all.add(&object(40)).err()).unwrap();
        assert!(refused.to_string().contains("2000 properties"), "{refused}");
        // What did not fit is not counted.
        all.add(&json!({"type": "object"})).unwrap();
    }
}
