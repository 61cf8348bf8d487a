//! A collector that is not there: one warning that names it, and nothing else happens.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

use std::process::{Command, Stdio};

use terrace_telemetry::{Options, init};

/// Re-runs this test binary as the program under test, since logs go to the process's own stderr.
#[test]
fn an_absent_collector_costs_one_warning() {
    if std::env::var_os("TERRACE_AWAY_CHILD").is_some() {
        return child();
    }
    // Bound and not listened to any more: nothing answers there.
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "an_absent_collector_costs_one_warning", "--nocapture"])
        .env("TERRACE_AWAY_CHILD", "1")
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{address}"))
        .env("TERRACE_LOG_FORMAT", "json")
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text}");
    let warnings: Vec<&str> = text.lines().filter(|l| l.contains("\"WARN\"")).collect();
    assert_eq!(warnings.len(), 1, "{text}");
    assert!(warnings[0].contains(&format!("http://{address}/v1/traces")), "{text}");
}

fn child() {
    let guard = init(Options::from_env("terrace-test")).unwrap();
    for _ in 0..2000 {
        drop(tracing::info_span!(target: "terrace_test", "work"));
    }
    drop(guard);
}

#[test]
fn an_endpoint_that_cannot_be_used_is_named() {
    for endpoint in ["jaeger:4317", "https://collector", "nonsense"] {
        let options =
            Options { service: "t", otlp_endpoint: Some(endpoint.into()), trace_file: None, sample_percent: 100 };
        let error = init(options).err().unwrap().to_string();
        assert!(error.contains(endpoint) && error.contains("http://jaeger:4318"), "{error}");
    }
}
