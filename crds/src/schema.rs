//! What the API server does with a value and a schema, in Rust: fills in defaults, refuses unknown fields, wrong types,
//! lengths, ranges and forms. Rules between fields are in [`crate::validate`].

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use regex_automata::meta::Regex;
use serde_json::{Map, Value};

use crate::kinds::Kind;
use crate::validate::Violation;

/// Fills in defaults and drops fields that are `null`, as the API server does before it validates.
pub fn fill_defaults(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            for (name, schema) in properties(schema) {
                if !fields.contains_key(name)
                    && let Some(default) = schema.get("default")
                {
                    fields.insert(name.clone(), default.clone());
                }
                if let Some(field) = fields.get_mut(name) {
                    fill_defaults(schema, field);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                items.iter_mut().for_each(|item| fill_defaults(schema, item));
            }
        }
        _ => {}
    }
}

/// The properties of an object's schema.
pub fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> + Clone {
    schema.get("properties").and_then(Value::as_object).into_iter().flatten()
}

/// Everything in which `value`, at `path`, is not what `schema` asks for.
pub fn check(schema: &Value, value: &Value, path: &str, found: &mut Vec<Violation>) {
    let before = found.len();
    if schema.get("x-kubernetes-int-or-string").is_some() {
        if !value.is_string() && !value.is_i64() {
            found.push(Violation::new(path, "write a quantity, such as 500m or 2Gi"));
        }
        return;
    }
    match (schema.get("type").and_then(Value::as_str), value) {
        (Some("object"), Value::Object(fields)) => object(schema, fields, path, found),
        (Some("array"), Value::Array(items)) => array(schema, items, path, found),
        (Some("string"), Value::String(text)) => string(schema, text, path, found),
        (Some("integer"), Value::Number(number)) if number.is_i64() => {
            integer(schema, number.as_i64().unwrap_or_default(), path, found);
        }
        (Some("boolean"), Value::Bool(_)) | (None, _) => {}
        (Some(wanted), other) => found.push(Violation::new(path, wrong_type(wanted, other))),
    }
    // As in the API server, a rule is only asked about a value whose form is right.
    if found.len() == before {
        forms(schema, value, path, found);
    }
}

fn object(schema: &Value, fields: &Map<String, Value>, path: &str, found: &mut Vec<Violation>) {
    let at = |name: &str| format!("{path}.{name}");
    if let Some(items) = schema.get("additionalProperties") {
        if let Some(most) =
            schema.get("maxProperties").and_then(Value::as_u64).filter(|most| fields.len() as u64 > *most)
        {
            found.push(Violation::new(path, format!("has {} entries: at most {most}", fields.len())));
        }
        fields.iter().for_each(|(name, value)| check(items, value, &at(name), found));
        return;
    }
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    for name in required.filter(|name| !fields.contains_key(*name)) {
        let about =
            schema.pointer(&format!("/properties/{name}/description")).and_then(Value::as_str).unwrap_or_default();
        found.push(Violation::new(&at(name), format!("is required: {}", first_sentence(about))));
    }
    for (name, value) in fields {
        match schema.get("properties").and_then(|p| p.get(name)) {
            Some(schema) => check(schema, value, &at(name), found),
            None if schema.get("properties").is_some() => {
                let known = properties(schema).map(|(name, _)| name.as_str());
                found.push(Violation::new(&at(name), unknown(name, known)));
            }
            None => {}
        }
    }
}

fn array(schema: &Value, items: &[Value], path: &str, found: &mut Vec<Violation>) {
    let bound = |name: &str| schema.get(name).and_then(Value::as_u64);
    if let Some(most) = bound("maxItems").filter(|most| items.len() as u64 > *most) {
        found.push(Violation::new(path, format!("has {} items: at most {most}", items.len())));
    }
    if let Some(least) = bound("minItems").filter(|least| (items.len() as u64) < *least) {
        found.push(Violation::new(path, format!("has {} items: at least {least}", items.len())));
    }
    if let Some(schema) = schema.get("items") {
        for (index, item) in items.iter().enumerate() {
            check(schema, item, &format!("{path}[{index}]"), found);
        }
    }
    // Lists of type `set` hold a value once, lists of type `map` a key.
    let keys: Option<Vec<&str>> = match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => Some(Vec::new()),
        Some("map") => schema
            .get("x-kubernetes-list-map-keys")
            .and_then(Value::as_array)
            .map(|keys| keys.iter().filter_map(Value::as_str).collect()),
        _ => None,
    };
    let Some(keys) = keys else { return };
    let mut seen = HashSet::new();
    for (index, item) in items.iter().enumerate() {
        let key = if keys.is_empty() {
            item.to_string()
        } else {
            keys.iter().map(|k| item.get(k).unwrap_or(&Value::Null).to_string()).collect::<Vec<_>>().join(",")
        };
        if !seen.insert(key.clone()) {
            found.push(Violation::new(&format!("{path}[{index}]"), format!("{key} is there twice: list it once")));
        }
    }
}

