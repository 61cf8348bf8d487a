//! What is refused, in Rust: for `terrace up`, which has no API server, and for the operator, which may meet objects that
//! an older API schema let through. Forms come from the schema itself ([`crate::schema`]); every CEL rule between fields
//! has its twin here, under the same sentence.

pub mod ladder;
pub mod latency_budget;
pub mod routing_policy;
pub mod tier;

use serde_json::Value;

use crate::kinds::Object;
use crate::schema;
use crate::sentence;

/// One thing that is wrong with an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Where, such as `spec.tiers[1].name`.
    pub path: String,
    /// What is wrong, and what to write instead.
    pub sentence: String,
}

impl Violation {
    /// At a path.
    pub fn new(path: &str, sentence: impl Into<String>) -> Self {
        Self { path: path.trim_start_matches('.').to_owned(), sentence: sentence.into() }
    }
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path, self.sentence)
    }
}

/// Everything that is wrong with an object; never empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct Invalid(pub Vec<Violation>);

/// Checks an object.
///
/// # Errors
/// Everything that is wrong with it.
pub fn validate<T: Object>(object: &T) -> Result<(), Invalid> {
    let mut found = Vec::new();
    name(object.meta().name.as_deref().unwrap_or_default(), &mut found);
    // An object holds strings, integers, lists and maps with string keys: it is always JSON.
    let value = serde_json::to_value(object).unwrap_or(Value::Null);
    if let (Some(schema), Some(spec)) = (T::KIND.schema().pointer("/properties/spec"), value.get("spec")) {
        schema::check(schema, spec, "spec", &mut found);
    }
    object.rules(&mut found);
    end(found)
}

/// Checks that an object may become what it is from `old`.
///
/// # Errors
/// Everything that may not change but did.
pub fn validate_change<T: Object>(object: &T, old: &T) -> Result<(), Invalid> {
    let mut found = Vec::new();
    object.change_rules(old, &mut found);
    end(found)
}

/// Reads an object of a kind from JSON, as the API server would take it: unknown fields are refused, defaults filled in.
///
/// # Errors
/// Everything that is wrong with it.
pub fn read<T: Object>(value: &Value) -> Result<T, Invalid> {
    let mut value = value.clone();
    let mut found = Vec::new();
    let schema = T::KIND.schema();
    schema::fill_defaults(schema, &mut value);
    metadata(&value, &mut found);
    let mut body = value.clone();
    if let Some(fields) = body.as_object_mut() {
        for field in ["apiVersion", "kind", "metadata", "status"] {
            fields.remove(field);
        }
    }
    schema::check(schema, &body, "", &mut found);
    match serde_json::from_value::<T>(value) {
        Ok(object) => {
            name(object.meta().name.as_deref().unwrap_or_default(), &mut found);
            object.rules(&mut found);
            end(found).map(|()| object)
        }
        Err(error) => {
            if found.is_empty() {
                found.push(Violation::new("spec", error.to_string()));
            }
            Err(Invalid(found))
        }
    }
}

fn end(mut found: Vec<Violation>) -> Result<(), Invalid> {
    let mut seen = std::collections::HashSet::new();
    found.retain(|v| seen.insert((v.path.clone(), v.sentence.clone())));
    if found.is_empty() { Ok(()) } else { Err(Invalid(found)) }
}

/// `^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$`, so that every child's name fits.
fn name(name: &str, found: &mut Vec<Violation>) {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let fits = name.len() <= 40
        && name.bytes().next().is_some_and(|b| b.is_ascii_lowercase())
        && name.bytes().all(inner)
        && !name.ends_with('-');
    if !fits {
        found.push(Violation::new("metadata.name", sentence::NAME));
    }
}

/// Fields of `metadata` that people write, or that come back from the API server.
const METADATA: [&str; 15] = [
    "name",
    "namespace",
    "labels",
    "annotations",
    "generateName",
    "finalizers",
    "ownerReferences",
    "uid",
    "generation",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
];

fn metadata(value: &Value, found: &mut Vec<Violation>) {
    let fields = value.get("metadata").and_then(Value::as_object).into_iter().flatten();
    for (name, _) in fields.filter(|(name, _)| !METADATA.contains(&name.as_str())) {
        found.push(Violation::new(&format!("metadata.{name}"), schema::unknown(name, METADATA.into_iter())));
    }
}
