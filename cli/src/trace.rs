//! One trace as a tree with times, read from the files of `terrace up` or from Jaeger's query API.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;
use serde_json::Value;

/// One finished span.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    pub trace: String,
    pub id: String,
    pub parent: String,
    pub service: String,
    pub name: String,
    pub start_us: u64,
    pub end_us: u64,
    pub attributes: BTreeMap<String, String>,
}

/// Attributes worth a line in a terminal, in this order.
const SHOWN: [&str; 14] = [
    "terrace.tier",
    "terrace.device",
    "terrace.class",
    "terrace.reasons",
    "terrace.queue_us",
    "terrace.dns_us",
    "terrace.connect_us",
    "terrace.tls_us",
    "terrace.ttfb_us",
    "terrace.tokens",
    "terrace.cached_tokens",
    "terrace.tokens_per_second",
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.output_tokens",
];

/// The spans of one trace in the files that `terrace up` has its programs write, one JSON object a line.
pub fn from_files(folder: &Path, trace: &str) -> Vec<Span> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut spans = Vec::new();
    for entry in entries.flatten().filter(|e| e.path().extension().is_some_and(|x| x == "jsonl")) {
        let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
        spans.extend(
            text.lines().filter(|l| l.contains(trace)).filter_map(|l| from_line(l).filter(|s| s.trace == trace)),
        );
    }
    spans
}

fn from_line(line: &str) -> Option<Span> {
    let value: Value = serde_json::from_str(line).ok()?;
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    Some(Span {
        trace: text("traceId"),
        id: text("spanId"),
        parent: text("parentSpanId"),
        service: text("service"),
        name: text("name"),
        start_us: value.get("startUs")?.as_u64()?,
        end_us: value.get("endUs")?.as_u64()?,
        attributes: value.get("attributes").and_then(Value::as_object).map(plain).unwrap_or_default(),
    })
}

fn plain(map: &serde_json::Map<String, Value>) -> BTreeMap<String, String> {
    map.iter().map(|(k, v)| (k.clone(), v.as_str().map_or_else(|| v.to_string(), str::to_owned))).collect()
}

/// The spans of one trace from Jaeger's query API (`http://jaeger:16686`); none while it does not know the trace.
///
/// # Errors
/// Jaeger cannot be reached, or what answers there is not Jaeger.
pub async fn from_jaeger(base: &str, trace: &str) -> Result<Vec<Span>> {
    let answer = crate::http::get_json(&format!("{}/api/traces/{trace}", base.trim_end_matches('/'))).await?;
    Ok(answer.as_ref().map(jaeger_spans).unwrap_or_default())
}

fn jaeger_spans(answer: &Value) -> Vec<Span> {
    let Some(found) = answer.pointer("/data/0") else { return Vec::new() };
    let service = |process: &Value| {
        let name = process.as_str().unwrap_or_default();
        found.pointer(&format!("/processes/{name}/serviceName")).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let spans = found["spans"].as_array().cloned().unwrap_or_default();
    spans
        .iter()
        .map(|span| {
            let text = |name: &str| span[name].as_str().unwrap_or_default().to_owned();
            let start_us = span["startTime"].as_u64().unwrap_or(0);
            let parent = span["references"].as_array().and_then(|r| r.first());
            let tags = span["tags"].as_array().cloned().unwrap_or_default();
            Span {
                trace: text("traceID"),
                id: text("spanID"),
                parent: parent.and_then(|p| p["spanID"].as_str()).unwrap_or_default().to_owned(),
                service: service(&span["processID"]),
                name: text("operationName"),
                start_us,
                end_us: start_us + span["duration"].as_u64().unwrap_or(0),
                attributes: tags
                    .iter()
                    .filter_map(|t| {
                        let value = &t["value"];
                        Some((
                            t["key"].as_str()?.to_owned(),
                            value.as_str().map_or_else(|| value.to_string(), str::to_owned),
                        ))
                    })
                    .collect(),
            }
        })
        .collect()
}

/// The spans as a tree: name, program, start and length in milliseconds, and the attributes that say why.
pub fn render(spans: &[Span]) -> String {
    let Some(begin) = spans.iter().map(|s| s.start_us).min() else {
        return "  no spans of this trace have arrived\n".into();
    };
    let mut order: Vec<&Span> = spans.iter().collect();
    order.sort_by_key(|s| (s.start_us, s.end_us));
    let known = |id: &str| spans.iter().any(|s| s.id == id);
    let mut out = String::new();
    for root in order.iter().filter(|s| !known(&s.parent)) {
        branch(&order, root, begin, 0, &mut out);
    }
    out
}

fn branch(order: &[&Span], span: &Span, begin: u64, depth: usize, out: &mut String) {
    let ms = |us: u64| us as f64 / 1000.0;
    let name = format!("{}{}", "  ".repeat(depth), span.name);
    let attributes: Vec<String> = SHOWN
        .iter()
        .filter_map(|key| {
            let value = span.attributes.get(*key).filter(|v| !v.is_empty())?;
            Some(format!("{}={value}", key.rsplit('.').next().unwrap_or(key)))
        })
        .collect();
    let start = ms(span.start_us.saturating_sub(begin));
    let length = ms(span.end_us.saturating_sub(span.start_us));
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "  {name:<34} {:<9} {start:>9.2} ms {length:>9.2} ms  {}",
        program(&span.service),
        attributes.join(" ")
    );
    for child in order.iter().filter(|s| s.parent == span.id && s.id != span.id && depth < 16) {
        branch(order, child, begin, depth + 1, out);
    }
}

fn program(service: &str) -> &str {
    service.strip_prefix("terrace-").unwrap_or(service)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(id: &str, parent: &str, name: &str, start_us: u64, end_us: u64) -> Span {
        Span {
            trace: "t".into(),
            id: id.into(),
            parent: parent.into(),
            service: "terrace-router".into(),
            name: name.into(),
            start_us,
            end_us,
            attributes: BTreeMap::from([("terrace.tier".into(), "edge".into())]),
        }
    }

    #[test]
    fn children_stand_under_their_parents_in_order_of_time() {
        let spans = [
            span("c", "a", "attempt", 30, 90),
            span("b", "a", "sense", 10, 20),
            span("a", "remote", "chat auto", 0, 100),
        ];
        let text = render(&spans);
        let names: Vec<&str> = text.lines().filter_map(|l| l.split_whitespace().next()).collect();
        assert_eq!(names, ["chat", "sense", "attempt"]);
        assert!(text.contains("tier=edge"));
    }

    #[test]
    fn jaeger_answers_are_read() {
        let answer = serde_json::json!({"data": [{"processes": {"p1": {"serviceName": "terrace-agent"}}, "spans": [
            {"traceID": "t", "spanID": "s", "operationName": "prefill", "processID": "p1", "startTime": 5, "duration": 7,
             "references": [{"refType": "CHILD_OF", "traceID": "t", "spanID": "p"}], "tags": [{"key": "terrace.tokens", "value": 12}]}]}]});
        let spans = jaeger_spans(&answer);
        assert_eq!((spans[0].parent.as_str(), spans[0].end_us, spans[0].service.as_str()), ("p", 12, "terrace-agent"));
        assert_eq!(spans[0].attributes["terrace.tokens"], "12");
    }
}
