"""Holds an agent to schemas as they are met: schemas.py BASE_URL MODEL. From OpenAI's guides, pydantic, zod, OpenAPI documents and by hand;
an answer that ends with `stop` must be valid by Python's jsonschema, and nearly all must end so."""

import concurrent.futures
import json
import sys

import jsonschema
import openai

base_url, model = sys.argv[1:]
client = openai.OpenAI(base_url=base_url, api_key="unused", max_retries=0)
WORD, AGE = {"type": "string", "maxLength": 12}, {"type": "integer", "minimum": 0, "maximum": 120}


def closed(properties, **more):
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False, **more}


def kind(name, **more):
    return closed({"kind": {"type": "string", "const": name}, **more}, title=name.title())


def ref(name):
    return {"$ref": "#/$defs/" + name}


def maybe(schema):
    return {"anyOf": [schema, {"type": "null"}], "default": None, "title": "Maybe"}


SCHEMAS = {
    # OpenAI's guide to structured outputs.
    "calendar event": closed({"name": WORD, "date": WORD, "participants": {"type": "array", "items": WORD, "maxItems": 3}}),
    "math steps": closed({"steps": {"type": "array", "maxItems": 2, "items": closed({"explanation": WORD, "output": WORD})}, "final_answer": WORD}),
    "moderation": closed({"is_violating": {"type": "boolean"}, "category": {"anyOf": [{"type": "string", "enum": ["violence", "self_harm"]}, {"type": "null"}]},
                          "explanation_if_violating": {"anyOf": [WORD, {"type": "null"}]}}),
    "ui tree": {"$ref": "#/$defs/node", "$defs": {"node": closed({
        "type": {"type": "string", "enum": ["div", "button"]}, "label": WORD,
        "children": {"type": "array", "items": {"$ref": "#/$defs/node"}, "maxItems": 1}})}},
    "linked list": closed({"list": ref("node")}, **{"$defs": {"node": closed({"value": AGE, "next": {"anyOf": [ref("node"), {"type": "null"}]}})}}),
    "root recursion": closed({"name": {"enum": ["a", "b"]}, "parent": {"anyOf": [{"type": "null"}, {"$ref": "#"}]}}),
    "union at a member": closed({"item": {"anyOf": [closed({"name": WORD, "age": AGE}), closed({"number": WORD, "street": WORD, "city": WORD})]}}),
    "nullable by type": closed({"unit": {"type": ["string", "null"], "enum": ["F", "C", None]}, "location": {"type": ["string", "null"], "maxLength": 8}}),
    # pydantic.
    "optional": {"properties": {"name": {**WORD, "title": "Name"}, "age": maybe(AGE), "email": maybe({"type": "string", "format": "email", "maxLength": 20})},
                 "required": ["name"], "title": "User", "type": "object", "additionalProperties": False},
    "discriminated union": closed({"pet": {"discriminator": {"mapping": {"cat": "#/$defs/Cat", "dog": "#/$defs/Dog"}, "propertyName": "kind"},
                                           "oneOf": [ref("Cat"), ref("Dog")], "title": "Pet"}},
                                  **{"$defs": {"Cat": kind("cat", lives=AGE), "Dog": kind("dog", good={"type": "boolean"})}}),
    "enum in $defs": closed({"color": {**ref("Color"), "description": "A colour"}}, **{"$defs": {"Color": {"enum": ["red", "green"], "title": "Color", "type": "string"}}}),
    "allOf of one": closed({"home": {"allOf": [ref("Home")], "default": {"city": "x"}, "title": "Home"}}, **{"$defs": {"Home": closed({"city": WORD})}}),
    "tuple": closed({"point": {"type": "array", "minItems": 2, "maxItems": 2, "prefixItems": [{"type": "integer", "minimum": -9, "maximum": 9}, WORD]}}),
    "dict of enum": {"type": "object", "additionalProperties": AGE, "propertyNames": ref("Color"), "$defs": {"Color": {"enum": ["red", "blue"], "type": "string"}}},
    "dict of pattern": {"type": "object", "patternProperties": {"^[a-z]{1,4}$": AGE}, "additionalProperties": False, "maxProperties": 3},
    "literal": closed({"mode": {"const": "fast", "title": "Mode", "type": "string"}, "level": {"enum": [1, 2, 3], "type": "integer"}}),
    "constrained numbers": closed({"ratio": {"exclusiveMinimum": 0, "maximum": 1, "type": "number", "multipleOf": 0.25}, "even": {"type": "integer", "multipleOf": 2, "minimum": 0, "maximum": 98}}),
    "dates": closed({"at": {"format": "date-time", "type": "string", "maxLength": 20}, "day": {"format": "date", "type": "string"}}),
    "uuid": closed({"id": {"format": "uuid", "type": "string"}}),
    "decimal": closed({"price": {"anyOf": [{"type": "integer", "minimum": 0, "maximum": 99}, {"type": "string", "pattern": r"^\d{1,3}\.\d{2}$"}]}}),
    # zod.
    "int": closed({"n": {"type": "integer", "minimum": -9007199254740991, "maximum": 9007199254740991}}),
    "record": {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "propertyNames": {"type": "string"}, "additionalProperties": AGE, "maxProperties": 2},
    "draft 7": {"$schema": "http://json-schema.org/draft-07/schema#", **closed({"tags": {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 6}, "minItems": 1, "maxItems": 3}})},
    "union of literals": {"anyOf": [{"type": "string", "const": "yes"}, {"type": "number", "const": 0}, {"type": "boolean", "const": True}]},
    "discriminated by zod": {"oneOf": [kind("ok", data=WORD), kind("error", code=AGE)]},
    "lazy by definitions": {"$ref": "#/definitions/Tree", "definitions": {"Tree": closed({"v": {"enum": [1, 2]}, "kids": {"type": "array", "items": {"$ref": "#/definitions/Tree"}, "maxItems": 1}})}},
    "intersection": {"allOf": [{"type": "object", "properties": {"a": AGE}, "required": ["a"]}, {"type": "object", "properties": {"b": WORD}, "required": ["b"]}], "maxProperties": 2},
    "reference into a property": closed({"first": closed({"x": AGE}), "second": {"$ref": "#/properties/first/properties/x"}}),
    "email of zod": closed({"email": {"type": "string", "format": "email", "maxLength": 16, "pattern":
        r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$"}}),
    "duration of zod": closed({"for": {"type": "string", "format": "duration", "maxLength": 8, "pattern":
        r"^P(?:(\d+W)|(?!.*W)(?=\d|T\d)(\d+Y)?(\d+M)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+([.,]\d+)?S)?)?)$"}}),
    "host of zod": closed({"host": {"type": "string", "format": "hostname", "maxLength": 20, "pattern":
        r"^(?=.{1,253}\.?$)[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[-0-9a-zA-Z]{0,61}[0-9a-zA-Z])?)*\.?$"}}),
    "text that starts with": closed({"v": {"type": "string", "format": "starts_with", "pattern": r"^a\.b.*", "maxLength": 9}}),
    "never": {"type": "object", "properties": {"a": AGE, "b": {"not": {}}}, "required": ["a"], "additionalProperties": False},
    # OpenAPI documents.
    "components": {"$ref": "#/components/schemas/Pet", "components": {"schemas": {"Pet": closed({"id": {"type": "integer", "format": "int64", "minimum": 1, "maximum": 99}, "tag": ref("Tag")})}},
                   "$defs": {"Tag": WORD}},
    "escaped path": {"$ref": "#/$defs/~1pets~1%7Bid%7D", "$defs": {"/pets/{id}": closed({"status": {"enum": ["sold", "free"]}})}},
    "anchor": closed({"a": {"$ref": "#age"}}, **{"$defs": {"x": {"$anchor": "age", **AGE}}}),
    # By hand.
    "mixed enum": {"enum": ["a", 1, 2.5, None, True, {"k": ["v"]}, [1, 2]]},
    "const object": {"const": {"a": [1, {"b": None}], "c": "ü\"\\"}},
    "nested lists": {"type": "array", "minItems": 2, "maxItems": 2, "items": {"type": "array", "minItems": 2, "maxItems": 2, "items": {"type": "integer", "minimum": 0, "maximum": 9}}},
    "phone": closed({"phone": {"type": "string", "pattern": r"^\+?[0-9]{3}-[0-9]{4}$"}}),
    "alternatives in a pattern": closed({"v": {"type": "string", "pattern": r"^(v\d{1,2}\.\d|latest|\w{2}/[^\s/]{1,3})$"}}),
    "email and length": closed({"email": {"type": "string", "format": "email", "maxLength": 16}, "ip": {"type": "string", "format": "ipv4"}}),
    "length of characters": {"type": "string", "minLength": 3, "maxLength": 5},
    "names that need care": closed({"a/b": AGE, "quo\"te": AGE, "ключ": AGE, "": AGE, "$ref": {"type": "boolean"}}),
    "unevaluated": {"type": "object", "properties": {"a": AGE}, "required": ["a"], "unevaluatedProperties": False},
    "property called id": closed({"id": AGE, "of": {"allOf": [ref("Of"), {"required": ["x"]}]}}, **{"$defs": {"Of": {"type": "object", "properties": {"x": {"enum": [1, 2]}}, "additionalProperties": False}}}),
    "at most one": {"type": "object", "properties": {"a": AGE, "b": AGE}, "maxProperties": 1, "additionalProperties": False},
    "list of unions": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"oneOf": [{"type": "null"}, AGE, {"type": "string", "enum": ["x"]}]}},
    "boolean schemas": closed({"one": {"enum": [1]}, "list": {"type": "array", "items": False}}),
}
TRIES = [("Give an example.", {"temperature": 0}), ("Invent something short.", {"temperature": 1.0, "seed": 4})]
FORMATS = jsonschema.FormatChecker(formats=("email", "ipv4", "uuid"))


def ask(name, schema, question, more):
    wanted = {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}
    try:
        answer = client.chat.completions.create(model=model, messages=[{"role": "user", "content": question}], response_format=wanted, max_tokens=300, **more)
    except openai.APIStatusError as e:
        raise AssertionError(f"{name}: {e.message}") from None
    choice = answer.choices[0]
    if choice.finish_reason != "stop":
        assert choice.finish_reason == "length", (name, choice)
        return name, False
    try:
        jsonschema.Draft202012Validator(schema, format_checker=FORMATS).validate(json.loads(choice.message.content))
    except (ValueError, jsonschema.ValidationError) as e:
        raise AssertionError(f"{name}: {choice.message.content!r} does not fit: {e}") from None
    return name, True


with concurrent.futures.ThreadPoolExecutor(4) as pool:
    asked = [pool.submit(ask, name, schema, *how) for name, schema in SCHEMAS.items() for how in TRIES]
    results = [f.result() for f in asked]
ended = {name for name, whole in results if whole}
assert len(ended) >= len(SCHEMAS) - 3, sorted(set(SCHEMAS) - ended)

print("ok")
