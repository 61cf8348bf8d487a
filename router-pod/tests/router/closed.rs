//! Fail closed: what may not leave does not, whatever else goes wrong. Each zero stands beside a one.

use std::sync::Arc;

use crate::support::{Act, Scripted, World, post, question, until};
use serde_json::json;
use terrace_contract::tier::Backend;
use terrace_contract::trust::{Boundary, Class};

const CHAT: &str = "/v1/chat/completions";
const RESTRICTED: [(&str, &str); 1] = [("x-terrace-class", "Restricted")];

async fn edge_and_cloud(edge: &Arc<Scripted>, cloud: &Arc<Scripted>) -> World {
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[edge]).await;
    world.endpoint("cloud", Boundary::Public, cloud).await;
    world
}

#[tokio::test]
async fn a_restricted_request_is_answered_inside_or_not_at_all() {
    let (edge, cloud) = (Scripted::new("small", 4, Act::Say("near")), Scripted::new("big", 8, Act::Say("far")));
    let mut world = edge_and_cloud(&edge, &cloud).await;
    world.start().await;
    let reply = post(world.listen, CHAT, &RESTRICTED, &question("hi")).await;
    assert_eq!(reply.content(), "near", "{reply:?}");

    // The permitted tier is gone: an error that says so, and nothing at the endpoint.
    world.snapshot.devices.clear();
    world.snapshot.generations.policy += 1;
    world.publish();
    let revision = world.snapshot.revision.clone();
    until("the router has the new snapshot", || !revision.is_empty()).await;
    let mut reply = post(world.listen, CHAT, &RESTRICTED, &question("hi")).await;
    while reply.status == 200 {
        reply = post(world.listen, CHAT, &RESTRICTED, &question("hi")).await;
    }
    assert_eq!((reply.status.as_u16(), reply.code().as_str()), (503, "permitted_tiers_unavailable"), "{reply:?}");
    assert_eq!(reply.header("x-should-retry"), "false");
    assert!(reply.header("retry-after").parse::<u64>().unwrap() >= 1);
    assert!(reply.header("x-terrace-reason").contains("boundary"), "{reply:?}");
    assert_eq!(cloud.count(), 0);

    let reply = post(world.listen, CHAT, &[], &question("hi")).await;
    assert_eq!((reply.content().as_str(), cloud.count()), ("far", 1), "the same request as Public goes out");
}

#[tokio::test]
async fn failing_full_and_dead_tiers_never_widen_a_boundary() {
    for act in [Act::Status(500, vec![]), Act::Status(429, vec![]), Act::Nonsense, Act::Cut("")] {
        let (edge, cloud) = (Scripted::new("small", 4, act.clone()), Scripted::new("big", 8, Act::Say("far")));
        let mut world = edge_and_cloud(&edge, &cloud).await;
        world.start().await;
        for _ in 0..5 {
            let reply = post(world.listen, CHAT, &RESTRICTED, &question("hi")).await;
            assert!(reply.status.is_server_error(), "{act:?}: {reply:?}");
        }
        assert_eq!(cloud.count(), 0, "{act:?}");
        let reply = post(world.listen, CHAT, &[], &question("hi")).await;
        assert_eq!((reply.status.as_u16(), cloud.count()), (200, 1), "{act:?}: {reply:?}");
    }
}

#[tokio::test]
async fn what_the_detector_finds_stays_inside() {
    let cloud = Scripted::new("big", 8, Act::Say("far"));
    let mut world = World::new();
    world.endpoint("cloud", Boundary::Public, &cloud).await;
    world.start().await;
    let reply = post(world.listen, CHAT, &[], &question("my card is 4111 1111 1111 1111")).await;
    assert_eq!((reply.status.as_u16(), reply.code().as_str()), (403, "boundary_denied"), "{reply:?}");
    assert_eq!(reply.header("x-should-retry"), "false");
    assert!(reply.header("x-terrace-reason").contains("class_detector"), "{reply:?}");
    assert_eq!(cloud.count(), 0);
    let reply = post(world.listen, CHAT, &[], &question("my cat is 4 years old")).await;
    assert_eq!((reply.status.as_u16(), cloud.count()), (200, 1));
}

