//! OpenAI's Responses through the router: one kind of request inside, items and events outside, nothing remembered.

use crate::support::{Act, Scripted, World, post, stream};
use serde_json::{Value, json};
use terrace_contract::trust::Boundary;

const PATH: &str = "/v1/responses";

fn with(more: Value) -> Value {
    let mut body = json!({"model": "auto", "input": "hi"});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

async fn events(world: &World, mut body: Value) -> Vec<Value> {
    body["stream"] = true.into();
    let events = stream(world.listen, PATH, &[], &body).await.rest().await;
    events.iter().map(|event| serde_json::from_str(event).unwrap()).collect()
}

#[tokio::test]
async fn a_response_is_a_chat_inside_and_a_response_outside() {
    let mut world = World::new();
    let agent = Scripted::new("small", 4, Act::Say("one two"));
    world.agents("edge", Boundary::Device, &[&agent]).await;
    world.start().await;
    let body = with(json!({"instructions": "Be brief.", "max_output_tokens": 32, "temperature": 0.5, "store": false,
        "metadata": {"k": "v"}}));
    let reply = post(world.listen, PATH, &[], &body).await;
    assert_eq!((reply.status.as_u16(), reply.header("x-terrace-tier")), (200, "edge"), "{reply:?}");
    assert_eq!(reply.header("x-terrace-cost-micros"), "17");
    let (id, said) = (reply.header("x-terrace-request-id"), reply.json());
    assert_eq!((&said["id"], &said["status"]), (&json!(format!("resp_{id}")), &json!("completed")));
    assert_eq!(said["output"][0]["content"][0]["text"], "one two");
    assert_eq!(
        (&said["model"], &said["store"], &said["metadata"]),
        (&json!("small"), &json!(false), &json!({"k": "v"}))
    );
    assert_eq!((&said["usage"]["input_tokens"], &said["usage"]["total_tokens"]), (&json!(11), &json!(14)));
    let sent = agent.last_body();
    assert_eq!(
        sent["messages"],
        json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}])
    );
    assert_eq!((&sent["max_tokens"], &sent["temperature"]), (&json!(32), &json!(0.5)));

    let events = events(&world, with(json!({}))).await;
    let deltas: Vec<&str> = events.iter().filter_map(|e| e["delta"].as_str()).collect();
    assert_eq!(deltas, ["one ", "two"], "{events:?}");
    let last = events.last().unwrap();
    assert_eq!(
        (&last["type"], &last["response"]["output"][0]["content"][0]["text"]),
        (&json!("response.completed"), &json!("one two"))
    );
    assert_eq!(last["response"]["terrace"]["costMicros"], 17);
    assert!(events.iter().enumerate().all(|(i, e)| e["sequence_number"] == i), "{events:?}");
}

#[tokio::test]
async fn calls_of_functions_come_back_as_items() {
    let mut world = World::new();
    let agent = Scripted::new("small", 4, Act::Say(""));
    world.agents("edge", Boundary::Device, &[&agent]).await;
    world.start().await;
    let tools = json!({"tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}], "tool_choice": "required"});
    let call = |arguments: &str| json!({"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}});
    let whole = json!({"index": 0, "message": {"role": "assistant", "content": null, "tool_calls": [call("{}")]},
        "finish_reason": "tool_calls"});
    agent.next(Act::Choices(vec![whole], true));
    let reply = post(world.listen, PATH, &[], &with(tools.clone())).await.json();
    let item = &reply["output"][0];
    assert_eq!(
        (&item["type"], &item["call_id"], &item["arguments"]),
        (&json!("function_call"), &json!("c1"), &json!("{}"))
    );
    assert_eq!(agent.last_body()["tools"][0]["function"]["name"], "f");

    let delta = |call: Value| json!({"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": null});
    let more = json!({"index": 0, "function": {"arguments": "1}"}});
    let end = json!({"index": 0, "delta": {}, "finish_reason": "tool_calls"});
    agent.next(Act::Choices(vec![delta(call("{\"a\":")), delta(more), end], true));
    let events = events(&world, with(tools)).await;
    let done = events.iter().find(|e| e["type"] == "response.function_call_arguments.done").unwrap();
    assert_eq!(done["arguments"], "{\"a\":1}", "{events:?}");
    assert_eq!(events.last().unwrap()["response"]["output"][0]["name"], "f");
}

#[tokio::test]
async fn a_stream_that_breaks_says_so_and_one_that_never_began_is_tried_elsewhere() {
    let mut world = World::new();
    let (edge, cloud) = (Scripted::new("small", 4, Act::Say("a b")), Scripted::new("big", 4, Act::Say("far")));
    world.agents("edge", Boundary::Device, &[&edge]).await;
    world.endpoint("cloud", Boundary::Public, &cloud).await;
    world.start().await;
    edge.next(Act::Cut("one two"));
    let broken = events(&world, with(json!({}))).await;
    let last = broken.last().unwrap();
    assert_eq!(
        (&last["type"], &last["response"]["status"]),
        (&json!("response.failed"), &json!("failed")),
        "{broken:?}"
    );
    assert_eq!((&last["response"]["error"]["code"], cloud.count()), (&json!("server_error"), 0));

    edge.next(Act::Status(500, vec![]));
    let events = events(&world, with(json!({}))).await;
    assert_eq!((events[0]["response"]["model"].as_str(), cloud.count()), (Some("big"), 1), "{events:?}");
}

#[tokio::test]
async fn every_item_is_scanned_and_nothing_is_remembered() {
    let cloud = Scripted::new("big", 8, Act::Say("far"));
    let mut world = World::new();
    world.endpoint("cloud", Boundary::Public, &cloud).await;
    world.start().await;
    let card = "4111 1111 1111 1111";
    let schema = json!({"type": "object", "properties": {card: {"type": "string"}}});
    for more in [
        json!({ "instructions": card }),
        json!({ "input": card }),
        json!({ "metadata": {"k": card} }),
        json!({ "tools": [{"type": "function", "name": "f", "description": card}] }),
        json!({ "text": {"format": {"type": "json_schema", "name": "n", "schema": schema}} }),
        json!({ "input": [{"role": "user", "content": [{"type": "input_text", "text": card}]}] }),
        json!({ "input": [{"role": "assistant", "content": [{"type": "output_text", "text": card}]}] }),
        json!({ "input": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": format!("{{\"n\": \"{card}\"}}")}] }),
        json!({ "input": [{"type": "function_call_output", "call_id": "c", "output": card}] }),
    ] {
        let reply = post(world.listen, PATH, &[], &with(more.clone())).await;
        assert_eq!((reply.status.as_u16(), reply.code().as_str()), (403, "boundary_denied"), "{more} {reply:?}");
    }
    let image = json!({"input": [{"role": "user", "content": "x"},
        {"role": "user", "content": [{"type": "input_image", "image_url": "https://elsewhere.example/x.png"}]}]});
    for (more, place) in [
        (image, "/input/1"),
        (json!({"store": true}), "/store"),
        (json!({"previous_response_id": "resp_1"}), "/previous_response_id"),
    ] {
        let reply = post(world.listen, PATH, &[], &with(more)).await;
        assert_eq!((reply.status.as_u16(), &reply.json()["error"]["param"]), (400, &json!(place)), "{reply:?}");
    }
    assert_eq!(cloud.count(), 0);
    assert_eq!(post(world.listen, PATH, &[], &with(json!({}))).await.status, 200);
    assert_eq!(cloud.count(), 1);
}
