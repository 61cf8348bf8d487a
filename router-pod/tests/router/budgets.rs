//! Which time of a budget ends what: docs/budgets.md.

use crate::support::{Act, Scripted, World, post, stream, streamed, until};
use serde_json::json;
use terrace_contract::policy::OnMiss;
use terrace_contract::trust::Boundary;
use tokio::io::AsyncWriteExt as _;

const CHAT: &str = "/v1/chat/completions";

#[tokio::test]
async fn reject_refuses_a_stream_that_has_not_begun_in_time_though_nothing_else_may_answer() {
    let agent = Scripted::new("small", 4, Act::Stall);
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[&agent]).await;
    world.budget("strict", &["strict"], 1_000, 60_000, OnMiss::Reject);
    world.start().await;
    let feature = [("x-terrace-feature", "strict")];
    let asked = std::time::Instant::now();
    let refused = post(world.listen, CHAT, &feature, &streamed("hi")).await;
    assert_eq!((refused.status.as_u16(), refused.code().as_str()), (504, "budget_exceeded"), "{refused:?}");
    assert!((1.0..20.0).contains(&asked.elapsed().as_secs_f64()), "{:?}", asked.elapsed());
    let message = refused.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("spec.firstToken"), "{message}");
    assert_eq!(agent.count(), 1, "it was tried");
}

#[tokio::test]
async fn a_stream_ends_with_its_budget_unless_it_may_be_late() {
    let agent = Scripted::new("small", 8, Act::Pause("one two"));
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[&agent]).await;
    world.budget("strict", &["strict"], 900, 1_000, OnMiss::Overflow);
    world.budget("late", &["late"], 900, 1_000, OnMiss::Degrade);
    world.start().await;
    let mut late = stream(world.listen, CHAT, &[("x-terrace-feature", "late")], &streamed("hi")).await;
    let messages = json!([{"role": "user", "content": "hi"}]);
    for (path, body) in [
        (CHAT, streamed("hi")),
        ("/v1/messages", json!({"model": "auto", "messages": messages, "max_tokens": 9, "stream": true})),
        ("/v1/responses", json!({"model": "auto", "input": "hi", "stream": true})),
    ] {
        let asked = std::time::Instant::now();
        let events = stream(world.listen, path, &[("x-terrace-feature", "strict")], &body).await.rest().await;
        assert!((1.0..15.0).contains(&asked.elapsed().as_secs_f64()), "{path}: {:?}", asked.elapsed());
        assert!(events.iter().any(|event| event.contains("one ")), "{path}: {events:?}");
        let last = events.last().unwrap();
        assert!(last.contains("LatencyBudget spec.total"), "{path}: {events:?}");
        assert!(path != CHAT || last.contains("budget_exceeded"), "{path}: {events:?}");
    }
    // Each ended at its tier too; the one that may be late has waited through all of them.
    until("its tier ended the work", || agent.cancelled() == 3).await;
    assert!(late.next().await.unwrap().contains("one "));
    agent.release();
    let rest = late.rest().await;
    assert!(rest.last().unwrap() == "[DONE]" && rest.iter().any(|event| event.contains("two")), "{rest:?}");
    world.until_metrics("outcome=\"failed\"} 3").await;
}

#[tokio::test]
async fn a_client_that_does_not_read_its_stream_gives_its_place_back() {
    // More than the sockets on the way hold.
    let word: &str = "x".repeat(1 << 16).leak();
    let part = json!({"index": 0, "delta": {"content": word}});
    let agent = Scripted::new("small", 4, Act::Choices(vec![part; 400], true));
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[&agent]).await;
    world.budget("strict", &["strict"], 900, 1_000, OnMiss::Overflow);
    world.start().await;
    let body = streamed("hi").to_string();
    let mut client = tokio::net::TcpStream::connect(world.listen).await.unwrap();
    let head = format!(
        "POST {CHAT} HTTP/1.1\r\nhost: router\r\nx-terrace-feature: strict\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    client.write_all(head.as_bytes()).await.unwrap();
    until("a tier works", || agent.count() == 1).await;
    let app = std::sync::Arc::clone(&world.running.as_ref().unwrap().app);
    until("its place is free", || app.concurrency.now() == 0).await;
    until("its tier ended the work", || agent.cancelled() == 1).await;
    world.until_metrics("outcome=\"cancelled\"} 1").await;
    drop(client);
}
