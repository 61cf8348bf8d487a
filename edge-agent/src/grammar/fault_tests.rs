//! Each refusal names the very keyword or value, and says what to do.

use serde_json::{Value, json};

use super::Step::{Index, Key, Nth};
use super::testing::grammars;
use super::{Fault, Grammars, Step};

/// A member beside which the fault stands.
fn property(schema: Value) -> Value {
    json!({"type": "object", "properties": {"a": {"type": "string"}, "b": schema}, "required": ["b"]})
}

fn fault(grammars: &Grammars, schema: &Value) -> Fault {
    let fault = grammars.fault(schema).unwrap().unwrap_or_else(|| panic!("nothing is wrong with {schema}"));
    assert!(grammars.compile(&super::Grammar::schema(schema.clone())).is_err(), "{schema}");
    // What to do follows what is wrong.
    assert!(!fault.what.contains("secret"), "{}", fault.what);
    fault
}

#[test]
fn a_refusal_names_the_keyword_and_not_what_it_stands_in() {
    let grammars = grammars();
    for (schema, steps, word, unsupported) in [
        (json!({"type": "string", "pattern": "(?=secret)y"}), &[Key("pattern")][..], "look ahead", true),
        (json!({"type": "string", "pattern": r"\bsecret"}), &[Key("pattern")], r"\b", true),
        (json!({"type": "string", "pattern": r"(s)\1"}), &[Key("pattern")], "refer back", true),
        (json!({"type": "string", "pattern": "(secret"}), &[Key("pattern")], "cannot be followed", true),
        (json!({"patternProperties": {"^x": {}, "(?!secret)": {}}}), &[Key("patternProperties"), Nth(1)], "look", true),
        (json!({"patternProperties": {"^x": {}, "x$": {}}}), &[Key("patternProperties")], "same names", true),
        (json!({"type": "string", "format": "secret"}), &[Key("format")], "date-time", true),
        (json!({"not": {"type": "string"}}), &[Key("not")], "what is allowed", true),
        (json!({"if": {}, "then": {"required": ["secret"]}}), &[Key("if")], "anyOf", true),
        (json!({"type": "array", "uniqueItems": true}), &[Key("uniqueItems")], "leave it out", true),
        (json!({"type": "array", "contains": {"const": 1}}), &[Key("contains")], "prefixItems", true),
        (json!({"type": "object", "propertyNames": {"maxLength": 3}}), &[Key("propertyNames")], "enum", true),
        (json!({"dependentRequired": {"secret": ["x"]}}), &[Key("dependentRequired")], "anyOf", true),
        (json!({"dependentSchemas": {"secret": {}}}), &[Key("dependentSchemas")], "anyOf", true),
        (json!({"dependencies": {"secret": ["x"]}}), &[Key("dependencies")], "anyOf", true),
        (json!({"allOf": [{}], "unevaluatedProperties": false}), &[Key("unevaluatedProperties")], "additional", true),
        (json!({"anyOf": [{}], "unevaluatedItems": false}), &[Key("unevaluatedItems")], "items", true),
        (json!({"$dynamicRef": "#secret"}), &[Key("$dynamicRef")], "$ref", true),
        (json!({"$ref": "https://example.com/secret"}), &[Key("$ref")], "$defs", true),
        (json!({"$ref": "#/$defs/secret"}), &[Key("$ref")], "spelling", false),
        (json!({"$ref": "#secret"}), &[Key("$ref")], "spelling", false),
        (json!({"$id": "https://example.com/secret"}), &[Key("$id")], "$defs", true),
        (json!({"oneOf": [{"type": "string"}, {"maxLength": 3}]}), &[Key("oneOf")], "anyOf", true),
        (json!({"type": "secret"}), &[Key("type")], "integer", false),
        (json!({"type": ["null", "secret"]}), &[Key("type"), Index(1)], "integer", false),
        (json!({"type": []}), &[Key("type")], "integer", false),
        (json!({"enum": []}), &[Key("enum")], "one value", false),
        (json!({"enum": ["secret", [9_007_199_254_740_993_u64]]}), &[Key("enum"), Index(1)], "a text", true),
        (json!({"const": 9_007_199_254_740_993_u64}), &[Key("const")], "a text", true),
        (json!({"type": "integer", "minimum": -9_007_199_254_740_993_i64}), &[Key("minimum")], "a text", true),
        (json!({"type": "integer", "minimum": "secret"}), &[Key("minimum")], "a number", false),
        (json!({"type": "integer", "multipleOf": 0}), &[Key("multipleOf")], "above 0", false),
        (json!({"type": "string", "maxLength": "secret"}), &[Key("maxLength")], "whole number", false),
        (json!({"type": "array", "minItems": -1}), &[Key("minItems")], "whole number", false),
        (json!({"type": "array", "minItems": 1.5}), &[Key("minItems")], "whole number", false),
        (json!({"required": true}), &[Key("required")], "list", false),
        (json!({"required": ["secret", 1]}), &[Key("required"), Index(1)], "name", false),
        (json!({"properties": ["secret"]}), &[Key("properties")], "object", false),
        (json!({"properties": {"secret": 3}}), &[Key("properties"), Nth(0)], "a schema", false),
        (json!({"items": "secret"}), &[Key("items")], "a schema", false),
        (json!({"anyOf": []}), &[Key("anyOf")], "one schema", false),
        (json!({"anyOf": {"secret": 1}}), &[Key("anyOf")], "one schema", false),
        (
            json!({"anyOf": [{"type": "null"}, {"not": {"const": 1}}]}),
            &[Key("anyOf"), Index(1), Key("not")],
            "allowed",
            true,
        ),
        (
            json!({"items": {"properties": {"secret": {"uniqueItems": true}}}}),
            &[Key("items"), Key("properties"), Nth(0), Key("uniqueItems")],
            "leave it out",
            true,
        ),
        (json!({"type": "integer", "minimum": 5, "maximum": 3}), &[Key("minimum")], "nothing fits", false),
        (json!({"type": "string", "const": 1}), &[Key("const")], "nothing fits", false),
        (
            json!({"type": "object", "properties": {"s": {}, "t": {}}, "minProperties": 1}),
            &[Key("minProperties")],
            "required",
            true,
        ),
        (
            json!({"type": "object", "properties": {"s": {}, "t": {}, "u": {}}, "maxProperties": 2}),
            &[Key("maxProperties")],
            "required",
            true,
        ),
        (
            json!({"type": "object", "patternProperties": {"^a": {}}, "minProperties": 2}),
            &[Key("minProperties")],
            "counted",
            true,
        ),
    ] {
        let found = fault(&grammars, &property(schema.clone()));
        let place: Vec<Step> = [&[Key("properties"), Nth(1)], steps].concat();
        assert_eq!((found.place, found.unsupported), (place, unsupported), "{schema}: {}", found.what);
        assert!(found.what.contains(word), "{schema}: {}", found.what);
    }
}

