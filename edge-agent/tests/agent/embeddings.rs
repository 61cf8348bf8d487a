//! `/v1/embeddings`, with small models whose vectors are known by their definition, and with the real one.

use serde_json::{Value, json};
use std::collections::HashSet;
use tempfile::TempDir;
use terrace_agent::gguf::Gguf;
use terrace_contract::load::Load;
use terrace_identity::Identity;
use terrace_wire::vector;

use crate::reference::Reference;
use crate::sdk::{drive, python};
use crate::support::{Agent, Answer, LIMIT, MODEL, call, chat, until, with};
use crate::tiny::{self, Family, Kind, VOCABULARY, WIDTH};

/// Some tokens of this length; those of one `kind` begin alike.
pub fn tokens(kind: u32, len: usize) -> Vec<u32> {
    (0..len as u32).map(|i| (i * 53 + kind * 101 + 7) % 256).collect()
}

/// A small model's file in a folder of its own.
pub fn file(writer: &tiny::Writer) -> (TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tiny.gguf");
    std::fs::write(&path, writer.finish()).unwrap();
    (folder, path)
}

/// An agent of a small model.
pub async fn small(flags: &[&str]) -> Agent {
    let (_folder, path) = file(&tiny::writer(Family::Llama, Kind::F32));
    Agent::serving(&path, flags).await
}

fn asked(input: &Value, more: Value) -> Value {
    with(json!({"model": MODEL, "input": input}), more)
}

async fn embed(agent: &Agent, input: &Value, more: Value) -> Answer {
    agent.post("/v1/embeddings", &asked(input, more)).await
}

/// The vectors of an answer, written either way.
fn vectors(answer: &Answer) -> Vec<Vec<f32>> {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let list = answer.json();
    assert_eq!((&list["object"], &list["model"]), (&json!("list"), &json!(MODEL)));
    let entry = |(index, entry): (usize, &Value)| {
        assert_eq!((&entry["object"], &entry["index"]), (&json!("embedding"), &json!(index)));
        match &entry["embedding"] {
            Value::String(text) => vector::decode(text).unwrap(),
            numbers => serde_json::from_value(numbers.clone()).unwrap(),
        }
    };
    list["data"].as_array().unwrap().iter().enumerate().map(entry).collect()
}

/// Exact: base64 keeps every bit.
async fn bits(agent: &Agent, input: &Value, pooling: &str) -> Vec<Vec<f32>> {
    vectors(&embed(agent, input, json!({"encoding_format": "base64", "pooling": pooling})).await)
}

fn unit(x: &[f64]) -> Vec<f64> {
    let length = x.iter().map(|x| x * x).sum::<f64>().sqrt();
    x.iter().map(|x| x / length).collect()
}

/// How far a vector is from one of length 1.
fn distance(found: &[f32], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    found.iter().zip(unit(expected)).map(|(f, e)| (f64::from(*f) - e).powi(2)).sum::<f64>().sqrt()
}

/// What the file says where the caller says nothing; null: nothing that this agent has.
#[tokio::test]
async fn vectors_of_every_architecture_are_those_of_its_definition() {
    let files = [
        (Family::Llama, None, "mean"),
        (Family::Qwen2, Some(2), ""),
        (Family::Qwen3, Some(3), "last"),
        (Family::Gemma3, Some(1), "mean"),
    ];
    for (family, key, default) in files {
        let mut writer = tiny::writer(family, Kind::F32);
        if let Some(number) = key {
            writer.u32(&format!("{}.pooling_type", family.name()), number);
        }
        let (_folder, path) = file(&writer);
        let agent = Agent::serving(&path, &["--max-sequences", "3"]).await;
        let reference = Reference::of(&Gguf::open(&path).unwrap(), family);
        let inputs = [tokens(1, 40), tokens(2, 7), tokens(3, 1), tokens(4, 90)];
        let states = |tokens: &[u32]| (1..=tokens.len()).map(|n| reference.hidden(&tokens[..n])).collect::<Vec<_>>();
        let states = inputs.each_ref().map(|input| states(input));
        for pooling in ["mean", "last"] {
            let found = vectors(&embed(&agent, &json!(inputs), json!({"pooling": pooling})).await);
            for (found, states) in found.iter().zip(&states) {
                let sum: Vec<f64> = (0..WIDTH).map(|i| states.iter().map(|s| s[i]).sum()).collect();
                let expected = if pooling == "mean" { &sum } else { &states[states.len() - 1] };
                let (off, length) = (distance(found, expected), found.iter().map(|x| x * x).sum::<f32>().sqrt());
                assert!(off < 2e-3 && (length - 1.0).abs() < 1e-5, "{family:?} {pooling}: {off}, {length}");
            }
            if pooling == default {
                let by_itself = vectors(&embed(&agent, &json!(inputs), json!({})).await);
                assert_eq!(by_itself, found, "{family:?}");
            }
        }
        if default.is_empty() {
            let refused = embed(&agent, &json!("a"), json!({})).await;
            assert_eq!((refused.status, refused.code().as_str()), (422, "unsupported_feature"));
            assert_eq!(refused.json()["error"]["param"], "/pooling");
        }
    }
}