fn string(schema: &Value, text: &str, path: &str, found: &mut Vec<Violation>) {
    let bound = |name: &str| schema.get(name).and_then(Value::as_u64);
    let length = text.chars().count() as u64;
    if let Some(most) = bound("maxLength").filter(|most| length > *most) {
        found.push(Violation::new(path, format!("is {length} characters long: at most {most}")));
    }
    if let Some(least) = bound("minLength").filter(|least| length < *least) {
        found.push(Violation::new(path, format!("is {length} characters long: at least {least}")));
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let values: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
        if !values.contains(&text) {
            let near = nearest(text, values.iter().copied())
                .map(|near| format!(" (did you mean {near}?)"))
                .unwrap_or_default();
            found.push(Violation::new(path, format!("{text:?} is not one of {}{near}", values.join(", "))));
        }
    }
}

fn integer(schema: &Value, number: i64, path: &str, found: &mut Vec<Violation>) {
    // The schema holds bounds as floating-point numbers; ours are whole and small.
    let bound = |name: &str| schema.get(name).and_then(Value::as_f64).map(|bound| bound as i64);
    match (bound("minimum"), bound("maximum")) {
        (Some(least), Some(most)) if !(least..=most).contains(&number) => {
            found.push(Violation::new(path, format!("is {number}: write a whole number from {least} to {most}")));
        }
        (Some(least), None) if number < least => {
            found.push(Violation::new(path, format!("is {number}: at least {least}")))
        }
        _ => {}
    }
}

/// Rules of the form `self.matches(r'…')`, possibly several with `&&`: the strings of [`crate::text`].
fn forms(schema: &Value, value: &Value, path: &str, found: &mut Vec<Violation>) {
    let Some(text) = value.as_str() else { return };
    for (rule, message) in rules(schema) {
        let Some(patterns) = patterns(rule) else { continue };
        let fits = patterns.iter().all(|pattern| PATTERNS.get(*pattern).is_some_and(|regex| regex.is_match(text)));
        if !fits {
            found.push(Violation::new(path, message));
        }
    }
}

/// The CEL rules of one schema, with their messages.
pub fn rules(schema: &Value) -> impl Iterator<Item = (&str, &str)> {
    let rules = schema.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten();
    rules.filter_map(|rule| Some((rule.get("rule")?.as_str()?, rule.get("message")?.as_str()?)))
}

/// The expressions of a rule that only asks for forms; none: it asks for something else.
pub fn patterns(rule: &str) -> Option<Vec<&str>> {
    rule.split(" && ").map(|part| part.strip_prefix("self.matches(r'")?.strip_suffix("')")).collect()
}

/// Calls `visit` with every schema under `schema`, itself first.
pub fn walk<'a>(schema: &'a Value, visit: &mut dyn FnMut(&'a Value)) {
    visit(schema);
    properties(schema).for_each(|(_, schema)| walk(schema, visit));
    for name in ["items", "additionalProperties"] {
        if let Some(schema) = schema.get(name) {
            walk(schema, visit);
        }
    }
}

static PATTERNS: LazyLock<HashMap<&'static str, Regex>> = LazyLock::new(|| {
    let mut compiled = HashMap::new();
    for kind in Kind::ALL {
        walk(kind.schema(), &mut |schema| {
            for pattern in rules(schema).filter_map(|(rule, _)| patterns(rule)).flatten() {
                // A pattern that did not compile would be absent and so match nothing; a test compiles them all.
                if let Ok(regex) = Regex::new(pattern) {
                    compiled.insert(pattern, regex);
                }
            }
        });
    }
    compiled
});

fn wrong_type(wanted: &str, value: &Value) -> String {
    let is = match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(b) => format!("the boolean {b}"),
        Value::Number(n) => format!("the number {n}"),
        Value::String(_) => "a string".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a map".to_owned(),
    };
    let write = match (wanted, value) {
        ("string", Value::Number(_) | Value::Bool(_)) => "put it in quotes".to_owned(),
        ("integer", Value::String(_)) => "write a whole number without quotes".to_owned(),
        ("integer", _) => "write a whole number".to_owned(),
        ("boolean", _) => "write true or false".to_owned(),
        ("array", _) => "write a list".to_owned(),
        ("object", _) => "write a map of fields".to_owned(),
        (wanted, _) => format!("write a {wanted}"),
    };
    format!("is {is}: {write}")
}

/// What is said of a field that does not exist.
pub fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    match nearest(name, known.clone()) {
        Some(near) => format!("unknown field: did you mean {near}?"),
        None => format!("unknown field: there are {}", known.collect::<Vec<_>>().join(", ")),
    }
}

/// The nearest of some words, if one is near.
pub fn nearest<'a>(word: &str, words: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let lower = word.to_lowercase();
    words
        .map(|known| (strsim::damerau_levenshtein(&lower, &known.to_lowercase()), known))
        .filter(|(distance, known)| *distance <= (known.len().max(word.len()) / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

fn first_sentence(text: &str) -> String {
    let end = text.find(['.', ':', ';']).unwrap_or(text.len());
    let mut sentence: String = text.get(..end).unwrap_or(text).replace('\n', " ");
    if let Some(first) = sentence.get(..1).map(str::to_lowercase) {
        sentence.replace_range(..1, &first);
    }
    sentence
}
