//! What a program says in its log, in sentences for people: each once, however often it is repeated.

use std::collections::HashSet;

use serde_json::Value;

/// Lines of plain text that are shown at most: a panic, a usage.
const PLAIN: usize = 6;

/// How much a line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// It goes on.
    Note,
    /// Something is in its way.
    Warning,
    /// Why it ended.
    Error,
    /// Not of the log: the program said it past it.
    Plain,
}

/// A line as a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// How much it matters.
    pub weight: Weight,
    /// The sentence.
    pub text: String,
}

fn said(line: &str) -> Option<Said> {
    let plain = || Said { weight: Weight::Plain, text: line.trim_end().to_owned() };
    let Ok(value) = serde_json::from_str::<Value>(line) else {
        return Some(plain()).filter(|said| !said.text.is_empty());
    };
    let field = |name: &str| value.get(name).and_then(Value::as_str);
    let text = match (field("message"), field("error")) {
        (Some(message), Some(error)) => format!("{message}: {error}"),
        (Some(message), None) => message.to_owned(),
        _ => return Some(plain()),
    };
    let weight = match field("level") {
        Some("ERROR") => Weight::Error,
        Some("WARN") => Weight::Warning,
        _ => Weight::Note,
    };
    Some(Said { weight, text })
}

/// Every sentence of a log that is not in `told` yet; from then on it is.
pub fn news(log: &str, told: &mut HashSet<String>) -> Vec<Said> {
    log.lines().filter_map(said).filter(|said| told.insert(said.text.clone())).collect()
}

/// Why a program has ended or is not ready, as far as its log says. Never empty.
pub fn reason(log: &str) -> String {
    let all: Vec<Said> = log.lines().filter_map(said).collect();
    let last = |weight| all.iter().rev().find(|said| said.weight == weight).map(|said| said.text.clone());
    let plain = || {
        let lines: Vec<&str> = all.iter().filter(|s| s.weight == Weight::Plain).map(|s| s.text.as_str()).collect();
        (!lines.is_empty()).then(|| lines[lines.len().saturating_sub(PLAIN)..].join("\n    "))
    };
    let found = last(Weight::Error).or_else(plain).or_else(|| last(Weight::Warning)).or_else(|| last(Weight::Note));
    found.unwrap_or_else(|| "it has said nothing".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTE: &str = r#"{"level":"INFO","message":"asking for the model"}"#;
    const RETRY: &str = r#"{"level":"WARN","message":"the model could not be downloaded","error":"http://m cannot be reached: no name"}"#;

    #[test]
    fn a_reason_is_one_sentence_and_never_empty() {
        let error = r#"{"level":"ERROR","message":"Unreachable: http://m cannot be reached"}"#;
        let retry = "the model could not be downloaded: http://m cannot be reached: no name";
        for (log, expected) in [
            (vec![], "it has said nothing"),
            (vec!["", " "], "it has said nothing"),
            (vec![NOTE], "asking for the model"),
            (vec![NOTE, RETRY, RETRY, NOTE], retry),
            (vec![NOTE, RETRY, RETRY, error], "Unreachable: http://m cannot be reached"),
            (vec![NOTE, "terrace-router: no port"], "terrace-router: no port"),
        ] {
            assert_eq!(reason(&log.join("\n")), expected);
        }
    }

    #[test]
    fn what_is_repeated_is_told_once() {
        let mut told = HashSet::new();
        assert_eq!(news(&[NOTE, RETRY, RETRY].join("\n"), &mut told).len(), 2);
        assert!(news(&[NOTE, RETRY, RETRY, RETRY].join("\n"), &mut told).is_empty());
    }
}
