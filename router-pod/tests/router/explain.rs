//! `/v1/explain`: what would be decided, and what was.

use crate::support::{Act, Reply, Scripted, World, client, get, post, question, stream, streamed, until};
use serde_json::{Value, json};
use terrace_contract::policy::{Access, KeyRule};
use terrace_contract::trust::Boundary;

const CHAT: &str = "/v1/chat/completions";
const EXPLAIN: &str = "/v1/explain";

fn rule(name: &str) -> KeyRule {
    KeyRule { name: name.into(), ..KeyRule::default() }
}

async fn was(world: &World, id: &str, headers: &[(&str, &str)]) -> Reply {
    get(world.listen, &format!("{EXPLAIN}/{id}"), headers).await
}

/// The decision once its request has ended.
async fn ended(world: &World, id: &str) -> Value {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        let reply = was(world, id, &[]).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        if !reply.json()["became"].is_null() {
            return reply.json();
        }
        assert!(std::time::Instant::now() < deadline, "it never ended: {reply:?}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn every_api_is_explained_by_its_name_or_by_its_looks() {
    let near = Scripted::new("small", 4, Act::Say("x"));
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[&near]).await;
    world.start().await;
    let card = "pay with 4111 1111 1111 1111";
    let messages = json!([{"role": "user", "content": card}]);
    // The body, its API, and whether its members alone tell it.
    for (body, api, told) in [
        (json!({"model": "auto", "messages": messages}), "chat", true),
        (json!({"model": "auto", "prompt": card}), "completions", true),
        (json!({"model": "auto", "max_tokens": 9, "system": "be brief", "messages": messages}), "messages", true),
        (json!({"model": "auto", "max_tokens": 9, "messages": messages}), "messages", false),
        (json!({"model": "auto", "input": [{"role": "user", "content": card}]}), "responses", true),
        (json!({"model": "auto", "instructions": "be brief", "input": card}), "responses", true),
        (json!({"model": "auto", "input": card}), "responses", false),
    ] {
        let by_name = post(world.listen, &format!("{EXPLAIN}?api={api}"), &[], &body).await;
        assert_eq!(by_name.status, 200, "{api}: {by_name:?}");
        assert_eq!(
            by_name.json()["signals"]["class"],
            "Restricted",
            "{api}: what is asked is found wherever it stands"
        );
        if told {
            let by_looks = post(world.listen, EXPLAIN, &[], &body).await;
            assert_eq!(by_looks.json()["signals"], by_name.json()["signals"], "{api}");
        }
    }
    assert_eq!(near.count(), 0);
    // Its own mistakes are named in its own terms.
    let wrong = json!({"model": "auto", "max_tokens": 9, "messages": [{"role": "user", "content": 7}]});
    let reply = post(world.listen, &format!("{EXPLAIN}?api=messages"), &[], &wrong).await;
    assert_eq!(reply.code(), "invalid_request", "{reply:?}");
    assert!(reply.json()["error"]["param"].as_str().unwrap().starts_with("/messages/0/content"), "{reply:?}");
    for query in ["?api=soap", "?what", "?api=chat&api=messages"] {
        let reply = post(world.listen, &format!("{EXPLAIN}{query}"), &[], &question("hi")).await;
        assert_eq!(reply.code(), "invalid_request", "{query}: {reply:?}");
        assert!(reply.json()["error"]["message"].as_str().unwrap().contains("responses"), "{reply:?}");
    }
}

#[tokio::test]
async fn a_request_is_explained_and_sent_to_nobody() {
    let (near, cloud) = (Scripted::new("small", 4, Act::Say("x")), Scripted::new("big", 4, Act::Say("x")));
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[&near]).await;
    world.endpoint("cloud", Boundary::Public, &cloud).await;
    world.start().await;
    let reply = post(world.listen, EXPLAIN, &[], &question("pay with 4111 1111 1111 1111")).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let explained = reply.json();
    assert_eq!(explained["requestId"], Value::Null);
    assert_eq!(explained["signals"]["class"], "Restricted");
    assert_eq!(explained["signals"]["classReasons"], json!(["class_detector"]));
    assert_eq!(explained["tiers"][1]["ruledOut"], json!(["boundary"]));
    assert_eq!(explained["tiers"][1]["score"], Value::Null);
    assert_eq!(explained["decided"], "edge");
    assert_eq!(explained["attempts"][0]["nodes"], json!(["node-edge-0"]));
    assert!(explained["tiers"][0]["forecast"]["finishUs"].as_u64().unwrap() > 0);
    // The positive control: a request of no class may go there. A text completion is explained as well.
    let free = post(world.listen, EXPLAIN, &[], &json!({"model": "auto", "prompt": "hi"})).await.json();
    assert_eq!(free["tiers"][1]["ruledOut"], json!([]));
    assert_eq!((near.count(), cloud.count()), (0, 0));

    let refused = post(world.listen, EXPLAIN, &[], &json!({"model": "none", "prompt": "hi"})).await;
    assert_eq!((refused.status.as_u16(), refused.code().as_str()), (404, "model_not_found"), "{refused:?}");
    let refused = client::post_bytes(world.listen, EXPLAIN, &[], b"{".to_vec()).await;
    assert_eq!((refused.status.as_u16(), refused.code().as_str()), (400, "invalid_request"), "{refused:?}");
}

