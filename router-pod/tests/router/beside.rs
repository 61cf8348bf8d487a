//! What an agent says beside its answer is for the router: it pays by it, and no client sees it.

use crate::support::{Act, Scripted, World, client, post, question, stream, streamed};
use serde_json::{Value, json};
use terrace_contract::trust::Boundary;

/// All that an agent can say, and more than it says today.
fn said() -> Value {
    json!({
        "confidence": {"mean": -0.5, "min": -3.0, "p05": -2.0, "p10": -1.0, "p25": -0.5, "p50": -0.25, "entropy": 0.75,
            "margin": 0.5, "tokens": 3},
        "cost": {"queueUs": 5, "prefillUs": 600000, "decodeUs": 900000, "computeUs": 1, "cachedTokens": 7,
            "steps": 2, "batch": 1.5},
        "hidden": {"mean": "AAAAPwAAgL8=", "last": "AACAPwAAAMA="},
        "later": "HIDDEN-LATER",
    })
}

fn nothing_passed(text: &str) {
    for part in ["AAAAPw", "AACAPw", "HIDDEN-LATER", "hidden", "confidence", "entropy", "computeUs", "cachedTokens"] {
        assert!(!text.contains(part), "{part}: {text}");
    }
}

#[tokio::test]
async fn confidence_cost_and_hidden_states_stay_with_the_router_and_device_time_is_paid_for() {
    let mut world = World::new();
    let agent = Scripted::new("small", 4, Act::Say("one two three"));
    world.agents("edge", Boundary::Device, &[&agent]).await;
    // A microsecond of it costs 2,000, since no more is believed than went by; the tokens cost 17.
    world.snapshot.tiers[0].cost.per_device_hour_micros = 7_200_000_000_000;
    world.start().await;
    *agent.beside.lock().unwrap() = said();

    // A client does not ask for it either: its own header goes no further.
    let given = [("x-terrace-hidden", "mean,last")];
    let reply = post(world.listen, "/v1/chat/completions", &given, &question("hi there")).await;
    assert_eq!((reply.status.as_u16(), reply.content().as_str()), (200, "one two three"), "{reply:?}");
    nothing_passed(&reply.json().to_string());
    assert!(reply.json().get("terrace").is_none());
    assert_eq!(reply.header("x-terrace-cost-micros"), "2017");
    let sent = agent.last_headers();
    assert_eq!(sent["x-terrace-confidence"], "1");
    assert!(sent.get("x-terrace-hidden").is_none());

    let events = stream(world.listen, "/v1/chat/completions", &given, &streamed("hi there")).await.rest().await;
    assert_eq!(client::text(&events), "one two three", "{events:?}");
    assert_eq!(events.last().unwrap(), "[DONE]");
    nothing_passed(&events.concat());
    let last: Value = serde_json::from_str(&events[events.len() - 2]).unwrap();
    assert_eq!(last["terrace"], json!({"costMicros": 2017}));
}

#[tokio::test]
async fn an_endpoint_is_not_asked_and_not_believed() {
    let mut world = World::new();
    let cloud = Scripted::new("big-model", 4, Act::Say("from afar"));
    world.endpoint("cloud", Boundary::Public, &cloud).await;
    world.snapshot.tiers[0].cost.per_device_hour_micros = 7_200_000;
    world.start().await;
    *cloud.beside.lock().unwrap() = said();
    let reply = post(world.listen, "/v1/chat/completions", &[], &question("hi there")).await;
    assert_eq!((reply.status.as_u16(), reply.header("x-terrace-cost-micros")), (200, "17"), "{reply:?}");
    nothing_passed(&reply.json().to_string());
    assert!(cloud.last_headers().get("x-terrace-confidence").is_none());
    let events = stream(world.listen, "/v1/chat/completions", &[], &streamed("hi there")).await.rest().await;
    nothing_passed(&events.concat());
}
