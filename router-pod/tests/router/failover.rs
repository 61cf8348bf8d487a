//! What happens when a tier is full, down, late, cut or talking nonsense.

use std::time::{Duration, Instant};

use crate::support::{Act, Scripted, World, client, post, question, stream, streamed, until};
use serde_json::Value;
use terrace_contract::policy::{Degrade, OnMiss};
use terrace_contract::trust::Boundary;

const CHAT: &str = "/v1/chat/completions";

/// An edge tier and a cloud behind it.
async fn two(edge: &std::sync::Arc<Scripted>, cloud: &std::sync::Arc<Scripted>) -> World {
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[edge]).await;
    world.endpoint("cloud", Boundary::Public, cloud).await;
    world
}

#[tokio::test]
async fn a_full_tier_overflows_to_the_next() {
    let (edge, cloud) = (Scripted::new("small", 1, Act::Hold("near")), Scripted::new("big", 8, Act::Say("far")));
    let mut world = two(&edge, &cloud).await;
    world.start().await;
    let listen = world.listen;
    let held = tokio::spawn(async move { post(listen, CHAT, &[], &question("first")).await });
    until("the agent has a request", || edge.running() == 1).await;

    let reply = post(world.listen, CHAT, &[], &question("second")).await;
    assert_eq!((reply.status.as_u16(), reply.content().as_str()), (200, "far"), "{reply:?}");
    assert_eq!(reply.header("x-terrace-tier"), "cloud");
    assert_eq!(reply.header("x-terrace-reason"), "overflow_saturated");
    edge.release();
    assert_eq!(held.await.unwrap().content(), "near");
    assert_eq!((edge.count(), cloud.count()), (1, 1));
}

#[tokio::test]
async fn a_tier_that_is_down_overflows_and_its_breaker_spares_it() {
    let (edge, cloud) = (Scripted::new("small", 4, Act::Status(500, vec![])), Scripted::new("big", 8, Act::Say("far")));
    let mut world = two(&edge, &cloud).await;
    world.start().await;
    for n in 0..6 {
        let reply = post(world.listen, CHAT, &[], &question("hi")).await;
        assert_eq!(reply.content(), "far", "{n}: {reply:?}");
        assert_eq!(reply.header("x-terrace-tier"), "cloud");
        assert!(reply.header("x-terrace-reason").contains("overflow_down"), "{n}: {reply:?}");
    }
    assert_eq!(edge.count(), 3, "three failures open the breaker");
}

#[tokio::test]
async fn an_answer_that_is_none_is_tried_elsewhere_whether_streamed_or_whole() {
    let (edge, cloud) =
        (Scripted::new("small", 4, Act::Choices(vec![], true)), Scripted::new("big", 8, Act::Say("far")));
    let mut world = two(&edge, &cloud).await;
    world.start().await;
    let reply = post(world.listen, CHAT, &[], &question("hi")).await;
    assert_eq!((reply.content().as_str(), reply.header("x-terrace-tier")), ("far", "cloud"), "{reply:?}");
    let events = stream(world.listen, CHAT, &[], &streamed("hi")).await.rest().await;
    assert_eq!((client::text(&events).as_str(), edge.count(), cloud.count()), ("far", 2, 2), "{events:?}");
}

#[tokio::test]
async fn a_tier_whose_address_is_dead_overflows() {
    let (edge, cloud) = (Scripted::new("small", 4, Act::Say("near")), Scripted::new("big", 8, Act::Say("far")));
    let mut world = two(&edge, &cloud).await;
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    world.snapshot.devices[0].port = gone.local_addr().unwrap().port();
    drop(gone);
    world.start().await;
    let reply = post(world.listen, CHAT, &[], &question("hi")).await;
    assert_eq!(reply.content(), "far", "{reply:?}");
    assert!(reply.header("x-terrace-reason").contains("overflow_down"), "{reply:?}");
    assert_eq!(edge.count(), 0);
}

#[tokio::test]
async fn a_late_tier_is_given_up_before_its_first_token() {
    let (edge, cloud) = (Scripted::new("small", 4, Act::Stall), Scripted::new("big", 8, Act::Say("far")));
    let mut world = two(&edge, &cloud).await;
    world.budget("quick", &["quick"], 300, 20_000, OnMiss::Overflow);
    world.start().await;
    world.until_metrics("terrace_snapshot_age_seconds").await;
    let begun = Instant::now();
    let events = stream(world.listen, CHAT, &[("x-terrace-feature", "quick")], &streamed("hi")).await;
    assert_eq!(events.headers["x-terrace-tier"], "cloud");
    assert_eq!(client::text(&events.rest().await), "far");
    assert!(begun.elapsed() < Duration::from_secs(15));
    if edge.count() == 1 {
        until("the stalled request is cancelled", || edge.cancelled() == 1).await;
    }
}

#[tokio::test]
async fn what_fails_before_its_first_token_is_tried_elsewhere() {
    for act in [
        Act::Nonsense,
        Act::Cut(""),
        Act::ErrorEvent(""),
        Act::Status(503, vec![]),
        Act::Status(302, vec![("location", "/x")]),
    ] {
        let (one, two) = (Scripted::new("small", 4, act.clone()), Scripted::new("small", 4, act.clone()));
        let cloud = Scripted::new("big", 8, Act::Say("far"));
        let mut world = World::new();
        world.agents("edge", Boundary::Device, &[&one, &two]).await;
        world.endpoint("cloud", Boundary::Public, &cloud).await;
        world.start().await;
        let events = stream(world.listen, CHAT, &[], &streamed("hi")).await;
        assert_eq!(events.headers["x-terrace-tier"], "cloud", "{act:?}");
        assert!(events.headers["x-terrace-reason"].to_str().unwrap().contains("retried"), "{act:?}");
        assert_eq!(client::text(&events.rest().await), "far", "{act:?}");
        assert_eq!((one.count(), two.count()), (1, 1), "{act:?}: the other device first");
    }
}

