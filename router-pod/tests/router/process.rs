//! The router as a process: what it traces, how it ends, and what it says when it cannot start.

use std::time::{Duration, Instant};

use crate::support::process::{self, Process};
use crate::support::{Act, Scripted, World, get, post, question, stream, streamed, until};
use serde_json::Value;
use terrace_contract::trust::Boundary;

const CHAT: &str = "/v1/chat/completions";

fn named<'a>(spans: &'a [Value], name: &str) -> Vec<&'a Value> {
    spans.iter().filter(|span| span["name"] == name).collect()
}

async fn spans_until(process: &Process, name: &str, count: usize) -> Vec<Value> {
    until(name, || named(&process.spans(), name).len() >= count).await;
    process.spans()
}

/// A router that listens and has no policy yet.
async fn without_policy(world: &World) -> Process {
    let (log, ports) = (world.path("log"), world.path("ports"));
    let child = process::command(world)
        .args(["--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0"])
        .arg(format!("--port-file={}", ports.display()))
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let nowhere = "127.0.0.1:0".parse().unwrap();
    let mut process = Process { child, listen: nowhere, admin: nowhere, log, traces: world.path("traces") };
    until("it listens", || {
        let log = process.log();
        let mut lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let Some(said) = lines.find(|line| line["message"] == "the router is listening") else { return false };
        let address = |name: &str| said[name].as_str().unwrap().parse().unwrap();
        (process.listen, process.admin) = (address("listen"), address("admin"));
        true
    })
    .await;
    process
}

/// It was written before the policy had come, and who waited for it got a 503.
#[tokio::test]
async fn the_port_file_comes_when_requests_are_answered() {
    let edge = Scripted::new("small", 4, Act::Say("a b"));
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[&edge]).await;
    let (router, ports) = (without_policy(&world).await, world.path("ports"));
    assert_eq!(get(router.admin, "/readyz", &[]).await.status, 503);
    assert_eq!(post(router.listen, CHAT, &[], &question("hi")).await.status, 503);
    assert!(!ports.exists(), "there is no policy yet");
    world.publish();
    until("its port file", || ports.exists()).await;
    assert_eq!(post(router.listen, CHAT, &[], &question("hi")).await.status, 200);
    let written: Value = serde_json::from_slice(&std::fs::read(&ports).unwrap()).unwrap();
    assert_eq!(written["listen"], router.listen.to_string());
}

/// Who waits for a policy that never comes can still be told to end.
#[tokio::test]
async fn a_router_without_a_policy_ends_when_told() {
    let world = World::new();
    let mut router = without_policy(&world).await;
    router.terminate();
    until("it ends", || router.child.try_wait().unwrap().is_some()).await;
    assert!(router.child.wait().unwrap().success() && !world.path("ports").exists());
}

#[tokio::test]
async fn one_request_is_one_trace_with_every_hop() {
    let (edge, cloud) = (Scripted::new("small", 4, Act::Status(500, vec![])), Scripted::new("big", 4, Act::Say("a b")));
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[&edge]).await;
    world.endpoint("cloud", Boundary::Public, &cloud).await;
    let process = process::start(&mut world).await;
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let parent = format!("00-{trace}-b7ad6b7169203331-01");
    let events = stream(process.listen, CHAT, &[("traceparent", &parent)], &streamed("hi")).await;
    assert!(events.headers["traceparent"].to_str().unwrap().contains(trace));
    assert_eq!(events.rest().await.last().unwrap(), "[DONE]");

    let spans = spans_until(&process, "chat auto", 1).await;
    let [server] = named(&spans, "chat auto")[..] else { panic!("{spans:?}") };
    assert!(spans.iter().all(|span| span["traceId"] == trace), "{spans:?}");
    assert_eq!((server["kind"].as_str(), server["parentSpanId"].as_str()), (Some("SERVER"), Some("b7ad6b7169203331")));
    let attributes = &server["attributes"];
    for (name, want) in [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.request.model", "auto"),
        ("gen_ai.response.model", "big"),
        ("terrace.policy", "assistant"),
        ("terrace.feature", "other"),
        ("terrace.class", "Public"),
        ("terrace.tier", "cloud"),
        ("terrace.boundary", "Public"),
        ("terrace.outcome", "overflowed"),
        ("terrace.reasons", "overflow_down,retried"),
    ] {
        assert_eq!(attributes[name], want, "{name} in {attributes}");
    }
    assert_eq!(attributes["gen_ai.usage.input_tokens"], 11);
    assert_eq!(attributes["gen_ai.usage.output_tokens"], 3);
    assert_eq!(attributes["terrace.cost_micros"], 17);
    assert_eq!(attributes["terrace.degraded"], false);
    for name in ["sense", "decide"] {
        let [span] = named(&spans, name)[..] else { panic!("{name}: {spans:?}") };
        assert_eq!((span["kind"].as_str(), &span["parentSpanId"]), (Some("INTERNAL"), &server["spanId"]));
    }
    let attempts = named(&spans, "attempt");
    let [failed, answered] = attempts[..] else { panic!("{attempts:?}") };
    for (number, (attempt, tier)) in [(failed, "edge"), (answered, "cloud")].into_iter().enumerate() {
        assert_eq!((attempt["kind"].as_str(), &attempt["parentSpanId"]), (Some("CLIENT"), &server["spanId"]));
        assert_eq!(attempt["attributes"]["terrace.tier"], tier);
        assert_eq!(attempt["attributes"]["terrace.attempt"], number + 1);
        for name in ["terrace.dns_us", "terrace.connect_us", "terrace.tls_us", "terrace.ttfb_us", "server.port"] {
            assert!(attempt["attributes"][name].is_i64(), "{name}: {attempt}");
        }
    }
    let events = |span: &Value| -> Vec<String> {
        span["events"].as_array().unwrap().iter().map(|e| e["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(events(answered), ["connected", "first_token"]);
    assert_eq!(events(failed), ["connected"]);
    assert_eq!(failed["attributes"]["error.type"], "status");
    assert!(failed["error"].is_string() && answered["error"].is_null() && server["error"].is_null());
    // The agent is told the trace, the Public endpoint is not.
    assert!(edge.last_headers()["traceparent"].to_str().unwrap().contains(trace));
    assert!(cloud.last_headers().get("traceparent").is_none());
}

#[tokio::test]
async fn terminated_it_finishes_and_leaves_with_success() {
    let agent = Scripted::new("small", 4, Act::Hold("finished"));
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[&agent]).await;
    let mut process = process::start(&mut world).await;
    let listen = process.listen;
    let held = tokio::spawn(async move { post(listen, CHAT, &[], &question("hi")).await });
    until("one is in flight", || agent.running() == 1).await;
    process.terminate();
    agent.release();
    assert_eq!(held.await.unwrap().content(), "finished");
    let deadline = Instant::now() + Duration::from_secs(30);
    let status = loop {
        if let Some(status) = process.child.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < deadline, "it never ends: {}", process.log());
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert!(status.success(), "{status}");
}

#[test]
fn what_cannot_start_says_why_and_what_to_do() {
    let world = World::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = process::command(&world).arg(format!("--listen={address}")).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&address) && said.contains("--listen") && said.contains("in use"), "{said}");

    std::fs::remove_file(world.path("identity/tls.key")).unwrap();
    let ports = ["--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0"];
    let output = process::command(&world).args(ports).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("tls.key"), "{said}");
}
