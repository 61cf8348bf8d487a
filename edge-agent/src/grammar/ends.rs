//! Whether what a schema describes can ever be complete. A part that needs itself inside of itself goes on for ever: an
//! answer that has begun with one could only be cut off. `llguidance` takes such schemas.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::parts::objects;
use super::refs::Refs;

/// Looks at schemas, at most.
const PATIENCE: u32 = 200_000;

/// Whether an answer can be completed from every part that it may come to.
pub(super) fn always(root: &Value) -> bool {
    let refs = Refs::new(root);
    let parts = objects(&refs);
    let mut search = Search { refs: &refs, known: HashMap::new(), left: PATIENCE };
    loop {
        let before = search.known.len();
        if parts.iter().filter(|part| !search.ends(part)).count() == 0 {
            return true;
        }
        // Some may have counted as endless only because they were being looked at: once more with what is sure.
        search.known.retain(|_, ends| *ends);
        if search.known.len() == before {
            return false;
        }
    }
}

struct Search<'s, 'a> {
    refs: &'s Refs<'a>,
    /// Whether a schema ends, by where it stands; not, as long as that is being found out.
    known: HashMap<*const Map<String, Value>, bool>,
    left: u32,
}

impl<'a> Search<'_, 'a> {
    /// Whether something of this schema can be complete, going by types, counts and references alone.
    fn ends(&mut self, schema: &'a Map<String, Value>) -> bool {
        let key = std::ptr::from_ref(schema);
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        self.known.insert(key, false);
        self.left = self.left.saturating_sub(1);
        let ends = self.left > 0 && self.look(schema);
        self.known.insert(key, ends);
        ends
    }

    fn look(&mut self, schema: &'a Map<String, Value>) -> bool {
        let list = |key: &str| schema.get(key).and_then(Value::as_array);
        let all = list("allOf").is_none_or(|all| all.iter().all(|part| self.of(part)));
        let any =
            |search: &mut Self, key| list(key).is_none_or(|any| any.is_empty() || any.iter().any(|p| search.of(p)));
        all && any(self, "anyOf") && any(self, "oneOf") && self.referred(schema) && self.by_type(schema)
    }

    fn of(&mut self, schema: &'a Value) -> bool {
        // `false` takes nothing, which is noticed elsewhere; it does not go on for ever.
        schema.as_object().is_none_or(|schema| self.ends(schema))
    }

    fn referred(&mut self, schema: &'a Map<String, Value>) -> bool {
        let name = schema.get("$ref").and_then(Value::as_str);
        name.and_then(|name| self.refs.get(name)).is_none_or(|schema| self.of(schema))
    }

    /// Whether it may be of a type of which something ends.
    fn by_type(&mut self, schema: &'a Map<String, Value>) -> bool {
        let types: Vec<&str> = match schema.get("type") {
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
            _ => return true,
        };
        let listed = schema.contains_key("enum") || schema.contains_key("const") || types.is_empty();
        listed
            || types.into_iter().any(|name| match name {
                "object" => self.object(schema),
                "array" => self.array(schema),
                _ => true,
            })
    }

    /// Whether an object with no more members than it needs ends.
    fn object(&mut self, schema: &'a Map<String, Value>) -> bool {
        let members = |key: &str| schema.get(key).and_then(Value::as_object);
        let (named, matched) = (members("properties"), members("patternProperties"));
        let others = schema.get("additionalProperties");
        let required = schema.get("required").and_then(Value::as_array);
        let needed = required.into_iter().flatten().filter_map(Value::as_str).all(|name| {
            match (named.and_then(|named| named.get(name)), matched) {
                (Some(member), _) => self.of(member),
                // It may be of one of the patterns.
                (None, Some(_)) => true,
                (None, None) => others.is_none_or(|others| self.of(others)),
            }
        });
        let least = schema.get("minProperties").and_then(Value::as_u64).unwrap_or(0);
        let count = required.map_or(0, Vec::len) as u64;
        let mut any = named.into_iter().chain(matched).flat_map(Map::values);
        let more = least <= count || any.any(|member| self.of(member)) || others.is_none_or(|others| self.of(others));
        needed && more
    }

    /// Whether a list of no more elements than it needs ends.
    fn array(&mut self, schema: &'a Map<String, Value>) -> bool {
        let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0);
        // Before 2020, `items` was the list and `additionalItems` the rest.
        let (first, rest) = match (schema.get("prefixItems"), schema.get("items")) {
            (None, Some(Value::Array(list))) => (Some(list), schema.get("additionalItems")),
            (prefix, rest) => (prefix.and_then(Value::as_array), rest),
        };
        let first = first.map(Vec::as_slice).unwrap_or_default();
        let needed = first.iter().take(least as usize).all(|element| self.of(element));
        needed && (least <= first.len() as u64 || rest.is_none_or(|rest| self.of(rest)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_needs_itself_never_ends_and_what_may_hold_itself_does() {
        let tree = json!({"type": "object", "required": ["children"], "additionalProperties": false,
            "properties": {"children": {"type": "array", "items": {"$ref": "#"}}}});
        let next = |schema: Value| json!({"type": "object", "required": ["next"], "properties": {"next": schema}});
        let both = |schema: Value| json!({"$ref": "#/$defs/a", "$defs": {"a": next(json!({"$ref": "#/$defs/b"})), "b": schema}});
        for schema in [
            json!(true),
            json!({"type": "object", "properties": {"next": {"$ref": "#"}}}),
            next(json!({"anyOf": [{"$ref": "#"}, {"type": "null"}]})),
            next(json!({"type": ["null", "object"], "required": ["x"], "properties": {"x": {"type": "null"}}})),
            json!({"required": ["next"], "properties": {"next": {"$ref": "#"}}}),
            both(json!({"oneOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]})),
            json!({"type": "object", "additionalProperties": {"$ref": "#"}}),
            json!({"type": "string", "$defs": {"unused": {"$ref": "#/$defs/unused"}}}),
            tree,
        ] {
            assert!(always(&schema), "{schema}");
        }
        for schema in [
            json!({"$ref": "#"}),
            next(json!({"$ref": "#"})),
            both(json!({"allOf": [{"$ref": "#/$defs/a"}]})),
            json!({"type": "array", "items": {"$ref": "#"}, "minItems": 1}),
            json!({"type": "array", "prefixItems": [{"type": "null"}, {"$ref": "#"}], "minItems": 2}),
            json!({"type": "object", "additionalProperties": {"$ref": "#"}, "minProperties": 1}),
            json!({"type": "object", "required": ["x"], "additionalProperties": {"$ref": "#"}}),
            // It could be left out; but an answer that has begun with it would never come back.
            json!({"anyOf": [{"type": "null"}, {"$ref": "#/$defs/x"}], "$defs": {"x": next(json!({"$ref": "#/$defs/x"}))}}),
        ] {
            assert!(!always(&schema), "{schema}");
        }
    }
}