#[tokio::test]
async fn a_conversation_that_was_sensitive_stays_so() {
    let cloud = Scripted::new("big", 8, Act::Say("far"));
    let mut world = World::new();
    world.endpoint("cloud", Boundary::Public, &cloud).await;
    world.start().await;
    let session = ("x-terrace-session", "s-1");
    let reply = post(world.listen, CHAT, &[session, ("x-terrace-class", "Restricted")], &question("hi")).await;
    assert_eq!(reply.code(), "boundary_denied");
    let reply = post(world.listen, CHAT, &[session], &question("and now?")).await;
    assert_eq!(reply.code(), "boundary_denied", "{reply:?}");
    assert!(reply.header("x-terrace-reason").contains("class_session"));
    assert_eq!(cloud.count(), 0);
    let reply = post(world.listen, CHAT, &[("x-terrace-session", "s-2")], &question("and now?")).await;
    assert_eq!((reply.status.as_u16(), cloud.count()), (200, 1));
}

#[tokio::test]
async fn of_several_labels_the_highest_counts_and_other_headers_come_once() {
    let cloud = Scripted::new("big", 8, Act::Say("far"));
    let mut world = World::new();
    world.endpoint("cloud", Boundary::Public, &cloud).await;
    world.start().await;
    let class = |value| ("x-terrace-class", value);
    for labels in [["Public", "Restricted"], ["Restricted", "Public"]] {
        let reply = post(world.listen, CHAT, &labels.map(class), &question("hi")).await;
        assert_eq!(reply.code(), "boundary_denied", "{labels:?}: {reply:?}");
    }
    let reply = post(world.listen, CHAT, &["Public", "Secret"].map(class), &question("hi")).await;
    assert_eq!((reply.status.as_u16(), reply.code().as_str()), (400, "invalid_request"), "{reply:?}");
    for name in ["x-terrace-session", "x-terrace-feature", "x-terrace-prefer"] {
        let twice = [(name, "cost"), (name, "privacy")];
        let reply = post(world.listen, CHAT, &twice, &question("hi")).await;
        assert_eq!((reply.status.as_u16(), reply.code().as_str()), (400, "invalid_request"), "{name}: {reply:?}");
        assert!(reply.json()["error"]["message"].as_str().unwrap().contains(name), "{reply:?}");
    }
    let reply = post(world.listen, CHAT, &[("x-terrace-prefer", "speed")], &question("hi")).await;
    assert_eq!((reply.status.as_u16(), reply.code().as_str()), (400, "invalid_request"), "{reply:?}");
    assert!(reply.json()["error"]["message"].as_str().unwrap().contains("privacy, latency, cost"), "{reply:?}");
    let reply = post(world.listen, CHAT, &[("x-terrace-session", "s-é")], &question("hi")).await;
    assert_eq!((reply.status.as_u16(), reply.code().as_str()), (400, "invalid_request"), "{reply:?}");
    assert_eq!(cloud.count(), 0);
    let reply = post(world.listen, CHAT, &["Public", "Public"].map(class), &question("hi")).await;
    assert_eq!((reply.status.as_u16(), cloud.count()), (200, 1), "{reply:?}");
}

/// It was 503 "try again later", which no time would have changed.
#[tokio::test]
async fn a_restricted_request_whose_only_tier_is_plain_http_is_told_what_to_change() {
    let private = Scripted::new("big", 8, Act::Say("x"));
    let mut world = World::new();
    world.endpoint("private", Boundary::Private, &private).await;
    let Backend::Endpoint(endpoint) = &mut world.snapshot.tiers[0].backend else { panic!("an endpoint") };
    endpoint.url = endpoint.url.replace("https:", "http:");
    world.start().await;
    let reply = post(world.listen, CHAT, &[("x-terrace-class", "Restricted")], &question("hi")).await;
    assert_eq!((reply.status.as_u16(), reply.code().as_str()), (403, "boundary_denied"), "{reply:?}");
    let message = reply.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("plain http") && message.contains("spec.backend.endpoint.url"), "{message}");
    assert_eq!((reply.header("retry-after"), private.count()), ("", 0), "{reply:?}");
}

#[tokio::test]
async fn a_private_endpoint_outside_its_ranges_is_never_dialled() {
    let private = Scripted::new("big", 8, Act::Say("x"));
    for (loopback, want) in [(false, 503), (true, 200)] {
        let mut world = World::new();
        world.endpoint("private", Boundary::Private, &private).await;
        world.publish();
        let snapshot = format!("--snapshot={}", world.path("snapshot.json").display());
        let mut args = vec![snapshot.as_str()];
        args.extend(loopback.then_some("--allow-loopback"));
        world.start_with(&args).await;
        world.ready().await;
        let reply = post(world.listen, CHAT, &[], &question("hi")).await;
        assert_eq!(reply.status.as_u16(), want, "{reply:?}");
        if !loopback {
            assert!(reply.header("x-terrace-reason").contains("address_denied"), "{reply:?}");
            assert_eq!(private.count(), 0);
        }
    }
}

