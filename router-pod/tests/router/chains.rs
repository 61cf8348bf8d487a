//! Calls of a session that share one budget.

use crate::support::{Act, Reply, Scripted, World, post, question, until};
use serde_json::{Value, json};
use std::sync::Arc;
use terrace_contract::policy::{Chain, OnMiss};
use terrace_contract::trust::Boundary;

const CHAT: &str = "/v1/chat/completions";
const EXPLAIN: &str = "/v1/explain";
const CARD: &str = "pay with 4111 1111 1111 1111";

/// A router with one device, whose feature `agent` has chains of two calls and so many milliseconds.
async fn world(agent: &Arc<Scripted>, total_ms: u64, on_miss: OnMiss) -> World {
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[agent]).await;
    world.budget("agent", &["agent"], 15_000, 20_000, on_miss);
    world.snapshot.budgets[0].chain = Some(Chain { max_hops: 2, total_us: total_ms * 1000 });
    world.start().await;
    world
}

async fn call(to: std::net::SocketAddr, path: &str, session: &str, body: &Value) -> Reply {
    post(to, path, &[("x-terrace-feature", "agent"), ("x-terrace-session", session)], body).await
}

/// Starts another replica beside the one there is, and returns where that one listens.
async fn second_replica(world: &mut World) -> std::net::SocketAddr {
    let first = world.running.take().unwrap().addresses.listen;
    let snapshot = format!("--snapshot={}", world.path("snapshot.json").display());
    world.start_with(&[&snapshot, "--allow-loopback"]).await;
    world.ready().await;
    first
}

#[tokio::test]
async fn past_its_calls_a_chain_is_refused_and_told_so() {
    let agent = Scripted::new("small", 4, Act::Say("x"));
    let world = world(&agent, 60_000, OnMiss::Overflow).await;
    for hop in 1..=2 {
        let explained = call(world.listen, EXPLAIN, "s", &question("hi")).await.json();
        assert_eq!(
            (&explained["signals"]["chain"]["hop"], &explained["signals"]["chain"]["maxHops"]),
            (&json!(hop), &json!(2))
        );
        assert_eq!(call(world.listen, CHAT, "s", &question("hi")).await.status, 200);
    }
    let refused = call(world.listen, CHAT, "s", &question("hi")).await;
    assert_eq!((refused.status.as_u16(), refused.code().as_str()), (504, "budget_exceeded"), "{refused:?}");
    assert!(refused.json()["error"]["message"].as_str().unwrap().contains("spec.chain.maxHops"), "{refused:?}");
    assert!(refused.header("x-terrace-reason").starts_with("chain_hops"), "{refused:?}");
    assert_eq!(refused.header("x-should-retry"), "false");
    let explained = call(world.listen, EXPLAIN, "s", &question("hi")).await.json();
    assert_eq!(explained["refusal"]["code"], "budget_exceeded");
    // The controls: another session, and another feature of the same one.
    assert_eq!(call(world.listen, CHAT, "t", &question("hi")).await.status, 200);
    assert_eq!(post(world.listen, CHAT, &[("x-terrace-session", "s")], &question("hi")).await.status, 200);
    assert_eq!(agent.count(), 4);
}

#[tokio::test]
async fn a_call_that_comes_to_nothing_is_none_of_the_chains() {
    let agent = Scripted::new("small", 4, Act::Say("x"));
    let world = world(&agent, 60_000, OnMiss::Overflow).await;
    for _ in 0..3 {
        let refused = call(world.listen, CHAT, "s", &json!({"model": "none", "messages": []})).await;
        assert!(refused.status.is_client_error());
        // Too long for any tier: it is refused once it has been counted.
        let long = call(world.listen, CHAT, "s", &question(&"word ".repeat(9_000))).await;
        assert_eq!(long.code(), "context_too_long", "{long:?}");
    }
    for _ in 0..2 {
        assert_eq!(call(world.listen, CHAT, "s", &question("hi")).await.status, 200);
    }
    assert_eq!(call(world.listen, CHAT, "s", &question("hi")).await.code(), "budget_exceeded");
}

#[tokio::test]
async fn a_calls_deadline_is_the_smaller_of_its_budget_and_what_the_chain_has_left() {
    let agent = Scripted::new("small", 4, Act::Say("x"));
    let world = world(&agent, 5_000, OnMiss::Overflow).await;
    let deadline = |agent: &Scripted| -> u64 {
        agent.last_headers().get("x-terrace-deadline-ms").unwrap().to_str().unwrap().parse().unwrap()
    };
    call(world.listen, CHAT, "s", &question("hi")).await;
    assert!((4_000..5_000).contains(&deadline(&agent)), "{}", deadline(&agent));
    // Without a session the budget's own.
    post(world.listen, CHAT, &[("x-terrace-feature", "agent")], &question("hi")).await;
    assert!((15_000..20_000).contains(&deadline(&agent)), "{}", deadline(&agent));
}

