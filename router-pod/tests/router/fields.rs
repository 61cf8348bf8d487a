//! What an agent can do reaches it, and what it answers reaches the client: choices, tools, formats, log-probabilities.

use crate::support::{Act, Scripted, World, post, question, stream, streamed};
use serde_json::{Value, json};
use terrace_contract::tier::Feature;
use terrace_contract::trust::Boundary;

#[tokio::test]
async fn every_field_that_an_agent_reads_reaches_it() {
    let mut world = World::new();
    let agent = Scripted::new("small", 4, Act::Say("yes"));
    world.agents("edge", Boundary::Device, &[&agent]).await;
    world.start().await;
    let shared = json!({"temperature": 0.5, "top_p": 0.9, "top_k": 5, "min_p": 0.1, "repetition_penalty": 1.1,
        "presence_penalty": 0.1, "frequency_penalty": 0.2, "logit_bias": {"5": 1}, "seed": 7, "stop": ["x"], "n": 2,
        "max_tokens": 9, "user": "u", "metadata": {"k": "v"}});
    let chat = json!({"parallel_tool_calls": false, "tool_choice": "auto", "response_format": {"type": "json_object"},
        "logprobs": false, "safety_identifier": "s", "prompt_cache_key": "p"});
    let with = |mut body: Value, more: &[&Value]| {
        more.iter().for_each(|m| body.as_object_mut().unwrap().extend(m.as_object().unwrap().clone()));
        body
    };
    let call = json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let messages = json!([{"role": "user", "content": "hi"}, {"role": "assistant", "content": null, "reasoning_content": "hm", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "7"}]);
    let mut sent = with(question("hi"), &[&shared, &chat]);
    sent["messages"] = messages;
    assert_eq!(post(world.listen, "/v1/chat/completions", &[], &sent).await.status, 200);
    sent["model"] = "small".into();
    assert_eq!(agent.last_body(), sent);

    let text = json!({"model": "small", "prompt": ["a", "b"], "echo": true, "best_of": 2});
    let sent = with(text, &[&shared]);
    assert_eq!(post(world.listen, "/v1/completions", &[], &sent).await.status, 200);
    assert_eq!(agent.last_body(), sent);
}

#[tokio::test]
async fn choices_calls_and_log_probabilities_come_back_whole() {
    let mut world = World::new();
    let agent = Scripted::new("small", 4, Act::Say(""));
    world.agents("edge", Boundary::Device, &[&agent]).await;
    world.start().await;
    let said = |index: u32, delta: Value, finish: Value| json!({"index": index, "delta": delta, "logprobs": null, "finish_reason": finish});
    let call =
        |function: Value| json!({"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": function}]});
    let mut likely = said(1, json!({"content": "b"}), Value::Null);
    likely["logprobs"] =
        json!({"content": [{"token": "b", "logprob": -0.5, "bytes": [98], "top_logprobs": []}], "refusal": null});
    let script = vec![
        said(0, json!({"role": "assistant", "content": ""}), Value::Null),
        said(1, json!({"role": "assistant", "content": ""}), Value::Null),
        said(0, call(json!({"name": "f", "arguments": ""})), Value::Null),
        likely,
        said(0, call(json!({"arguments": "{}"})), Value::Null),
        said(0, json!({}), "tool_calls".into()),
        said(1, json!({"content": "c"}), Value::Null),
        said(1, json!({}), "length".into()),
    ];
    agent.next(Act::Choices(script.clone(), true));
    let mut body = streamed("hi");
    body["n"] = 2.into();
    let events = stream(world.listen, "/v1/chat/completions", &[], &body).await.rest().await;
    assert_eq!(events.last().unwrap(), "[DONE]");
    let choices: Vec<Value> = events[..events.len() - 1]
        .iter()
        .flat_map(|e| serde_json::from_str::<Value>(e).unwrap()["choices"].as_array().unwrap().clone())
        .collect();
    // Nothing is told before there is content: then all of it, and the roles with the first.
    let role = json!("assistant");
    let roles: Vec<(u64, &Value)> =
        choices.iter().filter_map(|c| Some((c["index"].as_u64()?, c["delta"].get("role")?))).collect();
    assert_eq!(roles, [(0, &role), (1, &role)], "{choices:?}");
    let mut without = choices.clone();
    without.iter_mut().for_each(|choice| drop(choice["delta"].as_object_mut().unwrap().remove("role")));
    without.remove(1);
    assert_eq!(without, script[2..], "{choices:?}");

    // Cut off while one choice was still open: that one ends with an error, the other as it did.
    agent.next(Act::Choices(script[..script.len() - 1].to_vec(), false));
    let events = stream(world.listen, "/v1/chat/completions", &[], &body).await.rest().await;
    let ends: Vec<(u64, String)> = events
        .iter()
        .filter_map(|e| serde_json::from_str::<Value>(e).ok())
        .flat_map(|e| e["choices"].as_array().cloned().unwrap_or_default())
        .filter_map(|c| Some((c["index"].as_u64()?, c["finish_reason"].as_str()?.to_owned())))
        .collect();
    assert_eq!(ends, [(0, "tool_calls".to_owned()), (1, "error".to_owned())], "{events:?}");
}

