//! What can be seen to be wrong with a schema by looking at it: keywords that restrict an answer and cannot be kept to, values
//! that a keyword does not take, references to nothing. `llguidance` passes over some of it in silence.

use serde_json::{Map, Value};

use super::fault::Fault;
use super::idle::{self, COUNTS, FORMATS, idle};
use super::parts::{Part, reachable};
use super::pattern;
use super::place::{Place, Step, named};
use super::refs::{Refs, Unresolved};

/// Types of JSON.
const TYPES: &[&str] = &["array", "boolean", "integer", "null", "number", "object", "string"];
/// Past this, numbers are not exact.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The first thing that is wrong; none if nothing is that can be seen.
pub(super) fn first(root: &Value) -> Option<Fault> {
    let refs = Refs::new(root);
    for key in ["$defs", "definitions"] {
        if root.get(key).is_some_and(|defs| !defs.is_object()) {
            return Some(Fault::wrong(named(key).into_iter().collect(), "must be an object of schemas"));
        }
    }
    reachable(&refs).into_iter().find_map(|part| part_fault(part, &refs))
}

fn part_fault(part: Part<'_>, refs: &Refs<'_>) -> Option<Fault> {
    let members = match part.schema {
        Value::Object(members) => members,
        Value::Bool(_) => return None,
        _ => return Some(Fault::wrong(part.place, "must be a schema: an object, true or false")),
    };
    let looked = Looked { members, refs, root: part.place.is_empty() };
    members.iter().enumerate().find_map(|(position, (key, value))| {
        let (inner, what, unsupported) = match looked.fault(key, value)? {
            Wrong::Here(what) => (None, what, false),
            Wrong::Inside(step, what) => (Some(step), what, false),
            Wrong::Beyond(what) => (None, what, true),
            Wrong::BeyondInside(step, what) => (Some(step), what, true),
        };
        let steps = [named(key).or(Some(Step::Nth(position))), inner].into_iter().flatten();
        let place: Place = part.place.iter().copied().chain(steps).collect();
        Some(if unsupported { Fault::beyond(place, what) } else { Fault::wrong(place, what) })
    })
}

/// What is wrong with a keyword.
enum Wrong {
    Here(String),
    /// With something directly inside of it.
    Inside(Step, String),
    /// It is not done here.
    Beyond(String),
    BeyondInside(Step, String),
}

/// A schema that is looked at.
struct Looked<'s, 'a> {
    members: &'a Map<String, Value>,
    refs: &'s Refs<'a>,
    root: bool,
}

impl Looked<'_, '_> {
    fn fault(&self, key: &str, value: &Value) -> Option<Wrong> {
        let wrong = |what: &str| Some(Wrong::Here(what.into()));
        match (key, value) {
            ("$id", Value::String(id)) if !self.root && !id.starts_with('#') => beyond(
                "only the whole schema can have an $id: put this part into $defs, and refer to it by #/$defs/ and its name",
            ),
            ("$ref", Value::String(name)) => match self.refs.find(name) {
                Ok(_) => None,
                Err(Unresolved::Elsewhere) => beyond(
                    "only what stands in this schema is referred to: put it into $defs, and refer to it by #/$defs/ and its name",
                ),
                Err(Unresolved::Nothing) => {
                    wrong("refers to nothing in this schema: check its spelling; ~ is written ~0 and / is written ~1")
                }
            },
            ("$ref", _) => wrong("must be a text such as #/$defs/name"),
            ("$dynamicRef" | "$recursiveRef", _) => beyond("is not followed here: use $ref"),
            ("type", _) => types(value),
            ("const", _) => inexact(value).then(|| Wrong::Beyond(INEXACT.into())),
            ("enum", Value::Array(list)) if !list.is_empty() => {
                let at = list.iter().position(inexact)?;
                Some(Wrong::BeyondInside(Step::Index(at), INEXACT.into()))
            }
            ("enum", _) => wrong("must be a list of one value at least"),
            ("allOf" | "anyOf" | "oneOf", Value::Array(list)) if !list.is_empty() => None,
            ("allOf" | "anyOf" | "oneOf", _) => wrong("must be a list of one schema at least"),
            ("prefixItems", list) if !list.is_array() => wrong("must be a list of schemas"),
            ("properties", Value::Object(_)) => None,
            ("patternProperties", Value::Object(patterns)) => patterns.keys().enumerate().find_map(|(i, pattern)| {
                pattern::beyond(pattern).map(|what| Wrong::BeyondInside(Step::Nth(i), what.into()))
            }),
            ("properties" | "patternProperties", _) => wrong("must be an object of schemas"),
            ("required", Value::Array(list)) => {
                let at = list.iter().position(|name| !name.is_string())?;
                Some(Wrong::Inside(Step::Index(at), "must be the name of a property".into()))
            }
            ("required", _) => wrong("must be a list of the names of properties, beside properties"),
            ("minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum", number) => bound(key, number),
            ("multipleOf", number) if !number.as_f64().is_some_and(|n| n > 0.0) => wrong("must be a number above 0"),
            ("multipleOf", number) => inexact(number).then(|| Wrong::Beyond(INEXACT.into())),
            ("pattern", Value::String(text)) => pattern::beyond(text).map(|what| Wrong::Beyond(what.into())),
            ("pattern" | "format", other) if !other.is_string() => wrong("must be a text"),
            ("format", Value::String(name)) if !idle(self.members, key) && !FORMATS.contains(&name.as_str()) => {
                Some(Wrong::Beyond(format!("must be one of {}: use one of those, or a pattern", FORMATS.join(", "))))
            }
            (count, Value::Number(number)) if COUNTS.contains(&count) => {
                if idle::count(number).is_some() {
                    None
                } else {
                    wrong("must be a whole number, 0 or more")
                }
            }
            (count, _) if COUNTS.contains(&count) => wrong("must be a whole number, 0 or more"),
            _ if idle(self.members, key) => None,
            _ => self.kept(key).map(|what| Wrong::Beyond(what.into())),
        }
    }

