//! What an agent can do reaches it, and what it answers reaches the client: choices, tools, formats, log-probabilities.

use crate::support::{Act, Scripted, World, post, question, stream, streamed};
use serde_json::{Value, json};
use terrace_contract::trust::Boundary;

#[tokio::test]
async fn every_field_that_an_agent_reads_reaches_it() {
    let mut world = World::new();
    let agent = Scripted::new("small", 4, Act::Say("yes"));
    world.agents("edge", Boundary::Device, &[&agent]).await;
    world.start().await;
    let shared = json!({"temperature": 0.5, "top_p": 0.9, "top_k": 5, "min_p": 0.1, "repetition_penalty": 1.1,
        "presence_penalty": 0.1, "frequency_penalty": 0.2, "logit_bias": {"5": 1}, "seed": 7, "stop": ["x"], "n": 2,
        "max_tokens": 9});
    let chat = json!({"parallel_tool_calls": false, "tool_choice": "auto", "response_format": {"type": "json_object"},
        "logprobs": false});
    let with = |mut body: Value, more: &[&Value]| {
        more.iter().for_each(|m| body.as_object_mut().unwrap().extend(m.as_object().unwrap().clone()));
        body
    };
    let call = json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let messages = json!([{"role": "user", "content": "hi"}, {"role": "assistant", "content": null, "tool_calls": [call]},
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
    // Nothing is told before there is content: then all of it.
    assert!(script.ends_with(&choices) && choices.len() >= script.len() - 2, "{choices:?}");

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
