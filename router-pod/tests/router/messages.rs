//! Anthropic's Messages through the router: one kind of request inside, Anthropic's language outside.

use crate::support::{Act, Scripted, World, post, stream};
use serde_json::{Value, json};
use terrace_contract::policy::{Access, KeyRule};
use terrace_contract::trust::Boundary;

const PATH: &str = "/v1/messages";

fn question(text: &str) -> Value {
    json!({"model": "auto", "max_tokens": 32, "messages": [{"role": "user", "content": text}]})
}

fn with(more: Value) -> Value {
    let mut body = question("hi");
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

async fn events(world: &World, mut body: Value) -> Vec<Value> {
    body["stream"] = true.into();
    let events = stream(world.listen, PATH, &[], &body).await.rest().await;
    events.iter().map(|event| serde_json::from_str(event).unwrap()).collect()
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_message_is_a_chat_inside_and_a_message_outside() {
    let mut world = World::new();
    let agent = Scripted::new("small", 4, Act::Say("one two"));
    world.agents("edge", Boundary::Device, &[&agent]).await;
    world.start().await;
    let body = with(json!({"system": "Be brief.", "stop_sequences": ["END"], "temperature": 0.5, "top_p": 0.9,
        "top_k": 5, "metadata": {"user_id": "u1"}}));
    let reply = post(world.listen, PATH, &[("anthropic-version", "2023-06-01")], &body).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let id = reply.header("x-terrace-request-id").to_owned();
    assert_eq!((reply.header("request-id"), reply.header("x-terrace-tier")), (id.as_str(), "edge"));
    assert_eq!((reply.header("x-terrace-cost-micros"), reply.header("x-terrace-reason")), ("17", "nearest"));
    let usage =
        json!({"input_tokens": 11, "output_tokens": 3, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0});
    let want = json!({"id": format!("msg_{id}"), "type": "message", "role": "assistant", "model": "small",
        "content": [{"type": "text", "text": "one two"}], "stop_reason": "end_turn", "stop_sequence": null, "usage": usage});
    assert_eq!(reply.json(), want);
    let sent = agent.last_body();
    let messages = json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]);
    for (name, value) in [
        ("messages", messages),
        ("max_tokens", json!(32)),
        ("stop", json!(["END"])),
        ("temperature", json!(0.5)),
        ("top_p", json!(0.9)),
        ("top_k", json!(5)),
        ("user", json!("u1")),
    ] {
        assert_eq!(sent[name], value, "{name} in {sent}");
    }

    let events = events(&world, question("hi")).await;
    let want = [
        "message_start",
        "ping",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ];
    assert_eq!(kinds(&events), want, "{events:?}");
    assert_eq!(events[4]["delta"], json!({"type": "text_delta", "text": "two"}));
    assert_eq!(events[6]["delta"]["stop_reason"], "end_turn");
    assert_eq!((&events[6]["usage"]["input_tokens"], &events[6]["terrace"]["costMicros"]), (&json!(11), &json!(17)));
}

