//! What has hurt other routers, each a test by name. docs/testing.md lists which test is which scar's.

use std::time::{Duration, Instant};

use crate::support::{Act, Scripted, World, client, post, question, stream, streamed, until};
use serde_json::json;
use terrace_contract::policy::OnMiss;
use terrace_contract::tier::Backend;
use terrace_contract::trust::Boundary;

const CHAT: &str = "/v1/chat/completions";

#[tokio::test]
async fn requests_that_come_at_once_never_take_the_same_last_slot() {
    let agents = [0; 3].map(|_| Scripted::new("small", 1, Act::Hold("near")));
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &agents.each_ref()).await;
    world.start().await;
    // Each has said that it has a slot.
    let listen = world.listen;
    let asked: Vec<_> =
        (0..3).map(|_| tokio::spawn(async move { post(listen, CHAT, &[], &question("hi")).await })).collect();
    until("each agent has one", || agents.iter().all(|agent| agent.running() == 1)).await;
    agents.iter().for_each(|agent| agent.release());
    for reply in asked {
        assert_eq!(reply.await.unwrap().content(), "near");
    }
    assert!(agents.iter().all(|agent| agent.count() == 1), "none was asked for a second and refused it");
}

#[tokio::test]
async fn a_whole_answer_that_is_none_is_tried_elsewhere_as_a_stream_is() {
    for act in [
        Act::Nonsense,
        Act::Body("{\"hello\": 1}"),
        Act::Body("{\"choices\": []}"),
        Act::Body("{\"choices\": [{\"index\": 0}]}"),
        Act::Cut(""),
        Act::Status(503, vec![]),
        Act::Status(302, vec![("location", "/x")]),
    ] {
        let (edge, cloud) = (Scripted::new("small", 4, act.clone()), Scripted::new("big", 8, Act::Say("far")));
        let mut world = World::new();
        world.agents("edge", Boundary::Device, &[&edge]).await;
        world.endpoint("cloud", Boundary::Public, &cloud).await;
        world.start().await;
        let reply = post(world.listen, CHAT, &[], &question("hi")).await;
        assert_eq!(reply.content(), "far", "{act:?}: {reply:?}");
        assert!(reply.header("x-terrace-reason").contains("retried"), "{act:?}: {reply:?}");
        assert_eq!((edge.count(), cloud.count()), (1, 1), "{act:?}");
    }
}

#[tokio::test]
async fn a_whole_answer_that_stalls_is_given_up_for_another_tier() {
    let (edge, cloud) = (Scripted::new("small", 4, Act::Stall), Scripted::new("big", 8, Act::Say("far")));
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[&edge]).await;
    world.endpoint("cloud", Boundary::Public, &cloud).await;
    world.budget("quick", &["quick"], 300, 20_000, OnMiss::Overflow);
    world.start().await;
    let reply = post(world.listen, CHAT, &[("x-terrace-feature", "quick")], &question("hi")).await;
    assert_eq!(reply.content(), "far", "{reply:?}");
    if edge.count() == 1 {
        until("the stalled request is cancelled", || edge.cancelled() == 1).await;
    }
}

#[tokio::test]
async fn a_peer_that_accepts_and_says_nothing_is_given_up_after_three_seconds() {
    let edge = Scripted::new("small", 4, Act::Say("near"));
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[&edge]).await;
    // The kernel accepts for it; nobody ever speaks TLS.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    world.snapshot.devices[0].port = silent.local_addr().unwrap().port();
    world.start().await;
    let begun = Instant::now();
    let reply = post(world.listen, CHAT, &[], &question("hi")).await;
    assert_eq!(reply.code(), "permitted_tiers_unavailable", "{reply:?}");
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    assert_eq!(edge.count(), 0);
}

