//! The whole way of a span: this process under `init`, a collector on a real socket, and a file.
//!
//! One test, since telemetry is set up once a process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::State;
use axum::routing::post;
use bytes::Bytes;
use http::HeaderMap;
use terrace_telemetry::{Options, init, traces};
use tokio::sync::Notify;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

#[derive(Clone, Default)]
struct Collector {
    bodies: Arc<Mutex<Vec<Bytes>>>,
    arrived: Arc<Notify>,
}

#[expect(clippy::unwrap_used, reason = "a helper of a test")]
async fn take(State(collector): State<Collector>, headers: HeaderMap, body: Bytes) {
    assert_eq!(headers["content-type"], "application/x-protobuf");
    collector.bodies.lock().unwrap().push(body);
    collector.arrived.notify_one();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_span_reaches_the_collector_and_the_file_with_its_callers_trace() {
    let collector = Collector::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let app = axum::Router::new().route("/v1/traces", post(take)).with_state(collector.clone());
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("spans.jsonl");

    let guard = init(Options {
        service: "terrace-test",
        otlp_endpoint: Some(endpoint),
        trace_file: Some(file.clone()),
        sample_percent: 0,
    })
    .unwrap();

    // The caller decided to keep this trace; that holds although this program keeps none of its own.
    let mut incoming = HeaderMap::new();
    let trace = "0af7651916cd43dd8448eb211c80319c";
    incoming.insert("traceparent", format!("00-{trace}-b7ad6b7169203331-01").parse().unwrap());
    let span =
        tracing::info_span!(target: "terrace_test", "chat", otel.name = "chat m", otel.kind = "server", tokens = 3);
    traces::set_parent(&span, &incoming);
    assert_eq!(traces::trace_id(&span).as_deref(), Some(trace));
    span.in_scope(|| tracing::info!(target: "terrace_test", "first_token"));
    span.set_attribute("gen_ai.request.model", "m");
    drop(span);
    drop(tracing::info_span!(target: "hyper", "library"));
    drop(tracing::info_span!(target: "terrace_test", "unsampled"));

    tokio::time::timeout(Duration::from_secs(10), collector.arrived.notified()).await.expect("no export in 10 s");
    tokio::task::spawn_blocking(move || drop(guard)).await.unwrap();
    let bodies = collector.bodies.lock().unwrap().concat();
    let holds = |text: &str| bodies.windows(text.len()).any(|w| w == text.as_bytes());
    assert!(holds("chat m") && holds("terrace-test") && holds("gen_ai.request.model"));
    assert!(!holds("library") && !holds("unsampled"));

    let lines = std::fs::read_to_string(&file).unwrap();
    let spans: Vec<serde_json::Value> = lines.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(spans.len(), 1, "{lines}");
    assert_eq!(spans[0]["traceId"], trace);
    assert_eq!(spans[0]["parentSpanId"], "b7ad6b7169203331");
    assert_eq!((&spans[0]["name"], &spans[0]["kind"]), (&"chat m".into(), &"SERVER".into()));
    assert_eq!(spans[0]["attributes"]["tokens"], 3);
    assert_eq!(spans[0]["events"][0]["name"], "first_token");
    assert!(spans[0]["endUs"].as_u64() >= spans[0]["startUs"].as_u64());
}