#[tokio::test]
async fn a_vector_is_the_same_alone_among_many_and_with_what_is_cached_to_the_bit() {
    let agent = small(&["--max-sequences", "4", "--queue-limit", "2"]).await;
    let inputs: Vec<Vec<u32>> = (0..14).map(|i| tokens(i % 5, 3 + 17 * i as usize)).collect();
    let total: usize = inputs.iter().map(Vec::len).sum();
    let cached = async || agent.metric("terrace_cached_prompt_tokens_total").await;
    for pooling in ["mean", "last"] {
        // First all at once, then each alone; of the second kind all but the ends are in the cache by then.
        let answer = embed(&agent, &json!(inputs), json!({"encoding_format": "base64", "pooling": pooling})).await;
        let together = vectors(&answer);
        let usage = &answer.json()["usage"];
        assert_eq!((&usage["prompt_tokens"], &usage["total_tokens"]), (&json!(total), &json!(total)));
        for (input, expected) in inputs.iter().zip(&together) {
            assert_eq!(&bits(&agent, &json!([input]), pooling).await[0], expected, "{pooling} {}", input.len());
        }
        let distinct: HashSet<Vec<u32>> = together.iter().map(|v| v.iter().map(|x| x.to_bits()).collect()).collect();
        assert_eq!(distinct.len(), inputs.len(), "vectors that say nothing");
        if pooling == "mean" {
            assert_eq!(cached().await, 0.0, "a mean is over every token");
            // Its beginning is in the cache from here on, and the mean is what it was.
            let text = json!({"model": MODEL, "prompt": "x".repeat(120), "max_tokens": 1, "temperature": 0});
            let before = bits(&agent, &json!("x".repeat(120)), pooling).await;
            for _ in 0..2 {
                assert_eq!(agent.post("/v1/completions", &text).await.status, 200);
            }
            let found = cached().await;
            assert!(found >= 96.0, "{found}");
            assert_eq!(bits(&agent, &json!("x".repeat(120)), pooling).await, before);
            assert_eq!(cached().await, found);
        } else {
            assert!(cached().await > total as f64 / 2.0);
        }
    }
}

#[tokio::test]
async fn texts_and_token_ids_floats_and_base64_are_the_same() {
    let agent = small(&[]).await;
    let ids = |text: &str| text.bytes().map(u32::from).collect::<Vec<u32>>();
    // Bytes of the small vocabulary in which nothing merges.
    let (a, b) = ("ABCDEFGH", "the other, longer one of the two");
    let text = bits(&agent, &json!(a), "mean").await;
    for input in [json!([a]), json!(ids(a)), json!([ids(a)])] {
        assert_eq!(bits(&agent, &input, "mean").await, text, "{input}");
    }
    let both =
        embed(&agent, &json!([a, b]), json!({"encoding_format": "float", "dimensions": WIDTH, "user": "u"})).await;
    assert!(both.json()["data"][0]["embedding"].is_array());
    let both = vectors(&both);
    assert_eq!((both.len(), &both[0]), (2, &text[0]));
    assert_ne!(both[1], both[0]);
    // Control tokens that a text spells out are words there; as ids they are themselves.
    let spelled = bits(&agent, &json!("<|im_start|>"), "mean").await;
    assert_ne!(spelled, bits(&agent, &json!([259]), "mean").await);
}

