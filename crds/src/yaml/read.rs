//! Reading manifests: every document of a file, every problem of every document, each with file, document, object, path.

use serde::Deserialize;
use serde_json::Value;

use crate::kinds::Kind;
use crate::validate::{self, Violation};
use crate::{GROUP, LatencyBudget, RoutingPolicy, Tier, VERSION, schema};

/// One document of a file.
#[derive(Debug, Clone, PartialEq)]
pub enum Manifest {
    /// A Tier.
    Tier(Box<Tier>),
    /// A RoutingPolicy.
    RoutingPolicy(Box<RoutingPolicy>),
    /// A LatencyBudget.
    LatencyBudget(Box<LatencyBudget>),
    /// Something of Kubernetes: a Namespace, a Secret.
    Other(Value),
}

/// One thing that is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub file: String,
    /// Which of its documents, from 1.
    pub document: usize,
    /// Kind and name, such as `Tier edge`, as far as they can be read.
    pub object: String,
    /// What is wrong, where, and what to write instead.
    pub violation: Violation,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, document {}", self.file, self.document)?;
        if !self.object.is_empty() {
            write!(f, " ({})", self.object)?;
        }
        match self.violation.path.as_str() {
            "" => write!(f, ": {}", self.violation.sentence),
            _ => write!(f, ": {}", self.violation),
        }
    }
}

/// Everything that is wrong with a file; never empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct Problems(pub Vec<Problem>);

/// Reads a file's text. Documents that hold nothing are left out.
///
/// # Errors
/// Everything that is wrong with it.
pub fn read(file: &str, text: &str) -> Result<Vec<Manifest>, Problems> {
    let mut problems = Vec::new();
    let mut manifests = Vec::new();
    for (document, value) in documents(file, text)? {
        match manifest(value.clone()) {
            Ok(manifest) => manifests.push(manifest),
            Err(violations) => problems.extend(violations.into_iter().map(|violation| Problem {
                file: file.to_owned(),
                document,
                object: object(&value),
                violation,
            })),
        }
    }
    if problems.is_empty() { Ok(manifests) } else { Err(Problems(problems)) }
}

/// The documents of a file as plain values, with their numbers from 1; without those that hold nothing.
///
/// # Errors
/// It is not YAML, has a key twice, or holds what JSON cannot.
pub fn documents(file: &str, text: &str) -> Result<Vec<(usize, Value)>, Problems> {
    let mut out = Vec::new();
    for (index, document) in serde_yaml::Deserializer::from_str(text).enumerate() {
        let problem = |sentence: String| {
            let violation = Violation::new("", sentence);
            Problems(vec![Problem { file: file.to_owned(), document: index + 1, object: String::new(), violation }])
        };
        // Through YAML's own value: it refuses a key that is there twice, which JSON's would overwrite.
        let value = serde_yaml::Value::deserialize(document).map_err(|e| problem(format!("not YAML: {e}")))?;
        let value = serde_json::to_value(value)
            .map_err(|e| problem(format!("not a manifest: {e}; keys are strings and tags (!) are not read")))?;
        if !value.is_null() {
            out.push((index + 1, value));
        }
    }
    Ok(out)
}

fn object(value: &Value) -> String {
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    format!("{} {}", text("/kind"), text("/metadata/name")).trim().to_owned()
}

fn manifest(value: Value) -> Result<Manifest, Vec<Violation>> {
    let one = |path: &str, sentence: String| vec![Violation::new(path, sentence)];
    let text = |name: &str| match value.get(name) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text.as_str()),
        Some(_) => Err(one(name, "is not a string".to_owned())),
        None if value.is_object() => Err(one(name, format!("is required: for example {name}: {}", example(name)))),
        None => Err(one("", "not a manifest: write apiVersion, kind, metadata and spec".to_owned())),
    };
    let (version, kind) = (text("apiVersion")?, text("kind")?);
    let ours = version.split_once('/').map_or(version, |(group, _)| group) == GROUP;
    let Some(kind) = Kind::parse(kind).filter(|_| ours) else {
        return match Kind::ALL.into_iter().find(|k| k.as_str().eq_ignore_ascii_case(kind)) {
            _ if ours => Err(one("kind", schema_kind(kind))),
            Some(near) => Err(one("apiVersion", format!("{near} is a kind of {GROUP}/{VERSION}, not of {version}"))),
            None => Ok(Manifest::Other(value)),
        };
    };
    if version != format!("{GROUP}/{VERSION}") {
        return Err(one("apiVersion", format!("{version} is not known here: write {GROUP}/{VERSION}")));
    }
    let read = match kind {
        Kind::Tier => validate::read(&value).map(|object| Manifest::Tier(Box::new(object))),
        Kind::RoutingPolicy => validate::read(&value).map(|object| Manifest::RoutingPolicy(Box::new(object))),
        Kind::LatencyBudget => validate::read(&value).map(|object| Manifest::LatencyBudget(Box::new(object))),
    };
    read.map_err(|invalid| invalid.0)
}

fn schema_kind(kind: &str) -> String {
    let known = Kind::ALL.map(Kind::as_str);
    match schema::nearest(kind, known.into_iter()) {
        Some(near) => format!("{kind} is not a kind of {GROUP}: did you mean {near}?"),
        None => format!("{kind} is not a kind of {GROUP}: there are {}", known.join(", ")),
    }
}

fn example(name: &str) -> String {
    match name {
        "apiVersion" => format!("{GROUP}/{VERSION}"),
        _ => Kind::Tier.to_string(),
    }
}