#[tokio::test]
async fn an_endpoint_gets_openais_fields_as_sent_and_the_rest_only_if_its_tier_lists_them() {
    let mut world = World::new();
    let cloud = Scripted::new("big", 4, Act::Say("far"));
    world.endpoint("cloud", Boundary::Public, &cloud).await;
    world.can("cloud", &[Feature::Tools, Feature::Logprobs, Feature::JsonSchema]);
    world.start().await;
    let function = json!({"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}});
    let format =
        json!({"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}, "strict": true}});
    let mut chat = json!({"model": "big", "max_completion_tokens": 9, "n": 2, "logprobs": true, "top_logprobs": 3,
        "user": "u", "seed": 1, "verbosity": "low", "reasoning_effort": "low", "parallel_tool_calls": true,
        "prediction": {"type": "content", "content": "p"}, "tools": [{"type": "function", "function": function}],
        "tool_choice": {"type": "function", "function": {"name": "f"}}, "response_format": format,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]});
    let sent = chat.clone();
    chat["metadata"] = json!({"feature": "x"});
    chat["min_p"] = json!(0.1);
    chat["messages"][0]["reasoning_content"] = "hm".into();
    assert_eq!(post(world.listen, "/v1/chat/completions", &[], &chat).await.status, 200);
    assert_eq!(cloud.last_body(), sent);
    let mut body = chat;
    body["stream"] = true.into();
    body["stream_options"] = json!({"include_usage": false, "include_obfuscation": false, "made_up": 1});
    let events = stream(world.listen, "/v1/chat/completions", &[], &body).await.rest().await;
    assert_eq!(cloud.last_body()["stream_options"], json!({"include_usage": true, "include_obfuscation": false}));
    assert!(!events.iter().any(|event| event.contains("prompt_tokens")), "not asked for: {events:?}");

    // Calls as OpenAI had them before tools, and text completions with all that they may have.
    let asked = json!({"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{}"}});
    let legacy = json!({"model": "big", "max_tokens": 9, "functions": [function], "function_call": {"name": "f"},
        "messages": [{"role": "user", "content": "hi"}, asked, {"role": "function", "name": "f", "content": "7"}]});
    let said = json!({"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{}"}});
    cloud.next(Act::Choices(vec![json!({"index": 0, "message": said, "finish_reason": "function_call"})], true));
    let reply = post(world.listen, "/v1/chat/completions", &[], &legacy).await.json();
    assert_eq!(cloud.last_body(), legacy);
    assert_eq!(
        (&reply["choices"][0]["message"], &reply["choices"][0]["finish_reason"]),
        (&said, &json!("function_call"))
    );
    let text = json!({"model": "big", "prompt": ["a", "b"], "suffix": "s", "echo": true, "best_of": 3, "n": 2, "logprobs": 2,
        "max_tokens": 9, "user": "u", "stop": "x", "presence_penalty": 0.5});
    assert_eq!(post(world.listen, "/v1/completions", &[], &text).await.status, 200);
    assert_eq!(cloud.last_body(), text);
}

#[tokio::test]
async fn a_picture_goes_to_a_tier_that_sees_within_its_boundary_or_nowhere() {
    let picture = json!({"model": "auto", "messages": [{"role": "user", "content": [{"type": "text", "text": "what?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}}]}]});
    let tiers = [("small", Act::Say("near")), ("eyes", Act::Say("seen")), ("big", Act::Say("far"))]
        .map(|(model, act)| Scripted::new(model, 4, act));
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[&tiers[0]]).await;
    world.agents("site", Boundary::Private, &[&tiers[1]]).await;
    world.endpoint("cloud", Boundary::Public, &tiers[2]).await;
    for name in ["site", "cloud"] {
        world.can(name, &[Feature::Vision]);
    }
    world.start().await;
    let reply = post(world.listen, "/v1/chat/completions", &[], &picture).await;
    assert_eq!((reply.content().as_str(), reply.header("x-terrace-tier")), ("seen", "site"), "{reply:?}");
    assert_eq!(tiers[1].last_body()["messages"], picture["messages"]);
    tiers[1].always(Act::Status(500, vec![]));
    let reply = post(world.listen, "/v1/chat/completions", &[], &picture).await;
    assert!(reply.status.is_server_error(), "what it shows cannot be read: {reply:?}");
    assert_eq!(tiers[2].count(), 0);

    let mut blind = World::new();
    blind.agents("edge", Boundary::Device, &[&tiers[0]]).await;
    blind.start().await;
    let reply = post(blind.listen, "/v1/chat/completions", &[], &picture).await;
    assert_eq!((reply.status.as_u16(), reply.code().as_str()), (422, "unsupported_feature"), "{reply:?}");
    assert!(reply.json()["error"]["message"].as_str().unwrap().contains("Vision"), "{reply:?}");
    assert_eq!(tiers[0].count(), 0);
}