#[tokio::test]
async fn each_fault_of_an_embedding_has_its_status_its_code_and_its_place() {
    let agent = small(&["--context-tokens", "64"]).await;
    let long = |tokens: usize| json!(vec![5; tokens]);
    let cases = [
        (json!({"model": "secret-9"}), 404, "model_not_found", "/model"),
        (json!({"input": ""}), 400, "invalid_request", "/input"),
        (json!({"input": ["secret", ""]}), 400, "invalid_request", "/input/1"),
        (json!({"input": [[1, 2], [3, VOCABULARY]]}), 400, "invalid_request", "/input/1/1"),
        (json!({"input": [VOCABULARY]}), 400, "invalid_request", "/input/0"),
        (json!({"input": ["a", "secret ".repeat(60)]}), 422, "context_too_long", "/input/1"),
        (json!({"input": long(65)}), 422, "context_too_long", "/input"),
        (json!({"input": vec!["secret"; 2049]}), 400, "invalid_request", "/input"),
        (json!({"encoding_format": "secret"}), 400, "invalid_request", "/encoding_format"),
        (json!({"pooling": "secret"}), 400, "invalid_request", "/pooling"),
        (json!({"dimensions": 32}), 422, "unsupported_feature", "/dimensions"),
        (json!({"secret": 1}), 400, "invalid_request", "/[2]"),
    ];
    for (more, status, code, place) in cases {
        let answer = embed(&agent, &json!("secret"), more).await;
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{}", answer.text());
        assert_eq!(answer.json()["error"]["param"], place, "{}", answer.text());
        assert!(!answer.text().contains("secret"), "{}", answer.text());
        assert!(Load::from_header(answer.headers["endpoint-load-metrics"].to_str().unwrap()).is_some());
    }
    let refused = embed(&agent, &json!("a"), json!({"dimensions": 32})).await.text();
    assert!(refused.contains(&WIDTH.to_string()), "{refused}");
    assert_eq!(agent.get(agent.plain, "/v1/embeddings").await.status, 405);
    // All of the context, and the control.
    assert_eq!(vectors(&embed(&agent, &long(64), json!({})).await)[0].len(), WIDTH);
    assert_eq!(agent.metric("terrace_requests_total{outcome=\"answered\"}").await, 1.0);
}

#[tokio::test]
async fn many_inputs_go_in_few_steps_and_only_a_router_learns_what_they_took() {
    let agent = small(&["--max-sequences", "8"]).await;
    let inputs: Vec<Vec<u32>> = (0..40).map(|i| tokens(i, 20)).collect();
    let router = agent.caller(&Identity::policy("c-1", "shop", "chat"));
    let body = asked(&json!(inputs), json!({}));
    let answer = call(&router, "/v1/embeddings", &[("x-terrace-confidence", "1")], &body).await;
    assert_eq!(vectors(&answer).len(), 40);
    let load = Load::from_header(answer.headers["endpoint-load-metrics"].to_str().unwrap()).unwrap();
    assert_eq!(load.slots, 8);
    let terrace = &answer.json()["terrace"];
    let (cost, figure) = (&terrace["cost"], |name: &str| terrace["cost"][name].as_u64().unwrap());
    assert!(figure("computeUs") > 0 && figure("prefillUs") >= figure("computeUs") / 2, "{cost}");
    assert_eq!((figure("decodeUs"), figure("steps"), figure("cachedTokens")), (0, 0, 0), "{cost}");
    assert_eq!(terrace["load"]["slots"], 8);
    assert!(terrace.get("confidence").is_none() && terrace.get("hidden").is_none(), "{terrace}");
    assert!(embed(&agent, &json!(inputs), json!({})).await.json().get("terrace").is_none());

    let operator = agent.caller(&Identity::operator("c-1"));
    assert_eq!(call(&operator, "/v1/embeddings", &[], &body).await.status, 403);
}