#[test]
fn a_fault_behind_a_reference_is_named_where_it_stands() {
    let grammars = grammars();
    let behind =
        json!({"$ref": "#/$defs/x", "$defs": {"fine": {"not": {"const": 1}}, "x": {"items": {"uniqueItems": true}}}});
    let place = vec![Key("$defs"), Nth(1), Key("items"), Key("uniqueItems")];
    assert_eq!(fault(&grammars, &behind).place, place, "what nothing refers to is not looked at");
    let elsewhere = json!({"$ref": "#/components/schemas/x", "components": {"schemas": {"x": {"format": "secret"}}}});
    assert_eq!(fault(&grammars, &elsewhere).place, vec![Nth(1), Nth(0), Nth(0), Key("format")]);
    let defs = json!({"$defs": ["secret"], "type": "null"});
    assert_eq!(fault(&grammars, &defs).place, vec![Key("$defs")]);
}

#[test]
fn what_never_ends_is_refused_at_its_reference_and_what_may_end_is_not() {
    let grammars = grammars();
    let endless = json!({"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#"}}});
    let escaped = json!({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"$ref": "#/$defs/a~1b"}}});
    let anchored = json!({"$ref": "#x", "$defs": {"x": {"$anchor": "x", "type": "array", "minItems": 1, "items": {"$ref": "#x"}}}});
    for (schema, place) in [
        (json!({"$ref": "#"}), vec![Key("$ref")]),
        (endless, vec![Key("properties"), Nth(0), Key("$ref")]),
        (escaped, vec![Key("$defs"), Nth(0), Key("$ref")]),
        (anchored, vec![Key("$defs"), Nth(0), Key("items"), Key("$ref")]),
    ] {
        let found = fault(&grammars, &schema);
        assert_eq!(found.place, place, "{schema}");
        assert!(found.what.contains("never ends"), "{schema}: {}", found.what);
    }
    let next = json!({"type": "object", "required": ["v"], "properties": {"v": {"type": "integer"},
        "next": {"type": "object", "$ref": "#"}}});
    let found = fault(&grammars, &next);
    assert_eq!(found.place, vec![Key("properties"), Nth(1), Key("$ref")], "{}", found.what);
    assert!(found.what.contains("beside the reference"), "{}", found.what);
}