#[tokio::test]
async fn a_stream_that_breaks_after_its_first_token_says_so_and_never_switches() {
    for act in [Act::Cut("one two"), Act::ErrorEvent("one two")] {
        let (edge, cloud) = (Scripted::new("small", 4, act.clone()), Scripted::new("big", 8, Act::Say("far")));
        let mut world = two(&edge, &cloud).await;
        world.start().await;
        let events = stream(world.listen, CHAT, &[], &streamed("hi")).await.rest().await;
        assert_eq!(client::text(&events), "one two", "{act:?}");
        let n = events.len();
        let last: Value = serde_json::from_str(&events[n - 2]).unwrap();
        assert_eq!(last["choices"][0]["finish_reason"], "error", "{act:?}: {events:?}");
        let error: Value = serde_json::from_str(&events[n - 1]).unwrap();
        assert_eq!(error["error"]["code"], "upstream_failed", "{act:?}");
        assert!(!events.concat().contains("UPSTREAM-WORDS"));
        assert_eq!(cloud.count(), 0, "{act:?}");
    }
}

#[tokio::test]
async fn a_client_that_goes_away_cancels_the_upstream_request() {
    let edge = Scripted::new("small", 4, Act::Stall);
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[&edge]).await;
    world.start().await;
    for body in [question("hi"), streamed("hi")] {
        let (listen, before) = (world.listen, edge.cancelled());
        let client = tokio::spawn(async move { post(listen, CHAT, &[], &body).await });
        until("the agent has the request", || edge.running() == 1).await;
        client.abort();
        until("the agent's request is cancelled", || edge.cancelled() == before + 1).await;
    }
    world.until_metrics("outcome=\"cancelled\"} 2").await;
    world.until_metrics("terrace_requests_in_flight 0").await;
}

#[tokio::test]
async fn a_nearer_answer_is_marked_when_the_decided_tier_fails() {
    for (degrade, want) in [(Degrade::Mark, 200), (Degrade::Fail, 502)] {
        let (edge, cloud) =
            (Scripted::new("small", 4, Act::Say("near")), Scripted::new("big", 8, Act::Status(500, vec![])));
        let mut world = two(&edge, &cloud).await;
        world.snapshot.policy.weights = terrace_contract::policy::Weights::QUALITY_FIRST;
        world.snapshot.policy.degrade = degrade;
        world.snapshot.tiers[0].capability.quality = 5;
        world.snapshot.tiers[1].capability.quality = 99;
        world.start().await;
        let reply = post(world.listen, CHAT, &[("x-terrace-prefer", "quality")], &question("hi")).await;
        assert_eq!(reply.status.as_u16(), want, "{reply:?}");
        assert_eq!(cloud.count(), 1);
        if want == 200 {
            assert_eq!(reply.header("x-terrace-quality"), "degraded");
            assert!(reply.header("x-terrace-reason").contains("degraded"), "{reply:?}");
        } else {
            assert_eq!(reply.code(), "upstream_failed");
            assert!(!String::from_utf8_lossy(&reply.body).contains("UPSTREAM-WORDS"));
        }
    }
}

#[tokio::test]
async fn an_endpoint_that_asks_for_a_pause_gets_it() {
    let cloud = Scripted::new("big", 8, Act::Status(429, vec![("retry-after", "30")]));
    let mut world = World::new();
    world.endpoint("cloud", Boundary::Public, &cloud).await;
    world.start().await;
    let first = post(world.listen, CHAT, &[], &question("hi")).await;
    let second = post(world.listen, CHAT, &[], &question("hi")).await;
    assert_eq!((first.code().as_str(), second.code().as_str()), ("overloaded", "overloaded"), "{first:?} {second:?}");
    assert_eq!(cloud.count(), 1, "the second was not sent");
    let wait: u64 = second.header("retry-after").parse().unwrap();
    assert!((25..=30).contains(&wait), "{wait}");
}

#[tokio::test]
async fn a_prompt_that_a_tier_finds_too_long_goes_to_one_that_holds_more() {
    for (status, code) in [(422, "context_too_long"), (400, "context_length_exceeded")] {
        let (edge, cloud) =
            (Scripted::new("small", 4, Act::Code(status, code)), Scripted::new("big", 8, Act::Say("far")));
        let mut world = two(&edge, &cloud).await;
        world.snapshot.tiers[1].capability.context_tokens = 8192;
        world.start().await;
        for body in [question("hi"), streamed("hi")] {
            let reply = post(world.listen, CHAT, &[], &body).await;
            assert_eq!((reply.status.as_u16(), reply.header("x-terrace-tier")), (200, "cloud"), "{code}: {reply:?}");
            assert_eq!(reply.header("x-terrace-reason"), "context_length", "{code}: {reply:?}");
        }
        assert_eq!((edge.count(), cloud.count()), (2, 2), "{code}");
        assert!(world.metrics().contains("outcome=\"too_long\""));

        // The same where no tier holds more: then it is the caller's to shorten.
        let mut world = two(&edge, &cloud).await;
        world.start().await;
        let reply = post(world.listen, CHAT, &[], &question("hi")).await;
        assert_eq!((reply.status.as_u16(), reply.code().as_str()), (422, "context_too_long"), "{code}: {reply:?}");
        let message = reply.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains("too long for tier edge") && !message.contains("UPSTREAM"), "{message}");
        assert_eq!((edge.count(), cloud.count()), (3, 2), "{code}");
    }
}