    /// What to do instead of a keyword that restricts an answer and cannot be kept to.
    fn kept(&self, key: &str) -> Option<&'static str> {
        match key {
            "uniqueItems" => Some("cannot be kept to: leave it out, and drop repeated elements yourself"),
            "contains" | "minContains" | "maxContains" => {
                Some("cannot be kept to: say what stands where with prefixItems, or leave it out")
            }
            "propertyNames" if idle::names(self.members, self.refs).is_none() => Some(
                "can be kept to as an enum, a const, or a pattern without properties beside it: use one of those, or leave it out",
            ),
            "dependencies" | "dependentRequired" | "dependentSchemas" => {
                Some("cannot be kept to: list what goes together as alternatives in anyOf, or leave it out")
            }
            "if" | "then" | "else" => Some("cannot be kept to: write the cases as alternatives in anyOf"),
            "not" if !idle::nothing(self.members) => {
                Some("cannot be kept to: say what is allowed instead, with enum, pattern or anyOf")
            }
            "unevaluatedProperties" | "unevaluatedItems" if !idle::alone(self.members) => Some(
                "cannot be kept to beside keywords that join schemas: use additionalProperties or items in each of those",
            ),
            _ => None,
        }
    }
}

const INEXACT: &str = "whole numbers past 9007199254740992 are not kept to exactly: use a text";

fn beyond(what: &str) -> Option<Wrong> {
    Some(Wrong::Beyond(what.into()))
}

fn types(value: &Value) -> Option<Wrong> {
    let what = || format!("must be one of {}, or a list of those", TYPES.join(", "));
    let known = |kind: &Value| kind.as_str().is_some_and(|kind| TYPES.contains(&kind));
    match value {
        Value::Array(list) if !list.is_empty() => {
            let at = list.iter().position(|kind| !known(kind))?;
            Some(Wrong::Inside(Step::Index(at), what()))
        }
        one => (!known(one)).then(|| Wrong::Here(what())),
    }
}

fn bound(key: &str, value: &Value) -> Option<Wrong> {
    match value {
        Value::Number(_) => inexact(value).then(|| Wrong::Beyond(INEXACT.into())),
        // As it was written in draft 4.
        Value::Bool(_) if key.starts_with("exclusive") => None,
        _ => Some(Wrong::Here("must be a number".into())),
    }
}

/// Whether a value holds a number that would not come back as it is.
fn inexact(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_f64().is_none_or(|n| n.fract() == 0.0 && n.abs() > EXACT) || big(number),
        Value::Array(list) => list.iter().any(inexact),
        Value::Object(members) => members.values().any(inexact),
        _ => false,
    }
}

/// A whole number next to the last exact one is rounded to that.
fn big(number: &serde_json::Number) -> bool {
    number.as_u64().is_some_and(|n| n > 1 << 53) || number.as_i64().is_some_and(|n| n < -(1 << 53))
}
