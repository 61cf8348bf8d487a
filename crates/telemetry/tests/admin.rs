//! The admin port and the port file over a real socket.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use prometheus_client::metrics::gauge::Gauge;
use terrace_telemetry::{Health, Metrics, admin, ports};
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn probes_and_metrics_tell_the_state_and_the_reason() {
    let (health, metrics) = (Health::new(), Metrics::new());
    let model = health.gate("model", "not loaded yet");
    let running = metrics.register("terrace_running_sequences", "Sequences", Gauge::<i64>::default());
    running.set(2);
    let listener = admin::bind("--admin-listen", "127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let taken = admin::bind("--admin-listen", address).await.unwrap_err().to_string();
    assert!(taken.contains("--admin-listen") && taken.contains(&address.to_string()), "{taken}");
    let end = CancellationToken::new();
    let server = tokio::spawn(admin::serve(listener, admin::router(health.clone(), metrics), end.clone()));

    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let get = async |path: &str| {
        let answer = client.get(format!("http://{address}{path}").parse().unwrap()).await.unwrap();
        let status = answer.status().as_u16();
        (status, String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap())
    };
    assert_eq!(get("/livez").await, (200, "ok\n".into()));
    assert_eq!(get("/readyz").await, (503, "model: not loaded yet\n".into()));
    model.open();
    assert_eq!(get("/readyz").await, (200, "ok\n".into()));
    model.close("draining");
    health.liveness("engine", || Err("no step for 30 s".into()));
    // What is not alive is not ready either.
    assert_eq!(get("/readyz").await, (503, "model: draining\nengine: no step for 30 s\n".into()));
    assert_eq!(get("/livez").await, (503, "engine: no step for 30 s\n".into()));
    assert!(get("/metrics").await.1.contains("terrace_running_sequences 2\n"));
    end.cancel();
    drop(client);
    server.await.unwrap();
}

#[test]
fn the_port_file_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ports.json");
    ports::write(&path, &serde_json::json!({"listen": "127.0.0.1:1", "admin": "127.0.0.1:2"})).unwrap();
    let read: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(read["admin"], "127.0.0.1:2");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}