#[tokio::test]
async fn what_is_explained_raises_no_conversation() {
    let agent = Scripted::new("small", 4, Act::Say("x"));
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[&agent]).await;
    world.start().await;
    let session = [("x-terrace-session", "s")];
    post(world.listen, EXPLAIN, &session, &question("pay with 4111 1111 1111 1111")).await;
    let next = post(world.listen, EXPLAIN, &session, &question("hi")).await.json();
    assert_eq!(next["signals"]["class"], "Public");
    post(world.listen, CHAT, &session, &question("pay with 4111 1111 1111 1111")).await;
    let next = post(world.listen, EXPLAIN, &session, &question("hi")).await.json();
    assert_eq!(
        (&next["signals"]["class"], &next["signals"]["classReasons"]),
        (&"Restricted".into(), &json!(["class_session"]))
    );
}

#[tokio::test]
async fn a_decision_is_kept_with_what_became_of_it() {
    let (near, cloud) = (Scripted::new("small", 4, Act::Say("x")), Scripted::new("big", 4, Act::Say("y")));
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[&near]).await;
    world.endpoint("cloud", Boundary::Public, &cloud).await;
    world.start().await;
    let answered = post(world.listen, CHAT, &[], &question("hi there")).await;
    let kept = ended(&world, answered.header("x-terrace-request-id")).await;
    assert_eq!(kept["requestId"], answered.header("x-terrace-request-id"));
    assert_eq!(kept["revision"], world.snapshot.revision);
    assert_eq!(kept["attempts"][0]["tier"], "edge");
    assert_eq!((&kept["became"]["outcome"], &kept["became"]["tier"]), (&"Served".into(), &"edge".into()));
    assert!(kept["became"]["totalUs"].as_u64() >= kept["became"]["firstTokenUs"].as_u64());

    near.next(Act::Status(500, vec![]));
    near.next(Act::Status(500, vec![]));
    let moved = stream(world.listen, CHAT, &[], &streamed("hi there")).await;
    let id = moved.headers["x-terrace-request-id"].to_str().unwrap().to_owned();
    moved.rest().await;
    let kept = ended(&world, &id).await;
    assert_eq!((&kept["decided"], &kept["became"]["tier"]), (&"edge".into(), &"cloud".into()), "{kept}");

    cloud.always(Act::Status(500, vec![]));
    near.always(Act::Status(500, vec![]));
    let failed = post(world.listen, CHAT, &[], &question("hi there")).await;
    let kept = ended(&world, failed.header("x-terrace-request-id")).await;
    assert_eq!(kept["became"]["outcome"], "Failed", "{kept}");
}

#[tokio::test]
async fn a_decision_is_shown_to_its_own_key_and_to_no_other() {
    let agent = Scripted::new("small", 4, Act::Say("x"));
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[&agent]).await;
    world.snapshot.policy.access = Access::ApiKeys { keys: vec![rule("ci"), rule("web")] };
    std::fs::write(world.path("api-keys/ci"), "sk-ci").unwrap();
    std::fs::write(world.path("api-keys/web"), "sk-web").unwrap();
    world.start().await;
    let (ci, web) = ([("authorization", "Bearer sk-ci")], [("authorization", "Bearer sk-web")]);
    let answered = post(world.listen, CHAT, &ci, &question("hi")).await;
    let id = answered.header("x-terrace-request-id").to_owned();
    assert_eq!(was(&world, &id, &ci).await.status, 200);
    let (foreign, unknown) = (was(&world, &id, &web).await, was(&world, &"0".repeat(32), &web).await);
    assert_eq!((foreign.status.as_u16(), foreign.code().as_str()), (404, "not_found"));
    assert_eq!(foreign.body, unknown.body, "whether it is there does not show");
    for headers in [&[][..], &[("authorization", "Bearer wrong")]] {
        assert_eq!(was(&world, &id, headers).await.code(), "invalid_api_key");
        assert_eq!(post(world.listen, EXPLAIN, headers, &question("hi")).await.code(), "invalid_api_key");
    }
    let admin = get(world.admin, &format!("{EXPLAIN}/{id}"), &ci).await;
    assert_eq!(admin.status, 404, "the admin port, which asks for no key, shows none");
}

#[tokio::test]
async fn only_the_last_decisions_are_kept() {
    let agent = Scripted::new("small", 4, Act::Say("x"));
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[&agent]).await;
    world.publish();
    let snapshot = format!("--snapshot={}", world.path("snapshot.json").display());
    world.start_with(&[&snapshot, "--decisions=2"]).await;
    world.ready().await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(post(world.listen, CHAT, &[], &question("hi")).await.header("x-terrace-request-id").to_owned());
    }
    let gone = was(&world, &ids[0], &[]).await;
    assert_eq!(gone.status, 404);
    assert!(gone.json()["error"]["message"].as_str().unwrap().contains("its last 2 (--decisions)"), "{gone:?}");
    assert_eq!(
        (was(&world, &ids[1], &[]).await.status, was(&world, &ids[2], &[]).await.status),
        (200.try_into().unwrap(), 200.try_into().unwrap())
    );
    until("nothing is in flight", || agent.running() == 0).await;
}
