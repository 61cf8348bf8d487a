//! Embeddings go to tiers that embed, are scanned like any other request, and come back in the encoding asked for.

use std::sync::Arc;

use crate::support::{Act, Scripted, World, post};
use serde_json::{Value, json};
use terrace_contract::tier::Feature;
use terrace_contract::trust::Boundary;

const PATH: &str = "/v1/embeddings";

/// A near tier that only chats, a private one and a far one that embed with the same model.
async fn fleet() -> (World, [Arc<Scripted>; 3]) {
    let tiers = [("small", 4), ("embedder", 4), ("embedder", 4)].map(|(m, n)| Scripted::new(m, n, Act::Say("x")));
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[&tiers[0]]).await;
    world.agents("site", Boundary::Private, &[&tiers[1]]).await;
    world.endpoint("cloud", Boundary::Public, &tiers[2]).await;
    for name in ["site", "cloud"] {
        world.can(name, &[Feature::Embeddings]);
    }
    (world, tiers)
}

fn counts(tiers: &[Arc<Scripted>; 3]) -> [usize; 3] {
    [tiers[0].count(), tiers[1].count(), tiers[2].count()]
}

#[tokio::test]
async fn vectors_come_from_a_tier_that_embeds_in_both_encodings() {
    let (mut world, tiers) = fleet().await;
    world.start().await;
    let body = json!({"model": "embedder", "input": ["one", "two words"], "user": "u", "dimensions": 2, "made_up": 1});
    let reply = post(world.listen, PATH, &[], &body).await;
    let vector = |index: usize, vector: Value| json!({"object": "embedding", "index": index, "embedding": vector});
    let want = json!({"object": "list", "model": "embedder",
        "data": [vector(0, json!([0.0, 1.0])), vector(1, json!([1.0, 2.0]))],
        "usage": {"prompt_tokens": 5, "total_tokens": 5}});
    assert_eq!(reply.json(), want, "{reply:?}");
    assert_eq!((reply.header("x-terrace-tier"), reply.header("x-terrace-cost-micros")), ("site", "5"));
    let sent = json!({"model": "embedder", "input": ["one", "two words"], "user": "u", "dimensions": 2});
    assert_eq!(tiers[1].last_body(), sent, "built new: nothing else travels");

    let body = json!({"model": "auto", "input": "a b c", "encoding_format": "base64"});
    let reply = post(world.listen, PATH, &[], &body).await;
    let text = terrace_wire::vector::encode(&[0.0, 3.0]);
    assert_eq!(reply.json()["data"], json!([vector(0, json!(text))]), "{reply:?}");
    assert_eq!(counts(&tiers), [0, 2, 0]);
}

#[tokio::test]
async fn a_failing_tier_is_left_for_the_next_that_embeds_and_only_within_the_clearance() {
    for act in [Act::Status(500, vec![]), Act::Nonsense, Act::Cut("")] {
        let (mut world, tiers) = fleet().await;
        tiers[1].always(act.clone());
        world.start().await;
        let text = json!({"model": "embedder", "input": "a b"});
        let reply = post(world.listen, PATH, &[("x-terrace-class", "Restricted")], &text).await;
        assert!(reply.status.is_server_error(), "{act:?}: {reply:?}");
        let ids = json!({"model": "embedder", "input": [[1, 2], [3]]});
        let reply = post(world.listen, PATH, &[], &ids).await;
        assert!(reply.status.is_server_error(), "{act:?}: token ids cannot be read, so they are Restricted: {reply:?}");
        assert_eq!(tiers[2].count(), 0, "{act:?}");
        let reply = post(world.listen, PATH, &[], &text).await;
        assert_eq!((reply.status.as_u16(), reply.header("x-terrace-tier")), (200, "cloud"), "{act:?}: {reply:?}");
        assert_eq!((tiers[0].count(), tiers[2].count()), (0, 1), "{act:?}");
    }
}

#[tokio::test]
async fn every_input_is_scanned() {
    let (mut world, tiers) = fleet().await;
    world.start().await;
    let inputs = json!({"model": "embedder", "input": ["hello", "my card is 4111 1111 1111 1111"]});
    let reply = post(world.listen, PATH, &[], &inputs).await;
    assert_eq!((reply.status.as_u16(), reply.header("x-terrace-tier")), (200, "site"), "{reply:?}");

    let (mut world, tiers_far) = fleet().await;
    world.snapshot.tiers.retain(|tier| tier.name != "site");
    world.start().await;
    let reply = post(world.listen, PATH, &[], &inputs).await;
    assert_eq!((reply.status.as_u16(), reply.code().as_str()), (403, "boundary_denied"), "{reply:?}");
    assert_eq!(tiers_far[2].count(), 0);
    let reply = post(world.listen, PATH, &[], &json!({"model": "embedder", "input": ["hello", "there"]})).await;
    assert_eq!((reply.status.as_u16(), tiers_far[2].count()), (200, 1), "{reply:?}");
    assert_eq!(counts(&tiers), [0, 1, 0]);
}

#[tokio::test]
async fn what_cannot_be_embedded_is_refused_with_its_place() {
    let (mut world, tiers) = fleet().await;
    world.start().await;
    for (body, status, code, place) in [
        (json!({"model": "embedder"}), 400, "invalid_request", json!("/input")),
        (json!({"model": "embedder", "input": ["a", 1]}), 400, "invalid_request", json!("/input/1")),
        (
            json!({"model": "embedder", "input": "a", "encoding_format": "int8"}),
            400,
            "invalid_request",
            json!("/encoding_format"),
        ),
        (json!({"model": "huge", "input": "a"}), 404, "model_not_found", json!("/model")),
        (json!({"model": "small", "input": "a"}), 422, "unsupported_feature", Value::Null),
        (json!({"model": "embedder", "input": "a ".repeat(10_000)}), 422, "context_too_long", Value::Null),
    ] {
        let reply = post(world.listen, PATH, &[], &body).await;
        assert_eq!((reply.status.as_u16(), reply.code().as_str()), (status, code), "{reply:?}");
        assert_eq!(reply.json()["error"]["param"], place, "{reply:?}");
    }
    assert_eq!(counts(&tiers), [0; 3]);
    // Many short ones are no long one.
    let many = json!({"model": "embedder", "input": vec!["one two three four"; 1_500]});
    assert_eq!(post(world.listen, PATH, &[], &many).await.status, 200);
}

#[tokio::test]
async fn vectors_of_different_models_are_never_mixed() {
    let (mut world, tiers) = fleet().await;
    world.can("edge", &[Feature::Tools, Feature::Embeddings]);
    world.start().await;
    let reply = post(world.listen, PATH, &[], &json!({"model": "auto", "input": "a"})).await;
    assert_eq!((reply.status.as_u16(), reply.code().as_str()), (400, "invalid_request"), "{reply:?}");
    let message = reply.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("name one of small, embedder"), "{message}");
    tiers[0].always(Act::Status(500, vec![]));
    let reply = post(world.listen, PATH, &[], &json!({"model": "small", "input": "a"})).await;
    assert_eq!(reply.status, 502, "{reply:?}");
    assert_eq!(counts(&tiers), [1, 0, 0]);
}
