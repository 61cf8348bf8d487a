//! Keywords that restrict nothing where they stand, and those of names that others can stand for. Libraries write them as a
//! matter of course: `propertyNames: {"type": "string"}` for every map, `uniqueItems: false`.

use serde_json::{Map, Number, Value, json};

use super::refs::Refs;

/// Keywords with a count.
pub(super) const COUNTS: &[&str] =
    &["maxItems", "maxLength", "maxProperties", "minItems", "minLength", "minProperties"];
/// Formats of texts that are kept to.
pub(super) const FORMATS: &[&str] =
    &["date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uuid"];
/// Formats that any text has.
const ANY_TEXT: &[&str] = &["binary", "directory-path", "file-path", "password", "path", "unknown"];
/// Keywords that only tell.
const TELLING: &[&str] = &["$comment", "deprecated", "default", "description", "examples", "title"];

/// Whether this keyword of a schema restricts nothing.
pub(super) fn idle(schema: &Map<String, Value>, key: &str) -> bool {
    let Some(value) = schema.get(key) else { return true };
    let has = |key: &str| schema.contains_key(key);
    let empty = || value.as_object().is_some_and(Map::is_empty);
    match key {
        // The newest meaning of each keyword is kept to, whichever draft is named.
        "$schema" | "$dynamicAnchor" | "$recursiveAnchor" => true,
        "additionalItems" => !schema.get("items").is_some_and(Value::is_array),
        "contains" => schema.get("minContains") == Some(&json!(0)) && !has("maxContains"),
        "maxContains" => !has("contains"),
        "minContains" => !has("contains") || idle(schema, "contains"),
        "dependencies" | "dependentRequired" | "dependentSchemas" => empty(),
        "format" => {
            let text = match schema.get("type") {
                Some(Value::String(one)) => one == "string",
                Some(Value::Array(several)) => several.iter().any(|kind| kind == "string"),
                _ => true,
            };
            // Beside a pattern, a name of a library's own is the pattern's.
            let known = |name: &str| FORMATS.contains(&name);
            !text || value.as_str().is_some_and(|name| ANY_TEXT.contains(&name) || has("pattern") && !known(name))
        }
        "if" => !has("then") && !has("else"),
        "then" | "else" => !has("if"),
        "not" => value == &Value::Bool(false),
        "propertyNames" => any(value) || value.as_object().is_some_and(every_name),
        "unevaluatedProperties" => any(value) || alone(schema) && has("additionalProperties"),
        "unevaluatedItems" => any(value) || alone(schema) && schema.get("items").is_some_and(|items| !items.is_array()),
        "uniqueItems" => {
            let few = schema.get("maxItems").and_then(Value::as_u64).is_some_and(|most| most <= 1);
            value == &Value::Bool(false) || value == &Value::Bool(true) && few
        }
        _ => false,
    }
}

/// A count as a whole number.
pub(super) fn count(number: &Number) -> Option<u64> {
    number
        .as_u64()
        .or_else(|| number.as_f64().filter(|n| n.fract() == 0.0 && (0.0..9e15).contains(n)).map(|n| n as u64))
}

/// Whether a schema takes nothing: zod's `never`.
pub(super) fn nothing(schema: &Map<String, Value>) -> bool {
    schema.get("not").is_some_and(any)
}

/// Whether no other schema has a say in what of this one is left over, so that all of it is told by its own keywords.
pub(super) fn alone(schema: &Map<String, Value>) -> bool {
    let others = ["$ref", "allOf", "anyOf", "contains", "dependencies", "dependentSchemas", "if", "not", "oneOf"];
    !others.iter().any(|key| schema.contains_key(*key)) && !schema.get("items").is_some_and(Value::is_array)
}

/// A schema that takes anything.
fn any(schema: &Value) -> bool {
    schema == &Value::Bool(true) || schema.as_object().is_some_and(Map::is_empty)
}

/// Whether a schema takes every name.
fn every_name(schema: &Map<String, Value>) -> bool {
    schema.iter().all(|(key, value)| match key.as_str() {
        "type" => value == "string",
        "minLength" => value == &json!(0),
        key => TELLING.contains(&key),
    })
}

