//! Answers that end too early: by `max_tokens`, by a stop string, in the middle of a call or of a character.

use serde_json::{Value, json};

use crate::embeddings::file;
use crate::support::{Agent, MODEL, chat, with};
use crate::tiny::{self, Family, Kind};

/// A small model with a context that has room for tools in its words, each byte a token.
pub async fn agent() -> Agent {
    let mut writer = tiny::writer(Family::Llama, Kind::F32);
    writer.without_key("llama.context_length").u32("llama.context_length", 2048);
    let (_folder, path) = file(&writer);
    Agent::serving(&path, &[]).await
}

/// A choice, whole or put together from its events.
#[derive(Debug, PartialEq)]
struct Said {
    content: String,
    /// Name and arguments.
    calls: Vec<(String, String)>,
    finish: String,
}

impl Said {
    async fn whole(agent: &Agent, body: &Value) -> Said {
        let answer = agent.post("/v1/chat/completions", body).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let choice = &answer.json()["choices"][0];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let call = |call: &Value| (text(&call["function"]["name"]), text(&call["function"]["arguments"]));
        let calls = choice["message"]["tool_calls"].as_array().into_iter().flatten().map(call).collect();
        Said { content: text(&choice["message"]["content"]), calls, finish: text(&choice["finish_reason"]) }
    }

    async fn streamed(agent: &Agent, body: &Value) -> Said {
        let answer = agent.post("/v1/chat/completions", &with(body.clone(), json!({"stream": true}))).await;
        let mut said = Said { content: String::new(), calls: Vec::new(), finish: String::new() };
        for event in answer.events().iter().filter(|event| *event != "[DONE]") {
            let event: Value = serde_json::from_str(event).unwrap();
            let choice = &event["choices"][0];
            said.content.push_str(choice["delta"]["content"].as_str().unwrap_or_default());
            said.finish.push_str(choice["finish_reason"].as_str().unwrap_or_default());
            for call in choice["delta"]["tool_calls"].as_array().into_iter().flatten() {
                let text = |name: &str| call["function"][name].as_str().unwrap_or_default();
                if call["id"].is_string() {
                    said.calls.push((text("name").to_owned(), String::new()));
                }
                assert_eq!(call["index"], said.calls.len() - 1);
                said.calls.last_mut().unwrap().1.push_str(text("arguments"));
            }
        }
        said
    }

    /// Both ways of asking give the same, and no call that is none.
    async fn of(agent: &Agent, body: &Value) -> Said {
        let said = Said::whole(agent, body).await;
        assert_eq!(Said::streamed(agent, body).await, said, "{body}");
        for (name, arguments) in &said.calls {
            assert_eq!(name, "find");
            let arguments: Value = serde_json::from_str(arguments).unwrap_or_else(|e| panic!("{e}: {said:?}"));
            assert_eq!(arguments, json!({"city": "Paris"}));
        }
        said
    }
}

fn calling(choice: Value) -> Value {
    let city = json!({"type": "object", "properties": {"city": {"enum": ["Paris"]}}, "required": ["city"],
        "additionalProperties": false});
    let tools = json!([{"type": "function", "function": {"name": "find", "parameters": city}}]);
    with(chat("Where?", 200), json!({"tools": tools, "tool_choice": choice, "parallel_tool_calls": false}))
}

#[tokio::test]
async fn a_call_that_max_tokens_cuts_is_neither_a_call_nor_content() {
    let agent = agent().await;
    let named = json!({"type": "function", "function": {"name": "find"}});
    for choice in [json!("required"), named] {
        let body = calling(choice);
        let whole = Said::of(&agent, &body).await;
        assert_eq!((whole.content.as_str(), whole.calls.len(), whole.finish.as_str()), ("", 1, "tool_calls"));
        for tokens in [1, 2, 9, 20, 30, 40] {
            let cut = Said::of(&agent, &with(body.clone(), json!({"max_tokens": tokens}))).await;
            let expected = Said { content: String::new(), calls: Vec::new(), finish: "length".into() };
            assert_eq!(cut, expected, "{tokens} tokens");
        }
    }
}

#[tokio::test]
async fn a_call_that_a_stop_string_cuts_does_not_end_as_one() {
    let agent = agent().await;
    let body = calling(json!("required"));
    for stop in ["{", "name", "\"arguments\"", "city", "Par"] {
        let cut = Said::of(&agent, &with(body.clone(), json!({"stop": stop}))).await;
        let expected = Said { content: String::new(), calls: Vec::new(), finish: "stop".into() };
        assert_eq!(cut, expected, "{stop}");
    }
    // What comes before it is whole: a call and no more than that.
    let whole = Said::of(&agent, &with(body, json!({"stop": "}}"}))).await;
    assert_eq!(whole.finish, if whole.calls.is_empty() { "stop" } else { "tool_calls" });
}

/// The likeliest token is a byte that begins a character of four.
#[tokio::test]
async fn max_tokens_in_the_middle_of_an_emoji_emits_no_replacement_character() {
    let agent = agent().await;
    let more = json!({"max_tokens": 1, "temperature": 0, "logit_bias": {"240": 100}});
    assert_eq!(Said::of(&agent, &with(chat("Hi", 1), more.clone())).await.content, "");
    let body = with(json!({"model": MODEL, "prompt": "Hi"}), more);
    let whole = agent.post("/v1/completions", &body).await.json();
    assert_eq!((&whole["choices"][0]["text"], &whole["usage"]["completion_tokens"]), (&json!(""), &json!(1)));
    let streamed = agent.post("/v1/completions", &with(body, json!({"stream": true}))).await;
    assert!(streamed.text().contains("finish_reason") && !streamed.text().contains('\u{fffd}'), "{}", streamed.text());
}
