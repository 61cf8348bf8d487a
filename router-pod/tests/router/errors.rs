//! Every error code of the contract that a client can cause, with its status, its headers and no content.

use std::sync::Arc;

use crate::support::{Act, Reply, Scripted, World, client, get, post, question, until};
use serde_json::{Value, json};
use terrace_contract::policy::{Access, KeyRule, OnMiss};
use terrace_contract::trust::{Boundary, Class};

const CHAT: &str = "/v1/chat/completions";

async fn world(agent: &Arc<Scripted>) -> World {
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[agent]).await;
    world
}

fn is(reply: &Reply, status: u16, code: &str) {
    assert_eq!((reply.status.as_u16(), reply.code().as_str()), (status, code), "{reply:?}");
    assert_eq!(reply.header("x-terrace-request-id").len(), 32, "{reply:?}");
    assert_eq!(reply.header("content-type"), "application/json");
    assert!(!String::from_utf8_lossy(&reply.body).contains("SECRET"), "{reply:?}");
}

#[tokio::test]
async fn malformed_requests_are_named_by_place() {
    let agent = Scripted::new("small", 4, Act::Say("x"));
    let mut world = world(&agent).await;
    world.start().await;
    let deep = "[".repeat(80) + &"]".repeat(80);
    let deep = format!(r#"{{"model":"auto","messages":{deep}}}"#);
    for body in [
        r#"{"model":"SECRET""#,
        r#"{"model":"auto","model":"SECRET","messages":[]}"#,
        r#"{"model":"auto","messages":[{"role":"user","content":"\ud800 SECRET"}]}"#,
        r#"{"model":"auto","messages":[{"role":"user","content":"x"}]} SECRET"#,
        r#"{"model":"auto","messages":[]}"#,
        &deep,
    ] {
        let reply = client::post_bytes(world.listen, CHAT, &[], body.as_bytes().to_vec()).await;
        is(&reply, 400, "invalid_request");
    }
    let reply = client::post_bytes(world.listen, CHAT, &[], b"{\"a\":\"\xff\"}".to_vec()).await;
    is(&reply, 400, "invalid_request");

    let body =
        json!({"model": "auto", "messages": [{"role": "user", "content": "x"}, {"role": "SECRET", "content": "x"}]});
    let reply = post(world.listen, CHAT, &[], &body).await;
    is(&reply, 400, "invalid_request");
    assert_eq!(reply.json()["error"]["param"], "/messages/1/role");

    let reply = post(world.listen, CHAT, &[("x-terrace-class", "SECRET")], &question("hi")).await;
    is(&reply, 400, "invalid_request");
    let reply = post(world.listen, CHAT, &[("x-terrace-via", "other, p-1")], &question("hi")).await;
    is(&reply, 400, "invalid_request");
    assert_eq!(reply.header("x-terrace-reason"), "loop");
    assert_eq!(agent.count(), 0);
}

/// Such a request went to a tier, and came back in the tier's words or not at all.
#[tokio::test]
async fn a_message_without_content_is_refused_in_the_language_it_came_in() {
    let agent = Scripted::new("small", 4, Act::Say("x"));
    let mut world = world(&agent).await;
    world.start().await;
    let user = json!({"role": "user", "content": "SECRET"});
    for silent in [
        json!({"role": "user", "content": null}),
        json!({"role": "user"}),
        json!({"role": "user", "content": []}),
        json!({"role": "assistant", "content": null}),
        json!({"role": "assistant"}),
    ] {
        let body = json!({"model": "auto", "messages": [user, silent]});
        let reply = post(world.listen, CHAT, &[], &body).await;
        is(&reply, 400, "invalid_request");
        assert_eq!(reply.json()["error"]["param"], "/messages/1/content", "{silent}");

        let reply = post(world.listen, "/v1/responses", &[], &json!({"model": "auto", "input": [user, silent]})).await;
        is(&reply, 400, "invalid_request");
        assert_eq!(reply.json()["error"]["param"], "/input/1/content", "{silent}");

        let body = json!({"model": "auto", "max_tokens": 9, "messages": [user, silent, user]});
        let reply = post(world.listen, "/v1/messages", &[], &body).await;
        is(&reply, 400, "invalid_request");
        assert_eq!(reply.json()["type"], "error", "Anthropic's shape");
        assert_eq!(reply.json()["error"]["param"], "/messages/1/content", "{silent}");
    }
    assert_eq!(agent.count(), 0);
}

#[tokio::test]
async fn sizes_encodings_paths_and_methods() {
    let agent = Scripted::new("small", 4, Act::Say("x"));
    let mut world = world(&agent).await;
    world.snapshot.policy.limits.request_bytes = 2_000;
    world.start().await;
    let long = question(&"SECRET ".repeat(1_000));
    let reply = post(world.listen, CHAT, &[], &long).await;
    is(&reply, 413, "request_too_large");
    assert!(reply.json()["error"]["message"].as_str().unwrap().contains("2000 bytes, and this one has"), "{reply:?}");
    // A client that is still sending is heard out: it sees the answer, not a broken connection.
    let huge = client::post_bytes(world.listen, CHAT, &[], vec![b'x'; 10 << 20]).await;
    is(&huge, 413, "request_too_large");
    for head in ["content-length: 999999999999\r\n", "content-length: 3000\r\nexpect: 100-continue\r\n"] {
        let reply = client::raw(
            world.listen,
            &format!("POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n{head}\r\n"),
        )
        .await;
        assert!(reply.starts_with("HTTP/1.1 413"), "{head}: {reply}");
    }
    let reply = post(world.listen, CHAT, &[("content-encoding", "gzip")], &question("hi")).await;
    is(&reply, 415, "unsupported_media_type");
    let reply = post(world.listen, CHAT, &[("content-type", "text/plain")], &question("hi")).await;
    is(&reply, 415, "unsupported_media_type");
    is(&get(world.listen, "/v1/SECRET", &[]).await, 404, "not_found");
    is(&get(world.listen, CHAT, &[]).await, 405, "method_not_allowed");
    assert_eq!(agent.count(), 0);
}

#[tokio::test]
async fn models_contexts_and_abilities() {
    let agent = Scripted::new("small", 4, Act::Say("x"));
    let mut world = world(&agent).await;
    world.start().await;
    let mut body = question("hi");
    body["model"] = "SECRET".into();
    let reply = post(world.listen, CHAT, &[], &body).await;
    is(&reply, 404, "model_not_found");
    assert!(reply.json()["error"]["message"].as_str().unwrap().contains("auto, small"), "{reply:?}");

    let reply = post(world.listen, CHAT, &[], &question(&"many words ".repeat(3_000))).await;
    is(&reply, 422, "context_too_long");
    let mut body = question("hi");
    body["response_format"] = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": {}}});
    let reply = post(world.listen, CHAT, &[], &body).await;
    is(&reply, 422, "unsupported_feature");
    assert_eq!(agent.count(), 0);
}

#[tokio::test]
async fn keys_are_known_limited_and_reloaded() {
    let agent = Scripted::new("small", 4, Act::Say("x"));
    let mut world = world(&agent).await;
    let rule = |name: &str, rpm, models: &[&str], trust_label| KeyRule {
        name: name.into(),
        requests_per_minute: rpm,
        tokens_per_minute: None,
        models: models.iter().map(|m| (*m).to_owned()).collect(),
        trust_label,
    };
    world.snapshot.policy.access =
        Access::ApiKeys { keys: vec![rule("ci", Some(2), &[], false), rule("web", None, &["small"], true)] };
    world.snapshot.policy.sensitivity.unlabelled = Class::Internal;
    std::fs::write(world.path("api-keys/ci"), "sk-ci").unwrap();
    std::fs::write(world.path("api-keys/web"), "sk-web").unwrap();
    world.start().await;
    let auth = |key: &str| format!("Bearer {key}");

    is(&post(world.listen, CHAT, &[], &question("hi")).await, 401, "invalid_api_key");
    let wrong = auth("sk-SECRET");
    is(&post(world.listen, CHAT, &[("authorization", &wrong)], &question("hi")).await, 401, "invalid_api_key");
    is(&get(world.listen, "/v1/models", &[]).await, 401, "invalid_api_key");

    let ci = auth("sk-ci");
    for _ in 0..2 {
        assert_eq!(post(world.listen, CHAT, &[("authorization", &ci)], &question("hi")).await.status, 200);
    }
    let reply = post(world.listen, CHAT, &[("authorization", &ci)], &question("hi")).await;
    is(&reply, 429, "rate_limited");
    assert!(reply.header("retry-after").parse::<u64>().unwrap() <= 30, "{reply:?}");

    let web = auth("sk-web");
    is(&post(world.listen, CHAT, &[("authorization", &web)], &question("hi")).await, 404, "model_not_found");
    let list = get(world.listen, "/v1/models", &[("authorization", &web)]).await.json();
    assert_eq!(list["data"].as_array().unwrap().len(), 1);
    let mut body = question("hi");
    body["model"] = "small".into();
    assert_eq!(post(world.listen, CHAT, &[("authorization", &web)], &body).await.status, 200);
    assert!(agent.last_headers().get("authorization").is_none(), "a client's key stays here");

    std::fs::write(world.path("api-keys/web"), "sk-new").unwrap();
    let (new, listen) = (auth("sk-new"), world.listen);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while post(listen, CHAT, &[("authorization", &new)], &body).await.status != 200 {
        assert!(std::time::Instant::now() < deadline, "the new key is never taken");
    }
    is(&post(listen, CHAT, &[("authorization", &web)], &body).await, 401, "invalid_api_key");
}

#[tokio::test]
async fn concurrency_and_time() {
    let agent = Scripted::new("small", 4, Act::Hold("x"));
    let mut world = world(&agent).await;
    world.snapshot.policy.limits.concurrency = 1;
    world.budget("strict", &["strict"], 200, 1_000, OnMiss::Overflow);
    world.budget("instant", &["instant"], 1, 1, OnMiss::Reject);
    world.start().await;
    let listen = world.listen;
    let held = tokio::spawn(async move { post(listen, CHAT, &[], &question("hi")).await });
    until("one is in flight", || agent.running() == 1).await;
    let reply = post(world.listen, CHAT, &[], &question("hi")).await;
    is(&reply, 503, "overloaded");
    assert!(reply.header("retry-after-ms").parse::<u64>().unwrap() >= 1);
    agent.release();
    assert_eq!(held.await.unwrap().status, 200);

    agent.always(Act::Stall);
    is(&post(world.listen, CHAT, &[("x-terrace-feature", "strict")], &question("hi")).await, 504, "budget_exceeded");
    is(&post(world.listen, CHAT, &[("x-terrace-feature", "instant")], &question("hi")).await, 504, "budget_exceeded");
}

#[tokio::test]
async fn without_a_policy_nothing_is_served() {
    let mut world = World::new();
    let snapshot = format!("--snapshot={}", world.path("none.json").display());
    world.start_with(&[&snapshot]).await;
    is(&post(world.listen, CHAT, &[], &question("SECRET")).await, 503, "no_policy");
    let ready = get(world.admin, "/readyz", &[]).await;
    assert_eq!(ready.status, 503);
    assert!(String::from_utf8_lossy(&ready.body).contains("no_policy"));
    assert_eq!(get(world.admin, "/livez", &[]).await.status, 200);
}

#[tokio::test]
async fn past_the_share_of_overflow_nothing_more_leaves() {
    let (edge, cloud) = (Scripted::new("small", 1, Act::Hold("near")), Scripted::new("big", 8, Act::Say("far")));
    let mut world = world(&edge).await;
    world.endpoint("cloud", Boundary::Public, &cloud).await;
    world.snapshot.policy.overflow.max_percent = 0;
    world.start().await;
    let listen = world.listen;
    let held = tokio::spawn(async move { post(listen, CHAT, &[], &question("hi")).await });
    until("the agent is full", || edge.running() == 1).await;
    let mut codes = Vec::new();
    for _ in 0..3 {
        codes.push(post(world.listen, CHAT, &[], &question("hi")).await.code());
    }
    assert!(codes.iter().any(|code| code == "overflow_capped"), "{codes:?}");
    assert_eq!(cloud.count(), 0);
    edge.release();
    assert_eq!(held.await.unwrap().status, 200);
}

#[tokio::test]
async fn a_tier_that_blames_the_caller_is_believed_and_not_punished() {
    let agent = Scripted::new("small", 4, Act::Status(400, vec![]));
    let mut world = world(&agent).await;
    world.start().await;
    for _ in 0..5 {
        let reply = post(world.listen, CHAT, &[], &question("hi")).await;
        is(&reply, 400, "invalid_request");
        let message: Value = reply.json()["error"]["message"].clone();
        assert!(message.as_str().unwrap().contains("status 400") && !message.to_string().contains("UPSTREAM-WORDS"));
    }
    assert_eq!(agent.count(), 5, "a client's mistakes open no breaker");
}

/// A device says which field it means: its words stay there, the place comes through, and as the client wrote it.
#[tokio::test]
async fn the_place_that_a_device_blames_comes_through_in_the_clients_own_language() {
    let agent = Scripted::new("small", 4, Act::Blame(422, "/messages/1/content"));
    let mut world = world(&agent).await;
    world.start().await;
    let reply = post(world.listen, CHAT, &[], &question("hi")).await;
    is(&reply, 400, "invalid_request");
    assert_eq!(reply.json()["error"]["param"], "/messages/1/content");
    let text = |reply: &Reply| String::from_utf8_lossy(&reply.body).into_owned();
    assert!(text(&reply).contains("check /messages/1/content") && !text(&reply).contains("UPSTREAM-WORDS"));
    // A system prompt is the first message of the call; so the second is the first of Anthropic's.
    let user = json!([{"role": "user", "content": "hi"}]);
    let asked = json!({"model": "auto", "max_tokens": 8, "system": "be brief", "messages": user});
    let reply = post(world.listen, "/v1/messages", &[], &asked).await;
    assert!(text(&reply).contains("check /messages/0"), "{}", text(&reply));

    // What no place looks like is not passed on: it might be content.
    let agent = Scripted::new("small", 4, Act::Blame(422, "/messages/0/secret words"));
    let mut world = self::world(&agent).await;
    world.start().await;
    let reply = post(world.listen, CHAT, &[], &question("hi")).await;
    assert_eq!(reply.json()["error"]["param"], Value::Null);
    assert!(!text(&reply).contains("secret"));
}