/// What `propertyNames` says, where other keywords can stand for it.
pub(super) enum Names<'a> {
    /// These and no others.
    Listed(Vec<&'a str>),
    /// Those that a pattern takes.
    Matching(&'a str),
}

/// What `propertyNames` says of a schema's names; none where nothing can stand for it.
pub(super) fn names<'a>(schema: &'a Map<String, Value>, refs: &Refs<'a>) -> Option<Names<'a>> {
    if schema.contains_key("patternProperties") || schema.contains_key("unevaluatedProperties") {
        return None;
    }
    let mut names = schema.get("propertyNames")?.as_object()?;
    // A library's reference to its own enum.
    if let Some(name) = names.get("$ref").and_then(Value::as_str).filter(|_| names.len() == 1) {
        names = refs.get(name)?.as_object()?;
    }
    let mut found = None;
    for (key, value) in names {
        let says = match (key.as_str(), value) {
            ("type", Value::String(kind)) if kind == "string" => continue,
            ("const", Value::String(one)) => Names::Listed(vec![one]),
            ("enum", Value::Array(list)) => Names::Listed(list.iter().filter_map(Value::as_str).collect()),
            ("pattern", Value::String(pattern)) if !schema.contains_key("properties") => Names::Matching(pattern),
            (key, _) if TELLING.contains(&key) => continue,
            _ => return None,
        };
        if found.replace(says).is_some() {
            return None;
        }
    }
    found
}

impl Names<'_> {
    /// Says it with `properties` or `patternProperties`.
    pub(super) fn keep(&self, schema: &mut Map<String, Value>) {
        schema.shift_remove("propertyNames");
        let others = schema.insert("additionalProperties".into(), Value::Bool(false)).unwrap_or(Value::Bool(true));
        match self {
            Names::Listed(names) => {
                let own = schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
                let member = |name: &&str| (name.to_string(), own.get(*name).unwrap_or(&others).clone());
                schema.insert("properties".into(), names.iter().map(member).collect());
            }
            Names::Matching(pattern) => {
                schema.insert("patternProperties".into(), json!({*pattern: others}));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_restricts_nothing_is_told_from_what_does() {
        let says = |schema: Value, key: &str| idle(schema.as_object().unwrap(), key);
        for (schema, key) in [
            (json!({"uniqueItems": false}), "uniqueItems"),
            (json!({"uniqueItems": true, "maxItems": 1}), "uniqueItems"),
            (json!({"propertyNames": {"type": "string", "title": "Key"}}), "propertyNames"),
            (json!({"if": {"type": "null"}}), "if"),
            (json!({"then": {}}), "then"),
            (json!({"minContains": 2}), "minContains"),
            (json!({"not": false}), "not"),
            (json!({"unevaluatedProperties": true}), "unevaluatedProperties"),
            (json!({"additionalProperties": {}, "unevaluatedProperties": false}), "unevaluatedProperties"),
            (json!({"type": "integer", "format": "int32"}), "format"),
            (json!({"type": "string", "format": "password"}), "format"),
            (json!({"type": "string", "format": "starts_with", "pattern": "^a"}), "format"),
            (json!({"dependentRequired": {}}), "dependentRequired"),
            (json!({"prefixItems": [], "additionalItems": false}), "additionalItems"),
        ] {
            assert!(says(schema.clone(), key), "{schema}");
        }
        for (schema, key) in [
            (json!({"uniqueItems": true}), "uniqueItems"),
            (json!({"propertyNames": {"type": "string", "maxLength": 3}}), "propertyNames"),
            (json!({"if": {}, "else": false}), "if"),
            (json!({"contains": {}, "minContains": 1}), "minContains"),
            (json!({"not": {}}), "not"),
            (json!({"allOf": [], "additionalProperties": {}, "unevaluatedProperties": false}), "unevaluatedProperties"),
            (json!({"format": "colour"}), "format"),
            (json!({"format": "email", "pattern": "^a"}), "format"),
            (json!({"type": ["null", "string"], "format": "email"}), "format"),
            (json!({"items": [], "additionalItems": false}), "additionalItems"),
        ] {
            assert!(!says(schema.clone(), key), "{schema}");
        }
    }
}
