//! Whether schemas have nothing in common. Of a `oneOf` whose parts are apart any one will do, which is all that a grammar
//! can say. `llguidance` does not look behind references, where libraries put the parts of a union.

use serde_json::{Map, Value};

use super::refs::Refs;

/// Comparisons of one schema at most; past that parts count as not apart.
const PATIENCE: u32 = 50_000;
/// Schemas inside of each other that are looked at.
const DEEPEST: u32 = 12;

/// What is left of the comparisons.
pub(super) struct Patience(u32);

impl Default for Patience {
    fn default() -> Self {
        Patience(PATIENCE)
    }
}

/// Whether no two of these schemas have anything in common.
pub(super) fn all(schemas: &Value, refs: &Refs<'_>, patience: &mut Patience) -> bool {
    let list = schemas.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut search = Search { refs, patience };
    let mut pairs = list.iter().enumerate().flat_map(|(i, one)| list[i + 1..].iter().map(move |two| (one, two)));
    pairs.all(|(one, two)| search.apart(one, two, DEEPEST))
}

struct Search<'s, 'a> {
    refs: &'s Refs<'a>,
    patience: &'s mut Patience,
}

impl<'a> Search<'_, 'a> {
    fn apart(&mut self, one: &'a Value, two: &'a Value, depth: u32) -> bool {
        let Some(left) = self.patience.0.checked_sub(1).filter(|_| depth > 0) else { return false };
        self.patience.0 = left;
        if one == &Value::Bool(false) || two == &Value::Bool(false) {
            return true;
        }
        let (ones, twos) = (self.conjuncts(one), self.conjuncts(two));
        ones.iter().any(|one| twos.iter().any(|two| self.each(one, two, depth - 1)))
    }

    /// What has to hold all together: a schema's own keywords, what it refers to, its `allOf`.
    fn conjuncts(&self, schema: &'a Value) -> Vec<&'a Map<String, Value>> {
        let (mut found, mut left) = (Vec::new(), vec![schema]);
        while let Some(members) = left.pop().filter(|_| found.len() < 32) {
            let Some(members) = members.as_object() else { continue };
            left.extend(members.get("$ref").and_then(Value::as_str).and_then(|name| self.refs.get(name)));
            left.extend(members.get("allOf").and_then(Value::as_array).into_iter().flatten());
            found.push(members);
        }
        found
    }

    fn each(&mut self, one: &'a Map<String, Value>, two: &'a Map<String, Value>, depth: u32) -> bool {
        let Some(left) = self.patience.0.checked_sub(1) else { return false };
        self.patience.0 = left;
        if kinds(one) & kinds(two) == 0 {
            return true;
        }
        if let (Some(ones), Some(twos)) = (values(one), values(two))
            && !ones.iter().any(|one| twos.iter().any(|two| same(one, two)))
        {
            return true;
        }
        self.choices(one, two, depth) || self.choices(two, one, depth) || self.objects(one, two, depth)
    }

    /// Whether each choice of one is apart from two.
    fn choices(&mut self, one: &'a Map<String, Value>, two: &'a Map<String, Value>, depth: u32) -> bool {
        ["anyOf", "oneOf"].into_iter().filter_map(|key| one.get(key)?.as_array()).any(|choices| {
            choices.iter().all(|choice| {
                let conjuncts = self.conjuncts(choice);
                choice == &Value::Bool(false) || depth > 0 && conjuncts.iter().any(|one| self.each(one, two, depth - 1))
            })
        })
    }

    /// Whether two objects differ in a member that one of them must have.
    fn objects(&mut self, one: &'a Map<String, Value>, two: &'a Map<String, Value>, depth: u32) -> bool {
        if (kinds(one) | kinds(two)) != OBJECT {
            return false;
        }
        let required = |schema: &'a Map<String, Value>| schema.get("required").and_then(Value::as_array);
        required(one)
            .into_iter()
            .chain(required(two))
            .flatten()
            .filter_map(Value::as_str)
            .any(|name| matches!((member(one, name), member(two, name)), (Some(a), Some(b)) if self.apart(a, b, depth)))
    }
}

const OBJECT: u8 = 32;

