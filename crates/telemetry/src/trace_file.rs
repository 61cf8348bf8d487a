//! One JSON line a finished span: what `terrace up` prints as a tree when there is no collector.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use opentelemetry::trace::{SpanId, SpanKind, Status};
use opentelemetry::{Array, KeyValue, Value};
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use serde_json::{Map, json};

use crate::InitError;
use crate::time::since_epoch_us;

/// Appends spans to a file; several programs may share it, since a line is one write.
#[derive(Debug)]
pub(crate) struct TraceFile {
    path: PathBuf,
    service: &'static str,
    file: Mutex<File>,
}

impl TraceFile {
    pub(crate) fn open(path: &Path, service: &'static str) -> Result<Self, InitError> {
        let file = File::options()
            .append(true)
            .create(true)
            .open(path)
            .map_err(|source| InitError::TraceFile { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), service, file: Mutex::new(file) })
    }
}

impl SpanExporter for TraceFile {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let lines: String = batch.iter().map(|span| format!("{}\n", line(self.service, span))).collect();
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(lines.as_bytes())
            .map_err(|e| OTelSdkError::InternalFailure(format!("{}: {e}", self.path.display())))
    }
}

fn line(service: &str, span: &SpanData) -> serde_json::Value {
    let parent = (span.parent_span_id != SpanId::INVALID).then(|| span.parent_span_id.to_string());
    let events: Vec<_> = span
        .events
        .iter()
        .map(|e| json!({"name": e.name, "atUs": since_epoch_us(e.timestamp), "attributes": attributes(&e.attributes)}))
        .collect();
    json!({
        "service": service,
        "traceId": span.span_context.trace_id().to_string(),
        "spanId": span.span_context.span_id().to_string(),
        "parentSpanId": parent,
        "name": span.name,
        "kind": match span.span_kind {
            SpanKind::Client => "CLIENT",
            SpanKind::Server => "SERVER",
            SpanKind::Producer => "PRODUCER",
            SpanKind::Consumer => "CONSUMER",
            SpanKind::Internal => "INTERNAL",
        },
        "startUs": since_epoch_us(span.start_time),
        "endUs": since_epoch_us(span.end_time),
        "error": match &span.status { Status::Error { description } => Some(description.as_ref()), _ => None },
        "attributes": attributes(&span.attributes),
        "events": events,
    })
}

fn attributes(attributes: &[KeyValue]) -> Map<String, serde_json::Value> {
    attributes.iter().map(|kv| (kv.key.to_string(), value(&kv.value))).collect()
}

fn value(value: &Value) -> serde_json::Value {
    match value {
        Value::Bool(v) => json!(v),
        Value::I64(v) => json!(v),
        Value::F64(v) => json!(v),
        Value::String(v) => json!(v.as_str()),
        Value::Array(Array::I64(v)) => json!(v),
        Value::Array(Array::F64(v)) => json!(v),
        Value::Array(Array::Bool(v)) => json!(v),
        Value::Array(Array::String(v)) => json!(v.iter().map(|s| s.as_str()).collect::<Vec<_>>()),
        other => json!(other.to_string()),
    }
}
