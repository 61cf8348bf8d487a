//! What an answer is held to, for the words that schemas come in: each is kept to, and none is passed over.

use serde_json::json;

use super::testing::{grammars, keeps};

#[test]
fn references_by_escaped_pointers_and_by_anchors_are_followed() {
    let grammars = grammars();
    let node = |next: &str| {
        json!({"type": "object", "required": ["v", "next"], "additionalProperties": false,
            "properties": {"v": {"type": "integer"}, "next": {"anyOf": [{"type": "null"}, {"$ref": next}]}}})
    };
    let list = "{\"v\": 1, \"next\": {\"v\": 2, \"next\": null}}";
    for (reference, name) in [
        ("#/$defs/a~1b", "a/b"),
        ("#/$defs/a~0b", "a~b"),
        ("#/$defs/a~01b", "a~1b"),
        ("#/$defs/a%20b", "a b"),
        ("#/$defs/%C3%BC", "ü"),
        ("#/%24defs/x%25y", "x%y"),
        ("#/$defs/terrace0", "terrace0"),
        ("#/$defs/", ""),
    ] {
        let schema = json!({"$ref": reference, "$defs": {name: node(reference)}});
        keeps(&grammars, &schema, &[list], &["{\"v\": 1, \"next\": {}}", "{\"v\": 1, \"next\": 3}", "1"]);
    }
    for (schema, name) in [
        (json!({"$ref": "#node", "$defs": {"n": {"$anchor": "node"}}}), "#node"),
        (json!({"$ref": "#node", "definitions": {"n": {"$id": "#node"}}}), "#node"),
        (json!({"$id": "urn:x", "$ref": "urn:x#node", "$defs": {"n": {"$anchor": "node"}}}), "#node"),
    ] {
        let mut schema = schema;
        let defs = if schema.get("$defs").is_some() { "$defs" } else { "definitions" };
        schema[defs]["n"].as_object_mut().unwrap().extend(node(name).as_object().unwrap().clone());
        keeps(&grammars, &schema, &[list], &["{\"v\": 1, \"next\": {}}"]);
    }
    // Into properties, through what is moved, and to places that are no keywords.
    let within = json!({"type": "object", "required": ["a/b", "c", "d"], "additionalProperties": false, "properties": {
        "a/b": {"type": "object", "required": ["x/y"], "properties": {"x/y": {"const": 7}}, "additionalProperties": false},
        "c": {"$ref": "#/properties/a~1b/properties/x~1y"}, "d": {"$ref": "#/components/schemas/d"}},
        "components": {"schemas": {"d": {"enum": ["u", {"$ref": "#/none"}]}}}});
    let fits = |c: u8| format!("{{\"a/b\": {{\"x/y\": 7}}, \"c\": {c}, \"d\": \"u\"}}");
    keeps(&grammars, &within, &[&fits(7)], &[&fits(8)]);
}

