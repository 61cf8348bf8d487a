//! The real model against llama.cpp: the same tokens of the same texts, the same greedy answers.
//! `references/make.py` made what it is compared with.

use std::path::PathBuf;

use serde::Deserialize;
use terrace_agent::engine::{Engine, EngineConfig, EngineHandle, Event, FinishReason, GenerateRequest, TokenLogprob};
use terrace_agent::model::{LoadOptions, LoadedModel};

/// Where our text first leaves llama.cpp's, both choices must be this close (in logits): the two round activations and
/// the cache differently, so a tie can fall either way. Measured; see `near_ties` in the test's output.
const NEAR_TIE: f32 = 0.35;

#[derive(Deserialize)]
struct References {
    model_sha256: String,
    answers: Vec<Reference>,
    texts: Vec<Text>,
}

#[derive(Deserialize)]
struct Reference {
    prompt: String,
    prompt_ids: Vec<u32>,
    ids: Vec<u32>,
    text: String,
}

#[derive(Deserialize)]
struct Text {
    text: String,
    ids: Vec<u32>,
}

fn references() -> References {
    serde_json::from_str(include_str!("references/smollm2.json")).unwrap()
}

/// The model in the user's cache. None only where a person has said that there is none.
fn model() -> Option<PathBuf> {
    if std::env::var_os("TERRACE_NO_MODEL").is_some_and(|v| v == "1") {
        eprintln!("skipped: TERRACE_NO_MODEL=1");
        return None;
    }
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| std::env::home_dir().map(|home| home.join(".cache"))).expect("a home directory");
    let path = cache.join("terrace/models").join(format!("{}.gguf", references().model_sha256));
    assert!(path.exists(), "{} is missing: run make model", path.display());
    Some(path)
}

fn start(sequences: u32) -> Option<EngineHandle> {
    let options = LoadOptions { context_tokens: Some(1024), max_sequences: sequences, ..LoadOptions::default() };
    let loaded = LoadedModel::open(&model()?, &options).unwrap();
    let config = EngineConfig { max_sequences: sequences, queue_limit: 16, ..EngineConfig::default() };
    Some(Engine::start(loaded, config).unwrap())
}

fn prompt(handle: &EngineHandle, words: &str) -> Vec<u32> {
    let messages = [serde_json::json!({"role": "user", "content": words})];
    let text = handle.chat_template().expect("a template").render(&messages, None).unwrap();
    handle.tokenizer().encode(&text).unwrap()
}

async fn answer(handle: &EngineHandle, ids: Vec<u32>) -> (String, Vec<TokenLogprob>, FinishReason) {
    let request = GenerateRequest { top_logprobs: 20, ..GenerateRequest::new(ids, 64) };
    let (_, mut events) = handle.submit(request).unwrap();
    let (mut text, mut tokens) = (String::new(), Vec::new());
    loop {
        match events.recv().await.expect("a last event") {
            Event::Started { .. } => {}
            Event::Piece(piece) => {
                text.push_str(&piece.text);
                tokens.extend(piece.tokens);
            }
            Event::Done(done) => return (text, tokens, done.finish_reason),
            Event::Failed(failure) => panic!("{failure}"),
        }
    }
}

#[tokio::test]
async fn texts_are_cut_as_llama_cpp_cuts_them() {
    let Some(handle) = start(1) else { return };
    for Text { text, ids } in references().texts {
        assert_eq!(handle.tokenizer().encode(&text).unwrap(), ids, "{text:?}");
    }
    for Reference { prompt: words, prompt_ids, .. } in references().answers {
        assert_eq!(prompt(&handle, &words), prompt_ids, "{words:?}");
    }
}

#[tokio::test]
async fn greedy_answers_are_llama_cpps() {
    let Some(handle) = start(1) else { return };
    let (mut same, mut ties) = (0, Vec::new());
    let references = references().answers;
    for reference in &references {
        let (text, tokens, finish) = answer(&handle, prompt(&handle, &reference.prompt)).await;
        let ids: Vec<u32> = tokens.iter().map(|t| t.id).collect();
        let Some(at) = (0..ids.len().max(reference.ids.len())).find(|&i| ids.get(i) != reference.ids.get(i)) else {
            assert_eq!(text, reference.text);
            assert_eq!(finish == FinishReason::Length, ids.len() == 64);
            same += 1;
            continue;
        };
        let (Some(ours), Some(theirs)) = (tokens.get(at), reference.ids.get(at)) else {
            panic!("{:?}: one ends at {at}, the other goes on: {text:?}", reference.prompt);
        };
        let their_logprob = ours.top.iter().find(|(id, _)| id == theirs).map(|(_, logprob)| *logprob);
        let gap = their_logprob.map_or(f32::INFINITY, |theirs| ours.logprob - theirs);
        assert!(gap <= NEAR_TIE, "{:?}: at {at} we say {}, llama.cpp {theirs}; gap {gap}", reference.prompt, ours.id);
        ties.push((at, gap));
    }
    eprintln!("{same} of {} the same; near_ties (position, gap): {ties:?}", references.len());
    assert!(same * 2 >= references.len(), "only {same} are the same: {ties:?}");
}