#[tokio::test]
async fn past_its_time_a_chain_is_refused_and_told_so() {
    let agent = Scripted::new("small", 4, Act::Stall);
    let world = world(&agent, 700, OnMiss::Overflow).await;
    let first = call(world.listen, CHAT, "s", &question("hi")).await;
    assert_eq!(first.code(), "budget_exceeded");
    assert!(first.header("x-terrace-reason").starts_with("chain_time"), "{first:?}");
    assert!(first.json()["error"]["message"].as_str().unwrap().contains("spec.chain.total"), "{first:?}");
    let second = call(world.listen, CHAT, "s", &question("hi")).await;
    assert_eq!(second.code(), "budget_exceeded");
    assert!(second.header("x-terrace-reason").starts_with("chain_time"), "{second:?}");
    assert!(second.json()["error"]["message"].as_str().unwrap().contains("has used up its 700 ms"), "{second:?}");
    assert_eq!(agent.count(), 1, "the second was not sent");
    until("the first is cancelled", || agent.cancelled() == 1).await;
}

#[tokio::test]
async fn with_degrade_a_call_past_its_chain_is_answered_and_marked() {
    let agent = Scripted::new("small", 4, Act::Say("x"));
    let world = world(&agent, 60_000, OnMiss::Degrade).await;
    for (want, reason) in [("full", "nearest"), ("full", "nearest"), ("degraded", "chain_hops,degraded")] {
        let reply = call(world.listen, CHAT, "s", &question("hi")).await;
        assert_eq!((reply.header("x-terrace-quality"), reply.header("x-terrace-reason")), (want, reason), "{reply:?}");
    }
}

#[tokio::test]
async fn every_replica_honours_the_token_of_a_session() {
    let agent = Scripted::new("small", 4, Act::Say("x"));
    let mut world = world(&agent, 60_000, OnMiss::Overflow).await;
    let first = second_replica(&mut world).await;
    let (second, hop) = (world.listen, |reply: &Reply| reply.json()["signals"]["chain"]["hop"].clone());

    let answered = call(first, CHAT, "s", &question(CARD)).await;
    let token = answered.header("x-terrace-session").to_owned();
    assert!(token.starts_with("terrace1.") && !token.contains("4111"), "{token}");
    let there = call(second, EXPLAIN, &token, &question("hi")).await;
    assert_eq!(
        (hop(&there), &there.json()["signals"]["classReasons"]),
        (json!(2), &json!(["class_session"])),
        "{there:?}"
    );
    // Who sends the id alone is another chain there, and the same one where it was.
    let alone = call(second, EXPLAIN, "s", &question("hi")).await;
    assert_eq!((hop(&alone), &alone.json()["signals"]["class"]), (json!(1), &json!("Public")));
    assert_eq!(hop(&call(first, EXPLAIN, "s", &question("hi")).await), json!(2));

    let answered = call(second, CHAT, &token, &question("hi")).await;
    assert_eq!(answered.status, 200);
    let token = answered.header("x-terrace-session").to_owned();
    let refused = call(first, CHAT, &token, &question("hi")).await;
    assert!(refused.header("x-terrace-reason").starts_with("chain_hops"), "two calls, at two replicas: {refused:?}");
    // What was sensitive stays so at the other one too, even if it was refused.
    let refused = call(first, CHAT, "u", &question(&format!("{CARD} {}", "word ".repeat(9_000)))).await;
    assert_eq!(refused.code(), "context_too_long", "{refused:?}");
    let there = call(second, EXPLAIN, refused.header("x-terrace-session"), &question("hi")).await;
    assert_eq!((hop(&there), &there.json()["signals"]["class"]), (json!(1), &json!("Restricted")));
    // A token that was changed is an id like any other.
    let forged = token.replacen("terrace1.", "terrace1.A", 1);
    assert_eq!(hop(&call(first, EXPLAIN, &forged, &question("hi")).await), json!(1));
}

/// A client that sends its own id each time and then the token of the refusal had a chain of its own at each replica.
#[tokio::test]
async fn the_token_of_a_refused_call_carries_its_chain_to_the_next_replica() {
    let agent = Scripted::new("small", 4, Act::Say("x"));
    let mut world = world(&agent, 60_000, OnMiss::Overflow).await;
    let first = second_replica(&mut world).await;
    for _ in 0..2 {
        assert_eq!(call(first, CHAT, "s", &question("hi")).await.status, 200);
    }
    let refused = call(first, CHAT, "s", &question("hi")).await;
    assert_eq!(refused.code(), "budget_exceeded", "{refused:?}");
    let there = call(world.listen, CHAT, refused.header("x-terrace-session"), &question("hi")).await;
    assert!(there.header("x-terrace-reason").starts_with("chain_hops"), "{there:?}");
    assert_eq!(agent.count(), 2);
}

#[tokio::test]
async fn an_empty_session_is_none_and_shared_by_nobody() {
    let agent = Scripted::new("small", 4, Act::Say("x"));
    let world = world(&agent, 60_000, OnMiss::Overflow).await;
    for empty in ["", "", " ", ""] {
        let reply = call(world.listen, CHAT, empty, &question(CARD)).await;
        assert_eq!((reply.status.as_u16(), reply.header("x-terrace-session")), (200, ""), "{reply:?}");
    }
    let explained = call(world.listen, EXPLAIN, "", &question("hi")).await.json();
    assert_eq!(explained["signals"]["class"], "Public", "{explained}");
}