#[test]
fn what_libraries_write_is_kept_to() {
    let grammars = grammars();
    let pet = |kind: &str, more: &str| {
        json!({"type": "object", "properties": {"kind": {"const": kind, "type": "string"}, more: {"type": "integer"}},
            "required": ["kind", more], "additionalProperties": false})
    };
    let union = json!({"discriminator": {"propertyName": "kind", "mapping": {"cat": "#/$defs/Cat", "dog": "#/$defs/Dog"}},
        "oneOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}], "$defs": {"Cat": pet("cat", "lives"), "Dog": pet("dog", "age")}});
    keeps(
        &grammars,
        &union,
        &["{\"kind\": \"cat\", \"lives\": 9}", "{\"kind\": \"dog\", \"age\": 1}"],
        &["{\"kind\": \"cat\", \"age\": 1}", "{\"kind\": \"bird\", \"age\": 1}"],
    );
    let counts = json!({"type": "integer"});
    for (schema, yes, no) in [
        // zod's record, pydantic's dict of an enum, of a pattern.
        (
            json!({"type": "object", "propertyNames": {"type": "string"}, "additionalProperties": counts}),
            "{\"a\": 1}",
            "{\"a\": \"x\"}",
        ),
        (
            json!({"type": "object", "propertyNames": {"$ref": "#/$defs/C"}, "additionalProperties": counts,
            "$defs": {"C": {"enum": ["red", "blue"], "type": "string", "title": "C"}}}),
            "{\"blue\": 1}",
            "{\"green\": 1}",
        ),
        (
            json!({"type": "object", "propertyNames": {"pattern": "^[a-c]$"}, "additionalProperties": counts}),
            "{\"c\": 1, \"a\": 2}",
            "{\"d\": 1}",
        ),
        (
            json!({"type": "object", "propertyNames": {"const": "a"}, "properties": {"a": counts, "b": counts}}),
            "{\"a\": 1}",
            "{\"b\": 1}",
        ),
        (
            json!({"type": "object", "properties": {"a": counts}, "unevaluatedProperties": false}),
            "{\"a\": 1}",
            "{\"b\": 1}",
        ),
        (json!({"type": "array", "prefixItems": [counts], "unevaluatedItems": false}), "[1]", "[1, 2]"),
        // What an older draft would pass over is kept to; counts may be written as 2.0.
        (
            json!({"$schema": "http://json-schema.org/draft-07/schema#", "prefixItems": [{"const": 1}], "type": "array"}),
            "[1]",
            "[2]",
        ),
        (json!({"type": "array", "items": counts, "minItems": 2.0, "maxItems": 2.0}), "[1, 2]", "[1]"),
        (json!({"type": "array", "items": [counts], "additionalItems": false}), "[1]", "[1, 2]"),
        (json!({"type": "array", "prefixItems": [counts], "items": false, "additionalItems": true}), "[1]", "[1, 2]"),
        (json!({"type": "integer", "format": "int64", "exclusiveMinimum": true, "minimum": 3}), "4", "3"),
        (
            json!({"type": ["string", "null"], "format": "date", "uniqueItems": false, "nullable": true, "deprecated": true}),
            "\"2024-02-03\"",
            "\"2024-13-03\"",
        ),
        (json!({"type": "string", "pattern": "^a\\/b$"}), "\"a/b\"", "\"ab\""),
        (
            json!({"type": "object", "properties": {"a": counts, "b": {"not": {}}}, "additionalProperties": false}),
            "{\"a\": 1}",
            "{\"b\": 1}",
        ),
        (json!({"type": "string", "format": "starts_with", "pattern": "^a\\.b.*"}), "\"a.bc\"", "\"ab\""),
        (json!({"type": "string", "pattern": r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$"}), "\"-.5\"", "\"-.\""),
        (
            json!({"type": "string", "format": "duration", "pattern":
            r"^P(?:(\d+W)|(?!.*W)(?=\d|T\d)(\d+Y)?(\d+M)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+([.,]\d+)?S)?)?)$"}),
            "\"P1DT2H\"",
            "\"P\"",
        ),
        (
            json!({"type": "string", "pattern":
            r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$"}),
            "\"a.b@c.de\"",
            "\"a..b@c.de\"",
        ),
        (
            json!({"type": "string", "format": "hostname", "pattern": concat!(
            r"^(?=.{1,253}\.?$)[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?",
            r"(?:\.[a-zA-Z0-9](?:[-0-9a-zA-Z]{0,61}[0-9a-zA-Z])?)*\.?$")}),
            "\"a-1.example.org\"",
            "\"-a\"",
        ),
        (json!({"enum": [1, "1", null, true, {"a": [1.5]}]}), "{\"a\": [1.5]}", "2"),
        (
            json!({"type": "object", "maxProperties": 1, "properties": {"a": counts, "b": counts}, "additionalProperties": false}),
            "{\"b\": 1}",
            "{\"a\": 1, \"b\": 1}",
        ),
    ] {
        keeps(&grammars, &schema, &[yes], &[no]);
    }
}

/// The sixtieth second is one of a few days' ends, and not of any minute; other rules of the same text hold beside it.
#[test]
fn no_time_has_a_sixtieth_second() {
    let grammars = grammars();
    let time = json!({"type": "string", "format": "time"});
    keeps(&grammars, &time, &["\"23:59:59Z\"", "\"10:20:30.5+02:00\""], &["\"11:22:60Z\"", "\"23:59:60Z\""]);
    let moment = json!({"type": "string", "format": "date-time"});
    keeps(&grammars, &moment, &["\"2026-11-30T23:25:59Z\""], &["\"2026-11-30T23:25:60Z\""]);
    let morning = json!({"type": "string", "format": "time", "pattern": "^0", "allOf": [{"pattern": "Z$"}]});
    keeps(&grammars, &morning, &["\"09:00:00Z\""], &["\"19:00:00Z\"", "\"09:00:60Z\"", "\"09:00:00+01:00\""]);
}