#[tokio::test]
async fn calls_of_tools_come_back_as_blocks() {
    let mut world = World::new();
    let agent = Scripted::new("small", 4, Act::Say(""));
    world.agents("edge", Boundary::Device, &[&agent]).await;
    world.start().await;
    let tools = json!({"tools": [{"name": "f", "input_schema": {"type": "object"}}], "tool_choice": {"type": "any"}});
    let call = |arguments: &str| json!({"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}});
    let whole = json!({"index": 0, "message": {"role": "assistant", "content": null, "tool_calls": [call("{\"a\":1}")]},
        "finish_reason": "tool_calls"});
    agent.next(Act::Choices(vec![whole.clone()], true));
    let reply = post(world.listen, PATH, &[], &with(tools.clone())).await.json();
    assert_eq!(reply["content"], json!([{"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}}]), "{reply}");
    assert_eq!(reply["stop_reason"], "tool_use");
    assert_eq!(agent.last_body()["tool_choice"], "required");

    let mut wrong = whole;
    wrong["message"]["tool_calls"] = json!([call("{broken")]);
    agent.next(Act::Choices(vec![wrong], true));
    let reply = post(world.listen, PATH, &[], &with(tools.clone())).await;
    assert_eq!((reply.status.as_u16(), reply.code().as_str()), (502, "upstream_failed"), "{reply:?}");

    let delta = |call: Value| json!({"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": null});
    let more = json!({"index": 0, "function": {"arguments": "1}"}});
    let end = json!({"index": 0, "delta": {}, "finish_reason": "tool_calls"});
    agent.next(Act::Choices(vec![delta(call("{\"a\":")), delta(more), end], true));
    let events = events(&world, with(tools)).await;
    let json: String = events.iter().filter_map(|e| e["delta"]["partial_json"].as_str()).collect();
    assert_eq!(json, "{\"a\":1}", "{events:?}");
    assert_eq!(events[2]["content_block"], json!({"type": "tool_use", "id": "c1", "name": "f", "input": {}}));
    assert_eq!(events[events.len() - 2]["delta"]["stop_reason"], "tool_use");
}

#[tokio::test]
async fn a_stream_that_breaks_says_so_and_one_that_never_began_is_tried_elsewhere() {
    let mut world = World::new();
    let (edge, cloud) = (Scripted::new("small", 4, Act::Say("a b")), Scripted::new("big", 4, Act::Say("far")));
    world.agents("edge", Boundary::Device, &[&edge]).await;
    world.endpoint("cloud", Boundary::Public, &cloud).await;
    world.start().await;
    edge.next(Act::Cut("one two"));
    let broken = events(&world, question("hi")).await;
    let last = broken.last().unwrap();
    assert_eq!((&last["type"], &last["error"]["type"]), (&json!("error"), &json!("api_error")), "{broken:?}");
    assert!(!kinds(&broken).contains(&"message_stop"), "{broken:?}");
    assert_eq!(cloud.count(), 0);

    edge.next(Act::Status(500, vec![]));
    let events = events(&world, question("hi")).await;
    assert_eq!((events[0]["message"]["model"].as_str(), cloud.count()), (Some("big"), 1), "{events:?}");
}

#[tokio::test]
async fn every_part_of_a_message_is_scanned() {
    let cloud = Scripted::new("big", 8, Act::Say("far"));
    let mut world = World::new();
    world.endpoint("cloud", Boundary::Public, &cloud).await;
    world.start().await;
    let card = "4111 1111 1111 1111";
    let said = |role: &str, block: Value| {
        json!({"messages": [{"role": "user", "content": "x"},
        {"role": role, "content": [block]}, {"role": "user", "content": "y"}]})
    };
    let schema = json!({"type": "object", "properties": {card: {"type": "string"}}});
    for more in [
        json!({ "system": card }),
        json!({ "system": [{"type": "text", "text": card}] }),
        json!({ "stop_sequences": [card] }),
        json!({ "metadata": {"user_id": card} }),
        json!({ "tools": [{"name": "f", "description": card, "input_schema": {"type": "object"}}] }),
        json!({ "tools": [{"name": "f", "input_schema": schema}] }),
        json!({ "output_config": {"format": {"type": "json_schema", "schema": schema}} }),
        said("user", json!({"type": "text", "text": card})),
        said("user", json!({"type": "tool_result", "tool_use_id": "t", "content": card})),
        said("user", json!({"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": card}]})),
        said("assistant", json!({"type": "text", "text": card})),
        said("assistant", json!({"type": "tool_use", "id": "t", "name": "f", "input": {"n": card}})),
    ] {
        let reply = post(world.listen, PATH, &[], &with(more.clone())).await;
        assert_eq!((reply.status.as_u16(), reply.code().as_str()), (403, "boundary_denied"), "{more} {reply:?}");
        assert_eq!(reply.json()["error"]["type"], "permission_error");
        assert!(!String::from_utf8_lossy(&reply.body).contains(card));
    }
    assert_eq!(cloud.count(), 0);
    // What an image shows cannot be read: it stays inside, and one that would have to be fetched is refused by its place.
    let image = |source: Value| with(said("user", json!({"type": "image", "source": source})));
    let data = image(json!({"type": "base64", "media_type": "image/png", "data": "AAAA"}));
    assert_eq!(post(world.listen, PATH, &[], &data).await.code(), "boundary_denied");
    let url = image(json!({"type": "url", "url": "https://elsewhere.example/x.png"}));
    let reply = post(world.listen, PATH, &[], &url).await;
    assert_eq!((reply.status.as_u16(), &reply.json()["error"]["param"]), (400, &json!("/messages/1")), "{reply:?}");
    assert_eq!(cloud.count(), 0);
    assert_eq!(post(world.listen, PATH, &[], &question("hi")).await.status, 200);
    assert_eq!(cloud.count(), 1);
}

#[tokio::test]
async fn keys_come_in_either_header_and_errors_in_anthropics_shape() {
    let agent = Scripted::new("small", 4, Act::Say("x"));
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[&agent]).await;
    let rule = KeyRule { name: "ci".into(), ..KeyRule::default() };
    world.snapshot.policy.access = Access::ApiKeys { keys: vec![rule] };
    std::fs::write(world.path("api-keys/ci"), "sk-one").unwrap();
    world.start().await;
    for header in [("x-api-key", "sk-one"), ("authorization", "Bearer sk-one")] {
        assert_eq!(post(world.listen, PATH, &[header], &question("hi")).await.status, 200, "{header:?}");
    }
    let key = [("x-api-key", "sk-one")];
    for (headers, body, status, kind, place) in [
        (&[][..], question("hi"), 401, "authentication_error", Value::Null),
        (&[("x-api-key", "sk-two")][..], question("hi"), 401, "authentication_error", Value::Null),
        (&key[..], with(json!({"model": "huge"})), 404, "not_found_error", json!("/model")),
        (&key[..], with(json!({"max_tokens": null})), 400, "invalid_request_error", json!("/max_tokens")),
        (&key[..], with(json!({"thinking": {"type": "enabled"}})), 400, "invalid_request_error", json!("/thinking")),
        (&key[..], with(json!({"temperature": 9})), 400, "invalid_request_error", json!("/temperature")),
    ] {
        let reply = post(world.listen, PATH, headers, &body).await;
        let said = reply.json();
        assert_eq!(
            (reply.status.as_u16(), &said["type"], &said["error"]["type"]),
            (status, &json!("error"), &json!(kind)),
            "{reply:?}"
        );
        assert_eq!((&said["error"]["param"], &said["request_id"]), (&place, &json!(reply.header("request-id"))));
    }
}