#[tokio::test]
async fn an_agent_of_another_tier_gets_nothing() {
    let agent = Scripted::new("small", 4, Act::Say("x"));
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[&agent]).await;
    let other = terrace_identity::Identity::tier(crate::support::fleet::CLUSTER, "shop", "other");
    let address = world.serve_agent(&other, &agent).await;
    world.snapshot.devices[0].port = address.port();
    world.start().await;
    let reply = post(world.listen, CHAT, &[], &question("hi")).await;
    assert_eq!(reply.code(), "permitted_tiers_unavailable", "{reply:?}");
    assert_eq!(agent.count(), 0);
}

#[tokio::test]
async fn a_missing_credential_rules_a_tier_out_and_a_new_one_brings_it_back() {
    let cloud = Scripted::new("big", 8, Act::Say("far"));
    let mut world = World::new();
    world.endpoint("cloud", Boundary::Public, &cloud).await;
    let key = world.path("credentials/uid-cloud/apiKey");
    std::fs::remove_file(&key).unwrap();
    world.start().await;
    let reply = post(world.listen, CHAT, &[], &question("hi")).await;
    assert_eq!(reply.code(), "permitted_tiers_unavailable");
    assert!(reply.header("x-terrace-reason").contains("credential"), "{reply:?}");
    std::fs::write(&key, "sk-new").unwrap();
    let reply = post(world.listen, CHAT, &[], &question("hi")).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(cloud.last_headers()["authorization"], "Bearer sk-new");
}

#[tokio::test]
async fn fields_that_reach_out_need_a_clearance_for_public() {
    let edge = Scripted::new("small", 4, Act::Say("near"));
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[&edge]).await;
    world.snapshot.policy.sensitivity.unlabelled = Class::Internal;
    world.start().await;
    for (field, value) in [
        ("api_base", json!("http://elsewhere")),
        ("user_config", json!({})),
        ("fallbacks", json!(["x"])),
        ("web_search_options", json!({})),
        ("mcp_servers", json!([{}])),
        ("store", json!(true)),
        ("previous_response_id", json!("r")),
        ("tools", json!([{"type": "mcp"}])),
        ("tools", json!([{"type": null, "server_url": "http://elsewhere"}])),
        ("tool_choice", json!({"type": "web_search"})),
        ("prediction", json!({"type": "content", "content": [{"type": "file", "file": {"file_id": "f"}}]})),
        ("messages", json!([{"role": "user", "content": [{"type": "input_file", "file_url": "http://elsewhere"}]}])),
        ("messages", json!([{"role": "user", "content": [{"type": "hologram", "x": "http://elsewhere"}]}])),
    ] {
        let mut body = question("hi");
        body[field] = value;
        let reply = post(world.listen, CHAT, &[], &body).await;
        assert_eq!((reply.status.as_u16(), reply.code().as_str()), (400, "invalid_request"), "{field}: {reply:?}");
        assert!(reply.json()["error"]["param"].as_str().unwrap().starts_with(&format!("/{field}")), "{reply:?}");
    }
    assert_eq!(edge.count(), 0);
    assert_eq!(post(world.listen, CHAT, &[], &question("hi")).await.status, 200);
}

#[tokio::test]
async fn what_has_nowhere_else_to_go_is_tried_though_a_breaker_is_open() {
    let (edge, cloud) = (Scripted::new("small", 4, Act::Status(500, vec![])), Scripted::new("big", 8, Act::Say("far")));
    let mut world = edge_and_cloud(&edge, &cloud).await;
    world.start().await;
    // Its breaker is open: what may go elsewhere does, without asking it.
    while post(world.listen, CHAT, &[], &question("hi")).await.header("x-terrace-reason").contains("retried") {}
    let asked = edge.count();
    let spared = post(world.listen, CHAT, &[], &question("hi")).await;
    assert_eq!((spared.content().as_str(), edge.count()), ("far", asked), "{spared:?}");
    // It works again, which nobody knows yet.
    edge.always(Act::Say("near"));
    let far = cloud.count();
    let reply = post(world.listen, CHAT, &RESTRICTED, &question("hi")).await;
    assert_eq!((reply.content().as_str(), cloud.count()), ("near", far), "{reply:?}");
    // What went well closed it.
    assert_eq!(post(world.listen, CHAT, &[], &question("hi")).await.content(), "near");
}
