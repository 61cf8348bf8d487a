//! What comes back for a good request.

use serde_json::{Value, json};
use terrace_contract::load::Load;

use crate::support::{Agent, MODEL, chat, with};

fn text(answer: &Value) -> String {
    answer["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn whole_and_streamed_answers_say_the_same() {
    let Some(agent) = Agent::start(&[]).await else { return };
    let body = chat("What is the capital of France?", 24);
    // Once before, so that as much of the prompt is cached in either way of asking.
    agent.post("/v1/chat/completions", &body).await;
    let whole = agent.post("/v1/chat/completions", &body).await;
    assert_eq!(whole.status, 200, "{}", whole.text());
    let load = whole.headers["endpoint-load-metrics"].to_str().unwrap();
    assert_eq!(Load::from_header(load).unwrap().slots, 1);
    let answer = whole.json();
    assert!(!text(&answer).is_empty(), "{answer}");
    assert_eq!((&answer["object"], &answer["model"]), (&json!("chat.completion"), &json!(MODEL)));
    let usage = &answer["usage"];
    let count = |name: &str| usage[name].as_u64().unwrap();
    assert_eq!(count("total_tokens"), count("prompt_tokens") + count("completion_tokens"));
    assert!(answer.get("terrace").is_none());

    let streaming = with(body.clone(), json!({"stream": true, "stream_options": {"include_usage": true}}));
    let streamed = agent.post("/v1/chat/completions", &streaming).await;
    assert_eq!(streamed.headers["content-type"], "text/event-stream");
    let events = streamed.events();
    assert_eq!(events.last().unwrap(), "[DONE]");
    let chunks: Vec<Value> = events[..events.len() - 1].iter().map(|e| serde_json::from_str(e).unwrap()).collect();
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    let said: String =
        chunks.iter().filter_map(|c| c["choices"][0]["delta"]["content"].as_str().map(str::to_owned)).collect();
    assert_eq!(said, text(&answer));
    let (usage_chunk, end) = (chunks.last().unwrap(), &chunks[chunks.len() - 2]);
    assert_eq!((&usage_chunk["usage"], &usage_chunk["choices"]), (usage, &json!([])));
    assert_eq!(end["choices"][0]["finish_reason"], answer["choices"][0]["finish_reason"]);
    assert!(chunks.len() > 5, "one event for all: {chunks:?}");

    let plain = agent.post("/v1/chat/completions", &with(body, json!({"stream": true}))).await;
    assert!(!plain.text().contains("usage\":{"));
}

#[tokio::test]
async fn sampling_and_limits_are_kept() {
    let Some(agent) = Agent::start(&[]).await else { return };
    let ask = async |more: Value| {
        let answer = agent.post("/v1/chat/completions", &with(chat("Tell me a story about a fox.", 32), more)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    };
    let short = ask(json!({"max_completion_tokens": 5})).await;
    assert_eq!(short["usage"]["completion_tokens"], 5);
    assert_eq!(short["choices"][0]["finish_reason"], "length");

    let full = text(&ask(json!({})).await);
    let word = full.split_whitespace().nth(4).unwrap();
    let stopped = ask(json!({"stop": [word, "never ever"]})).await;
    assert_eq!(text(&stopped), full[..full.find(word).unwrap()]);
    assert_eq!(stopped["choices"][0]["finish_reason"], "stop");

    let warm = json!({"temperature": 1.2, "top_p": 0.95, "seed": 7});
    let (first, second) = (text(&ask(warm.clone()).await), text(&ask(warm).await));
    assert_eq!(first, second);
    assert_ne!(first, text(&ask(json!({"temperature": 1.2, "top_p": 0.95, "seed": 8})).await));

    let known = ask(json!({"max_tokens": 3, "logprobs": true, "top_logprobs": 2})).await;
    let content = known["choices"][0]["logprobs"]["content"].as_array().unwrap();
    assert_eq!(content.len(), 3);
    assert_eq!(content[0]["top_logprobs"][0]["logprob"], content[0]["logprob"], "greedy takes the likeliest");
}

/// OpenAI takes it, for whoever wants the prompt's own tokens counted.
#[tokio::test]
async fn an_echo_without_an_answer_is_the_prompt() {
    let Some(agent) = Agent::start(&["--context-tokens", "512", "--max-sequences", "4"]).await else { return };
    let body = json!({"model": MODEL, "prompt": ["One two", "three"], "max_tokens": 0, "echo": true, "n": 2});
    let answer = agent.post("/v1/completions", &body).await.json();
    let texts: Vec<_> = answer["choices"].as_array().unwrap().iter().map(|c| c["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["One two", "One two", "three", "three"], "{answer}");
    assert_eq!(answer["choices"][3]["finish_reason"], "length");
    assert_eq!(answer["usage"]["completion_tokens"], 0);
    assert!(answer["usage"]["prompt_tokens"].as_u64().unwrap() > 0, "{answer}");
    let streamed = agent.post("/v1/completions", &with(body, json!({"stream": true, "n": 1}))).await.events();
    let pieces = streamed.iter().filter_map(|e| serde_json::from_str::<Value>(e).ok());
    let joined: String = pieces.filter_map(|c| c["choices"][0]["text"].as_str().map(str::to_owned)).collect();
    assert!(joined == "One twothree" || joined == "threeOne two", "{joined}");
    // Without echo there is nothing to say.
    let silent = json!({"model": MODEL, "prompt": "One two", "max_tokens": 0});
    let answer = agent.post("/v1/completions", &silent).await.json();
    assert_eq!((&answer["choices"][0]["text"], &answer["usage"]["completion_tokens"]), (&json!(""), &json!(0)));
}

#[tokio::test]
async fn of_allowed_tools_one_is_called() {
    let Some(agent) = Agent::start(&[]).await else { return };
    let tool = |name: &str| {
        let parameters = json!({"type": "object", "properties": {"n": {"type": "integer", "maximum": 9}},
            "required": ["n"], "additionalProperties": false});
        json!({"type": "function", "function": {"name": name, "description": name, "parameters": parameters}})
    };
    let choice = |name: &str| {
        json!({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [
            {"type": "function", "function": {"name": name}}]}})
    };
    for name in ["add", "subtract"] {
        let more = json!({"tools": [tool("add"), tool("subtract")], "tool_choice": choice(name), "temperature": 0,
            "parallel_tool_calls": false});
        let answer = agent.post("/v1/chat/completions", &with(chat("Add three.", 60), more)).await;
        let message = &answer.json()["choices"][0]["message"];
        assert_eq!(message["tool_calls"][0]["function"]["name"], name, "{}", answer.text());
    }
    let more = json!({"tools": [tool("add")], "tool_choice": choice("divide")});
    let refused = agent.post("/v1/chat/completions", &with(chat("Hi", 1), more)).await;
    assert_eq!(refused.status, 400);
    assert_eq!(refused.json()["error"]["param"], "/tool_choice/allowed_tools/tools/0/function/name");
}

#[tokio::test]
async fn text_completions_models_and_status_answer() {
    let Some(agent) = Agent::start(&["--context-tokens", "512"]).await else { return };
    let body = json!({"model": MODEL, "prompt": "The capital of France is", "max_tokens": 4, "temperature": 0});
    let answer = agent.post("/v1/completions", &body).await.json();
    assert_eq!(answer["object"], "text_completion");
    let said = answer["choices"][0]["text"].as_str().unwrap();
    assert!(said.contains("Paris"), "{said}");
    let streamed = agent.post("/v1/completions", &with(body, json!({"stream": true}))).await.events();
    let pieces = streamed.iter().filter_map(|e| serde_json::from_str::<Value>(e).ok());
    let joined: String = pieces.filter_map(|c| c["choices"][0]["text"].as_str().map(str::to_owned)).collect();
    assert_eq!(joined, said);

    let models = agent.get(agent.plain, "/v1/models").await.json();
    assert_eq!((&models["data"][0]["id"], &models["data"][0]["context_length"]), (&json!(MODEL), &json!(512)));
    let status = agent.get(agent.plain, "/terrace/status").await.json();
    assert_eq!((&status["podUid"], &status["node"]), (&json!("pod-1"), &json!("node-1")));
    assert_eq!(status["model"]["digest"], format!("sha256:{}", crate::support::SHA256));
    assert_eq!((&status["model"]["format"], &status["draining"]), (&json!("GGUF Q4_1"), &json!(false)));
    assert_eq!(agent.metric("terrace_requests_total{outcome=\"answered\"}").await, 2.0);
    assert_eq!(agent.metric("gen_ai_server_time_to_first_token_seconds_count").await, 2.0);
}