#[tokio::test]
async fn deadlines_are_kept_and_a_client_that_goes_away_frees_the_engine() {
    // So many at once that whichever ends, others are seen to run.
    let agent = small(&["--max-sequences", "4"]).await;
    let router = agent.caller(&Identity::policy("c-1", "shop", "chat"));
    let corpus: Vec<Vec<u32>> = (0..1100).map(|i| tokens(i, 250)).collect();
    let body = asked(&json!(corpus), json!({}));
    let late = call(&router, "/v1/embeddings", &[("x-terrace-deadline-ms", "40")], &body).await;
    assert_eq!((late.status, late.code().as_str()), (429, "rate_limited"), "{}", late.text());
    assert!(late.headers["retry-after-ms"].to_str().unwrap().parse::<u64>().unwrap() > 0);
    let nonsense = call(&router, "/v1/embeddings", &[("x-terrace-deadline-ms", "soon")], &body).await;
    assert_eq!(nonsense.status, 400);

    let more: Vec<Vec<u32>> = (0..1250).map(|i| tokens(i, 250)).collect();
    let refused = embed(&agent, &json!(more), json!({})).await;
    assert_eq!((refused.status, refused.code().as_str()), (413, "request_too_large"), "{}", refused.text());

    let load = async || agent.get(agent.plain, "/terrace/status").await.json()["load"].clone();
    let mut waiting = Box::pin(agent.send(agent.json("/v1/embeddings", &body)));
    let running = async { while load().await["running"].as_u64() < Some(1) {} };
    tokio::select! { _ = &mut waiting => panic!("275,000 tokens before one status"), () = running => {} }
    // A chat that comes meanwhile waits for a place, not for the corpus.
    let hi = chat("Hi", 3);
    let chatting = agent.post("/v1/chat/completions", &hi);
    let chatting = async { tokio::time::timeout(LIMIT, chatting).await.expect("an answer") };
    tokio::select! { _ = &mut waiting => panic!("the corpus was through first"), answer = chatting => assert_eq!(answer.status, 200) }
    drop(waiting);
    let idle = async { while load().await["running"].as_u64() != Some(0) {} };
    tokio::time::timeout(LIMIT, idle).await.expect("it goes on without a client");
    let counted = async { while agent.metric("terrace_requests_total{outcome=\"cancelled\"}").await < 1.0 {} };
    tokio::time::timeout(LIMIT, counted).await.expect("a cancelled request");
    assert_eq!(embed(&agent, &json!("a"), json!({})).await.status, 200);
}

#[tokio::test]
async fn no_text_and_no_vector_is_written_anywhere() {
    let mut agent = small(&[]).await;
    let marker = "zebrafisk";
    let found = embed(&agent, &json!([marker, marker]), json!({"encoding_format": "base64"})).await;
    let vector = found.json()["data"][0]["embedding"].as_str().unwrap().to_owned();
    let refused = embed(&agent, &json!([marker, ""]), json!({"pooling": marker})).await;
    assert!(refused.status == 400 && !refused.text().contains(marker), "{}", refused.text());
    let metrics = agent.get(agent.admin, "/metrics").await.text();
    agent.terminate();
    agent.ended().await;
    let lines = until("spans", || std::fs::read_to_string(agent.folder.path().join("spans")).ok()).await;
    let spans: Vec<Value> = lines.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let named = |name: &str| spans.iter().filter(|s| s["name"] == name).collect::<Vec<_>>();
    let server = named(&format!("embeddings {MODEL}"))[0];
    let attribute = |name: &str| &server["attributes"][name];
    assert_eq!(attribute("gen_ai.operation.name"), "embeddings");
    assert_eq!(attribute("gen_ai.usage.input_tokens"), &json!(2 * marker.len()));
    let prefills = named("prefill").into_iter().filter(|s| s["parentSpanId"] == server["spanId"]).count();
    assert_eq!(prefills, 2, "{lines}");
    for (place, text) in [("log", agent.log()), ("spans", lines.clone()), ("metrics", metrics)] {
        assert!(!text.contains(marker) && !text.contains(&vector[..24]), "content in {place}");
    }
}

/// The real model: texts that mean the same lie nearer to one another than to others.
#[tokio::test]
async fn the_openai_package_reads_vectors_of_the_real_model() {
    drive(&python(), "edge-agent/tests/agent/embeddings.py").await;
}
