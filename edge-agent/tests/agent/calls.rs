//! How many calls an answer makes. A small model that may go on repeats its call until it is cut off.

use serde_json::{Value, json};

use crate::cut::agent as tiny;
use crate::support::{Agent, chat, with};

/// Two functions whose arguments are soon over.
fn tools() -> Value {
    let city = json!({"type": "object", "properties": {"city": {"enum": ["Paris", "London"]}}, "required": ["city"],
        "additionalProperties": false});
    let tool = |name: &str| json!({"type": "function", "function": {"name": name, "parameters": city}});
    json!([tool("weather"), tool("time")])
}

/// Names of the calls of an answer, and how it ended.
async fn calls(agent: &Agent, choice: &Value, parallel: Option<bool>) -> (Vec<String>, String) {
    let words = "What are the weather and the time in Paris and in London?";
    let mut body = with(chat(words, 400), json!({"tools": tools(), "tool_choice": choice}));
    if let Some(parallel) = parallel {
        body["parallel_tool_calls"] = parallel.into();
    }
    let answer = agent.post("/v1/chat/completions", &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let answer = answer.json();
    let choice = &answer["choices"][0];
    let names = choice["message"]["tool_calls"].as_array().into_iter().flatten();
    let names = names.map(|call| call["function"]["name"].as_str().unwrap().to_owned()).collect();
    (names, choice["finish_reason"].as_str().unwrap().to_owned())
}

async fn one_call_where_one_will_do(agent: &Agent) {
    let named = json!({"type": "function", "function": {"name": "time"}});
    for parallel in [None, Some(false)] {
        let (names, finish) = calls(agent, &named, parallel).await;
        assert_eq!((names, finish.as_str()), (vec!["time".to_owned()], "tool_calls"), "named, parallel {parallel:?}");
        let (names, finish) = calls(agent, &json!("required"), parallel).await;
        assert_eq!((names.len(), finish.as_str()), (1, "tool_calls"), "required, parallel {parallel:?}: {names:?}");
    }
    // Who asks for several gets them.
    let (names, _) = calls(agent, &json!("required"), Some(true)).await;
    assert!((1..=16).contains(&names.len()), "{names:?}");
}

#[tokio::test]
async fn a_forced_call_is_not_repeated_until_max_tokens() {
    let Some(agent) = Agent::start(&[]).await else { return };
    one_call_where_one_will_do(&agent).await;
}

#[tokio::test]
async fn a_forced_call_of_a_model_of_noise_is_made_once() {
    one_call_where_one_will_do(&tiny().await).await;
}
