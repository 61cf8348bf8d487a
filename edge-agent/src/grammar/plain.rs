//! A schema in the words that `llguidance` knows: references as it follows them, no keyword that restricts nothing, and
//! others in place of some that it has not. What a schema takes stays the same.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::apart;
use super::classes::exact;
use super::idle::{self, idle};
use super::pattern;
use super::place::{Shape, at_mut, shape};
use super::refs::Refs;

/// The same schema in plain words. What cannot be put so stays as it is, and is refused.
pub(super) fn plain(schema: &Value) -> Value {
    let mut moved = schema.clone();
    let names = rename(schema, &mut moved);
    refer(&mut moved, &names);
    let refs = Refs::new(&moved);
    written(&moved, &refs, &mut apart::Patience::default())
}

/// Finds what every reference is to be called. Schemas that have no name that `llguidance` could follow are moved into
/// `$defs`, with a reference in their place.
fn rename(schema: &Value, moved: &mut Value) -> BTreeMap<String, Option<String>> {
    let refs = Refs::new(schema);
    let (mut names, mut hidden) = (BTreeMap::new(), BTreeMap::new());
    let own = schema.get("$defs").and_then(Value::as_object);
    let mut fresh = "terrace".to_owned();
    while own.is_some_and(|own| own.keys().any(|name| name.starts_with(&fresh))) {
        fresh.push('_');
    }
    for name in references(schema) {
        let Ok(found) = refs.find(&name) else {
            // Checked before: here it is because parts were cut out to find a fault.
            names.insert(name, None);
            continue;
        };
        let plain = if found.keys.is_empty() {
            "#".to_owned()
        } else if found.simple {
            format!("#/{}", found.keys.join("/"))
        } else {
            let fresh = format!("{fresh}{}", hidden.len());
            let (_, fresh) = hidden.entry(found.keys).or_insert((found.place, fresh));
            format!("#/$defs/{fresh}")
        };
        names.insert(name, Some(plain));
    }
    // The innermost first, so that those around them still stand where they were.
    let mut hidden: Vec<_> = hidden.into_values().collect();
    hidden.sort_by_key(|(place, _)| std::cmp::Reverse(place.len()));
    let mut taken = Map::new();
    for (place, fresh) in hidden {
        let reference = json!({"$ref": format!("#/$defs/{fresh}")});
        if let Some(part) = at_mut(moved, &place, &[]) {
            taken.insert(fresh, std::mem::replace(part, reference));
        }
    }
    if let Some(root) = moved.as_object_mut().filter(|_| !taken.is_empty())
        && let Some(defs) = root.entry("$defs").or_insert_with(|| json!({})).as_object_mut()
    {
        defs.extend(taken);
    }
    names
}

/// Every reference in a value, be it data that looks like one.
fn references(value: &Value) -> Vec<String> {
    let (mut names, mut left) = (Vec::new(), vec![value]);
    while let Some(value) = left.pop() {
        match value {
            Value::Array(list) => left.extend(list),
            Value::Object(members) => {
                names.extend(members.get("$ref").and_then(Value::as_str).map(str::to_owned));
                left.extend(members.values());
            }
            _ => {}
        }
    }
    names
}

/// Writes the new names, in schemas and nowhere else.
fn refer(schema: &mut Value, names: &BTreeMap<String, Option<String>>) {
    let Some(members) = schema.as_object_mut() else { return };
    if let Some(name) = members.get("$ref").and_then(Value::as_str) {
        match names.get(name) {
            Some(Some(plain)) => {
                let plain = Value::from(plain.as_str());
                members.insert("$ref".into(), plain);
            }
            Some(None) => {
                members.shift_remove("$ref");
            }
            None => {}
        }
    }
    for (key, value) in members.iter_mut() {
        match (shape(key), value) {
            (Shape::Map, Value::Object(map)) => map.values_mut().for_each(|part| refer(part, names)),
            (Shape::List | Shape::OneOrList, Value::Array(list)) => {
                list.iter_mut().for_each(|part| refer(part, names));
            }
            (Shape::One | Shape::OneOrList, part) => refer(part, names),
            _ => {}
        }
    }
}

/// A schema anew.
fn written(schema: &Value, refs: &Refs<'_>, patience: &mut apart::Patience) -> Value {
    let Some(members) = schema.as_object() else { return schema.clone() };
    if idle::nothing(members) {
        return Value::Bool(false);
    }
    let mut out = Map::new();
    for (key, value) in members.iter().filter(|(key, _)| !idle(members, key)) {
        let new = match (shape(key), value) {
            (Shape::Map, Value::Object(map)) => {
                let name = |name: &String| if key == "patternProperties" { exact(name) } else { name.clone() };
                map.iter().map(|(of, part)| (name(of), written(part, refs, patience))).collect()
            }
            (Shape::List | Shape::OneOrList, Value::Array(list)) => {
                list.iter().map(|part| written(part, refs, patience)).collect()
            }
            (Shape::One | Shape::OneOrList, part) => written(part, refs, patience),
            // 3.0 is a count as well.
            (Shape::Data, Value::Number(count)) if idle::COUNTS.contains(&key.as_str()) => {
                idle::count(count).map_or_else(|| value.clone(), Value::from)
            }
            (Shape::Data, Value::String(text)) if key == "pattern" => {
                Value::from(exact(pattern::without(text).unwrap_or(text)))
            }
            _ => value.clone(),
        };
        let name = match key.as_str() {
            "unevaluatedProperties" if idle::alone(members) => "additionalProperties",
            "unevaluatedItems" if idle::alone(members) => "items",
            "oneOf" if !members.contains_key("anyOf") && apart::all(value, refs, patience) => "anyOf",
            other => other,
        };
        out.insert(name.to_owned(), new);
    }
    if let Some(even) = out.get("format").and_then(Value::as_str).and_then(pattern::no_leap_second) {
        match (out.contains_key("pattern"), out.get_mut("allOf")) {
            (false, _) => _ = out.insert("pattern".into(), even.into()),
            (true, Some(Value::Array(all))) => all.push(json!({"pattern": even})),
            (true, _) => _ = out.insert("allOf".into(), json!([{"pattern": even}])),
        }
    }
    if let Some(names) = idle::names(members, refs) {
        names.keep(&mut out);
    }
    Value::Object(out)
}