#[tokio::test]
async fn retries_spend_from_a_budget_and_do_not_bury_what_is_left() {
    const REQUESTS: usize = 60;
    let (edge, cloud) = (Scripted::new("small", 4, Act::Say("near")), Scripted::new("big", 8, Act::Say("far")));
    // Two failures, then an answer: the breaker stays closed, and two requests in three need a retry.
    for n in 0..REQUESTS {
        edge.next(if n % 3 == 2 { Act::Say("near") } else { Act::Status(500, vec![]) });
    }
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[&edge]).await;
    world.endpoint("cloud", Boundary::Public, &cloud).await;
    world.start().await;
    let mut rescued_before_the_first_failure = None;
    let mut failed = 0;
    for _ in 0..REQUESTS {
        let reply = post(world.listen, CHAT, &[], &question("hi")).await;
        if reply.status != 200 {
            assert_eq!(reply.code(), "upstream_failed", "{reply:?}");
            rescued_before_the_first_failure.get_or_insert(cloud.count());
            failed += 1;
        }
    }
    // Ten are there at the start, and each request brings a fifth of one.
    assert!(rescued_before_the_first_failure.is_some_and(|n| n >= 10), "{rescued_before_the_first_failure:?}");
    assert!(cloud.count() <= 10 + REQUESTS / 5, "{} retries", cloud.count());
    assert!(failed >= 10, "{failed}");
}

#[tokio::test]
async fn a_device_that_begins_well_and_breaks_each_time_is_spared() {
    let (edge, cloud) = (Scripted::new("small", 4, Act::Cut("one two")), Scripted::new("big", 8, Act::Say("far")));
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[&edge]).await;
    world.endpoint("cloud", Boundary::Public, &cloud).await;
    world.start().await;
    for n in 0..5 {
        let events = stream(world.listen, CHAT, &[], &streamed("hi")).await.rest().await;
        let want = if n < 3 { "one two" } else { "far" };
        assert_eq!(client::text(&events), want, "{n}: {events:?}");
    }
    assert_eq!((edge.count(), cloud.count()), (3, 2), "three that break open the breaker");
}

#[tokio::test]
async fn a_fallback_keeps_to_its_targets_own_limits() {
    let (edge, cloud) = (Scripted::new("small", 4, Act::Status(500, vec![])), Scripted::new("big", 8, Act::Say("far")));
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[&edge]).await;
    world.endpoint("cloud", Boundary::Public, &cloud).await;
    let Backend::Endpoint(endpoint) = &mut world.snapshot.tiers[1].backend else { unreachable!() };
    endpoint.limits.requests_per_minute = Some(1);
    world.start().await;
    let first = post(world.listen, CHAT, &[], &question("hi")).await;
    assert_eq!(first.content(), "far", "{first:?}");
    let second = post(world.listen, CHAT, &[], &question("hi")).await;
    assert!(second.status.is_server_error(), "{second:?}");
    assert_eq!((edge.count(), cloud.count()), (2, 1), "one a minute is one a minute");
}

#[tokio::test]
async fn a_stream_cut_after_its_reason_to_finish_is_a_whole_answer() {
    let said = json!({"index": 0, "delta": {"content": "all"}, "finish_reason": null});
    let stop = json!({"index": 0, "delta": {}, "finish_reason": "stop"});
    let edge = Scripted::new("small", 4, Act::Choices(vec![said, stop], false));
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[&edge]).await;
    world.start().await;
    let events = stream(world.listen, CHAT, &[], &streamed("hi")).await.rest().await;
    assert_eq!(client::text(&events), "all");
    assert_eq!(events.last().unwrap(), "[DONE]", "{events:?}");
    assert!(!events.concat().contains("error"), "{events:?}");
}

#[test]
fn hyper_is_past_its_smuggling_fix_and_one_provider_signs() {
    let lock = include_str!("../../../Cargo.lock");
    let of = |name: &str| -> Vec<Vec<u32>> {
        let packages = lock.split("[[package]]").filter(|p| p.contains(&format!("\nname = \"{name}\"\n")));
        let versions = packages.filter_map(|p| p.split_once("version = \"")?.1.split_once('"').map(|(v, _)| v));
        versions.map(|v| v.split('.').filter_map(|n| n.parse().ok()).collect()).collect()
    };
    assert!(of("hyper").iter().all(|version| *version >= vec![1, 12]), "{:?}", of("hyper"));
    assert_eq!(of("rustls").len(), 1, "one TLS");
    assert!(of("aws-lc-rs").is_empty() && of("openssl").is_empty(), "ring is the one provider");
}