/// The types that a schema takes, a bit each.
fn kinds(schema: &Map<String, Value>) -> u8 {
    let bit = |name: &str| match name {
        "null" => 1,
        "boolean" => 2,
        "integer" | "number" => 4,
        "string" => 8,
        "array" => 16,
        "object" => OBJECT,
        _ => 0,
    };
    let of = |value: &Value| match value {
        Value::Null => 1,
        Value::Bool(_) => 2,
        Value::Number(_) => 4,
        Value::String(_) => 8,
        Value::Array(_) => 16,
        Value::Object(_) => OBJECT,
    };
    let named = match schema.get("type") {
        Some(Value::String(one)) => bit(one),
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).fold(0, |all, one| all | bit(one)),
        _ => 63,
    };
    named & values(schema).map_or(63, |values| values.into_iter().fold(0, |all, one| all | of(one)))
}

/// The values that a schema lists.
fn values(schema: &Map<String, Value>) -> Option<Vec<&Value>> {
    match (schema.get("const"), schema.get("enum")) {
        (Some(one), _) => Some(vec![one]),
        (None, Some(Value::Array(several))) => Some(several.iter().collect()),
        _ => None,
    }
}

/// Equal as JSON Schema has it: 1 is 1.0.
fn same(one: &Value, two: &Value) -> bool {
    match (one, two) {
        (Value::Number(one), Value::Number(two)) => one == two || one.as_f64() == two.as_f64(),
        (Value::Array(one), Value::Array(two)) => {
            one.len() == two.len() && one.iter().zip(two).all(|(one, two)| same(one, two))
        }
        (Value::Object(one), Value::Object(two)) => {
            one.len() == two.len() && one.iter().all(|(name, one)| two.get(name).is_some_and(|two| same(one, two)))
        }
        (one, two) => one == two,
    }
}

/// What a schema says of a member; none if patterns may say more.
fn member<'a>(schema: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    let listed = schema.get("properties").and_then(|properties| properties.get(name));
    if listed.is_some() || schema.contains_key("patternProperties") {
        return listed;
    }
    schema.get("additionalProperties")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unions_are_told_apart_by_type_by_value_and_by_a_member_behind_references() {
        let kind =
            |name: &str| json!({"type": "object", "properties": {"kind": {"const": name}}, "required": ["kind"]});
        let root = |parts: Value| {
            json!({"oneOf": parts, "$defs": {"cat": kind("cat"), "dog": kind("dog"),
            "pet": {"oneOf": [{"$ref": "#/$defs/cat"}, {"$ref": "#/$defs/dog"}]}, "self": {"$ref": "#/$defs/self"}}})
        };
        let apart = |parts: Value| {
            let root = root(parts);
            all(&root["oneOf"], &Refs::new(&root), &mut Patience::default())
        };
        let (cat, dog, pet) =
            (json!({"$ref": "#/$defs/cat"}), json!({"$ref": "#/$defs/dog"}), json!({"$ref": "#/$defs/pet"}));
        for parts in [
            json!([cat, dog]),
            json!([pet, kind("bird"), {"type": "null"}]),
            json!([{"type": "string"}, {"type": ["integer", "null"]}]),
            json!([{"enum": ["a", 1]}, {"enum": ["b", 2]}, {"const": true}]),
            json!([{"allOf": [cat, {"required": ["x"]}]}, dog]),
            json!([kind("x"), {"type": "object", "additionalProperties": false}]),
        ] {
            assert!(apart(parts.clone()), "{parts}");
        }
        for parts in [
            json!([cat, cat]),
            json!([pet, dog]),
            json!([{"type": "integer"}, {"type": "number"}]),
            json!([{"const": 1}, {"const": 1.0}]),
            json!([{"const": [1]}, {"const": [1.0]}]),
            json!([{"properties": {"kind": {"const": "a"}}, "required": ["kind"]}, cat]),
            json!([kind("x"), {"type": "object", "patternProperties": {"^k": {}}, "additionalProperties": false}]),
            json!([{"$ref": "#/$defs/self"}, cat]),
        ] {
            assert!(!apart(parts.clone()), "{parts}");
        }
        let many: Vec<Value> = (0..1000).map(|_| json!({"type": "object"})).collect();
        assert!(!apart(many.into()));
    }
}
