//! Cancel, drain, traces, and what is never written anywhere.

use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use crate::support::{Agent, Answer, LIMIT, chat, until, with};

fn endless(question: &str) -> Value {
    with(chat(question, 3000), json!({"stream": true, "temperature": 1.5, "seed": 3}))
}

/// Waits until nothing runs.
async fn idle(agent: &Agent) {
    let looking = async {
        loop {
            let load = &agent.get(agent.plain, "/terrace/status").await.json()["load"];
            if load["running"] == 0 && load["queued"] == 0 {
                return;
            }
        }
    };
    tokio::time::timeout(LIMIT, looking).await.expect("it goes on without a client");
}

#[tokio::test]
async fn a_client_that_goes_away_frees_the_engine() {
    let Some(agent) = Agent::start(&[]).await else { return };
    // Streamed, and gone after the first event.
    let mut response = agent.send(agent.json("/v1/chat/completions", &endless("Write a long novel."))).await;
    assert!(response.body_mut().frame().await.unwrap().unwrap().is_data());
    drop(response);
    idle(&agent).await;
    // Not streamed, and gone while it waits.
    let waiting = agent.json("/v1/chat/completions", &with(endless("Write a long novel."), json!({"stream": false})));
    let mut waiting = Box::pin(agent.send(waiting));
    let running = async { while agent.get(agent.plain, "/terrace/status").await.json()["load"]["running"] != 1 {} };
    tokio::select! { _ = &mut waiting => panic!("3000 tokens before one status"), () = running => {} }
    drop(waiting);
    idle(&agent).await;
    let text = "terrace_requests_total{outcome=\"cancelled\"}";
    let counted = async { while agent.metric(text).await < 2.0 {} };
    tokio::time::timeout(LIMIT, counted).await.expect("two cancelled requests");
    assert_eq!(agent.post("/v1/chat/completions", &chat("Hi", 1)).await.status, 200);
}

#[tokio::test]
async fn a_drain_finishes_what_runs_and_takes_nothing_new() {
    let Some(mut agent) = Agent::start(&["--drain-timeout", "240"]).await else { return };
    let body = with(chat("Write a story.", 150), json!({"stream": true, "temperature": 1.0, "seed": 1}));
    let mut running = agent.send(agent.json("/v1/chat/completions", &body)).await;
    assert!(running.body_mut().frame().await.unwrap().unwrap().is_data());
    assert_eq!(agent.get(agent.admin, "/readyz").await.status, 200);

    agent.terminate();
    let ready = async {
        loop {
            let ready = agent.get(agent.admin, "/readyz").await;
            if ready.status == 503 {
                return ready.text();
            }
        }
    };
    assert_eq!(tokio::time::timeout(LIMIT, ready).await.unwrap(), "model: draining\n");
    let refused = agent.post("/v1/chat/completions", &chat("Hi", 1)).await;
    assert_eq!((refused.status, refused.code().as_str()), (503, "draining"));
    assert_eq!(agent.get(agent.admin, "/livez").await.status, 200);
    assert_eq!(Answer::read(running).await.events().last().unwrap(), "[DONE]");
    assert_eq!(agent.ended().await.code(), Some(0), "{}", agent.log());
}

#[tokio::test]
async fn a_drain_that_takes_too_long_ends_the_stream_with_an_error() {
    let Some(mut agent) = Agent::start(&["--drain-timeout", "0"]).await else { return };
    let mut running = agent.send(agent.json("/v1/chat/completions", &endless("Write a long novel."))).await;
    assert!(running.body_mut().frame().await.unwrap().unwrap().is_data());
    agent.terminate();
    let events = Answer::read(running).await.events();
    let error: Value = serde_json::from_str(events.last().unwrap()).unwrap();
    assert_eq!(error["error"]["code"], "draining");
    let end: Value = serde_json::from_str(&events[events.len() - 2]).unwrap();
    assert_eq!(end["choices"][0]["finish_reason"], "error");
    assert_eq!(agent.ended().await.code(), Some(0), "{}", agent.log());
}

#[tokio::test]
async fn one_trace_from_the_caller_to_prefill_and_decode_and_no_content_anywhere() {
    let Some(mut agent) = Agent::start(&[]).await else { return };
    let (trace, parent, marker) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "zebrafisk");
    let mut request = agent.json("/v1/chat/completions", &chat(&format!("Repeat after me: {marker} {marker}"), 16));
    request.headers_mut().insert("traceparent", format!("00-{trace}-{parent}-01").parse().unwrap());
    let answer = Answer::read(agent.send(request).await).await;
    assert_eq!(answer.status, 200);
    for bad in [json!({"model": marker}), json!({"messages": [{"role": marker, "content": marker}]})] {
        let refused = agent.post("/v1/chat/completions", &with(chat(marker, 1), bad)).await;
        assert!(refused.status >= 400 && !refused.text().contains(marker), "{}", refused.text());
    }
    // A caller that did not sample its trace decides for the agent too.
    let unsampled = "1bf7651916cd43dd8448eb211c80319c";
    let mut request = agent.json("/v1/chat/completions", &chat("Hi", 2));
    request.headers_mut().insert("traceparent", format!("00-{unsampled}-{parent}-00").parse().unwrap());
    assert_eq!(Answer::read(agent.send(request).await).await.status, 200);
    let openmetrics = http::Request::get(format!("http://{}/metrics", agent.admin))
        .header("accept", "application/openmetrics-text")
        .body(http_body_util::Full::default())
        .unwrap();
    let openmetrics = Answer::read(agent.send(openmetrics).await).await.text();
    assert!(openmetrics.contains(&format!("# {{trace_id=\"{trace}\"}}")), "an exemplar: {openmetrics}");
    assert!(!openmetrics.contains(unsampled), "{openmetrics}");
    let metrics = agent.get(agent.admin, "/metrics").await.text();
    agent.terminate();
    agent.ended().await;

    let lines = until("spans", || std::fs::read_to_string(agent.folder.path().join("spans")).ok()).await;
    let spans: Vec<Value> = lines.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let named = |name: &str| {
        let of = spans.iter().find(|s| s["traceId"] == trace && s["name"] == name);
        of.unwrap_or_else(|| panic!("no span {name} in {lines}"))
    };
    assert!(!lines.contains(unsampled), "{lines}");
    let server = named("chat smollm2");
    assert_eq!((&server["kind"], &server["parentSpanId"]), (&json!("SERVER"), &json!(parent)));
    let usage = &answer.json()["usage"];
    for (attribute, count) in [("input", "prompt_tokens"), ("output", "completion_tokens")] {
        assert_eq!(server["attributes"][format!("gen_ai.usage.{attribute}_tokens")], usage[count], "{server}");
    }
    assert!(server["attributes"]["terrace.queue_us"].is_number(), "{server}");
    for child in ["prefill", "decode"] {
        assert_eq!(named(child)["parentSpanId"], server["spanId"]);
    }
    for (place, text) in [("log", agent.log()), ("spans", lines.clone()), ("metrics", metrics)] {
        assert!(!text.contains(marker), "content in {place}");
    }
}
