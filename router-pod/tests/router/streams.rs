//! A stream is forwarded event by event in every language: what a tier has said is told while it still thinks.

use crate::support::{Act, Scripted, World, stream, streamed};
use serde_json::{Value, json};
use terrace_contract::trust::Boundary;

#[tokio::test]
async fn the_first_word_is_told_before_the_tier_has_said_the_last() {
    let messages = json!([{"role": "user", "content": "hi"}]);
    for (path, body, place, last) in [
        ("/v1/chat/completions", json!({ "messages": messages }), "/choices/0/delta/content", "[DONE]"),
        ("/v1/messages", json!({"messages": messages, "max_tokens": 9}), "/delta/text", "message_stop"),
        ("/v1/responses", json!({"input": "hi"}), "/delta", "response.completed"),
    ] {
        let mut world = World::new();
        let agent = Scripted::new("small", 4, Act::Pause("one two three"));
        world.agents("edge", Boundary::Device, &[&agent]).await;
        world.start().await;
        let mut body = body;
        (body["model"], body["stream"]) = ("auto".into(), true.into());
        let mut events = stream(world.listen, path, &[], &body).await;
        let word = |event: &str| {
            let event: Value = serde_json::from_str(event).ok()?;
            event.pointer(place).and_then(Value::as_str).filter(|word| !word.is_empty()).map(str::to_owned)
        };
        let first = loop {
            let event = events.next().await.unwrap();
            if let Some(word) = word(&event) {
                break word;
            }
        };
        assert_eq!((first.as_str(), agent.running()), ("one ", 1), "{path}: it waits to be let go");
        agent.release();
        let rest = events.rest().await;
        let words: String = rest.iter().filter_map(|event| word(event)).collect();
        assert_eq!(words, "two three", "{path}: {rest:?}");
        assert!(rest.last().unwrap().contains(last), "{path}: {rest:?}");
    }
}

#[tokio::test]
async fn the_role_that_a_tier_tells_before_its_first_word_comes_with_it() {
    let mut world = World::new();
    let agent = Scripted::new("small", 4, Act::Say("one two"));
    world.agents("edge", Boundary::Device, &[&agent]).await;
    world.start().await;
    let events = stream(world.listen, "/v1/chat/completions", &[], &streamed("hi")).await.rest().await;
    let deltas: Vec<Value> = events
        .iter()
        .filter_map(|event| serde_json::from_str::<Value>(event).ok()?.pointer("/choices/0/delta").cloned())
        .collect();
    assert_eq!(deltas[0], json!({"role": "assistant", "content": "one "}), "{events:?}");
    assert_eq!(deltas[1], json!({"content": "two"}), "told once: {events:?}");
}

/// Three calls at once, as some servers stream them: nobody can carry out half of the first one.
#[tokio::test]
async fn a_call_that_a_tier_leaves_half_told_is_not_told_as_whole() {
    let part = |index: u64, function: Value| {
        let call = json!({"index": index, "id": format!("c{index}"), "type": "function", "function": function});
        json!({"index": 0, "delta": {"tool_calls": [call]}})
    };
    let script = vec![
        part(0, json!({"name": "f", "arguments": "{\"a\":"})),
        part(1, json!({"name": "g", "arguments": "{}"})),
        part(0, json!({"arguments": "1}"})),
        json!({"index": 0, "delta": {}, "finish_reason": "tool_calls"}),
    ];
    let tools = json!([{"type": "function", "name": "f", "parameters": {"type": "object"}}]);
    let custom = json!([{"name": "f", "input_schema": {"type": "object"}}]);
    let messages = json!([{"role": "user", "content": "hi"}]);
    for (path, body, whole, last) in [
        ("/v1/responses", json!({"input": "hi", "tools": tools}), "\"response.output_item.done", "response.failed"),
        (
            "/v1/messages",
            json!({"messages": messages, "max_tokens": 9, "tools": custom}),
            "content_block_stop",
            "upstream_failed",
        ),
    ] {
        let mut world = World::new();
        let agent = Scripted::new("small", 4, Act::Choices(script.clone(), true));
        world.agents("edge", Boundary::Device, &[&agent]).await;
        world.start().await;
        let mut body = body;
        (body["model"], body["stream"]) = ("auto".into(), true.into());
        let events = stream(world.listen, path, &[], &body).await.rest().await;
        assert!(events.last().unwrap().contains(last), "{path}: {events:?}");
        assert!(!events.iter().any(|event| event.contains(whole)), "{path}: {events:?}");
    }
}
