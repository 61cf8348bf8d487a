//! Memory: what it may take, and what is said where that is too little.

use futures::future::join_all;
use serde_json::json;

use crate::refusals::ends;
use crate::support::{Agent, chat, model, with};

/// Bytes that the program may take beside its model's file and its KV cache.
const SPARE: u64 = 150_000_000;

/// A line of `/proc/PID/status`, in bytes.
fn status(agent: &Agent, field: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/status", agent.child.id().unwrap())).unwrap();
    let line = text.lines().find_map(|l| l.strip_prefix(field)?.strip_prefix(':')).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
}

/// The context is shortened to what the cache holds; a prompt that is longer is refused before anything is computed.
#[tokio::test]
async fn a_prompt_that_the_cache_cannot_hold_is_refused_with_a_sentence() {
    let Some(agent) = Agent::start(&["--kv-cache", "2Mi"]).await else { return };
    let refused = agent.post("/v1/chat/completions", &chat(&"word ".repeat(200), 1)).await;
    assert_eq!((refused.status, refused.code().as_str()), (422, "context_too_long"), "{}", refused.text());
    // 2 MiB hold five blocks of 16 tokens: 23,040 bytes a token.
    let sentence = refused.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(sentence.contains("80"), "{sentence}");
    // The control: one that fits is answered, to the end of the room if need be.
    let answered = agent.post("/v1/chat/completions", &chat("Count to a million.", 400)).await;
    assert_eq!(answered.status, 200, "{}", answered.text());
    assert!(answered.json()["usage"]["total_tokens"].as_u64().unwrap() <= 80, "{}", answered.text());
    assert_eq!(agent.metric("terrace_preemptions_total").await, 0.0);
}

#[tokio::test]
async fn a_cache_without_room_for_any_prompt_is_refused_at_the_start() {
    let Some(model) = model() else { return };
    let model = model.display().to_string();
    let left = ends(&["--model", &model, "--plain-listen", "127.0.0.1:0", "--kv-cache", "100Ki"]).await;
    let sentence = left["message"].as_str().unwrap();
    assert!(sentence.contains("102400 bytes") && sentence.contains("give it at least"), "{left}");
}

/// Weights are repacked, so that the mapped file is not needed any more: what is held is about one file, not two. The
/// load writes more than the cache holds, another prompt each time, so that all of it is used.
#[tokio::test]
async fn memory_stays_within_file_cache_and_150_megabytes() {
    let flags = ["--kv-cache", "48Mi", "--max-sequences", "8", "--queue-limit", "64", "--context-tokens", "1024"];
    let Some(agent) = Agent::start(&flags).await else { return };
    let file = std::fs::metadata(model().unwrap()).unwrap().len();
    let bound = file + (48 << 20) + SPARE;
    let ready = status(&agent, "VmRSS");
    let ask = async |n: u32| {
        let words = format!("{n} ships ").repeat(60);
        let body = with(chat(&words, 24), json!({"temperature": 1.0, "seed": n, "stream": n.is_multiple_of(2)}));
        agent.post("/v1/chat/completions", &body).await
    };
    for answer in join_all((0..16).map(ask)).await {
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let load = agent.get(agent.plain, "/terrace/status").await.json()["load"].clone();
    assert_eq!((load["running"].as_u64(), load["queued"].as_u64()), (Some(0), Some(0)), "{load}");
    let (after, peak) = (status(&agent, "VmRSS"), status(&agent, "VmHWM"));
    eprintln!("{ready} bytes when ready, {after} after the load, {peak} at the peak; {bound} are allowed");
    // The control: weights cannot be used without being held.
    assert!(ready > file, "{ready} when ready is less than the weights' {file}: read wrongly");
    assert!(peak.max(after) <= bound, "{after} after, {peak} at the peak: more than {bound}");
}
