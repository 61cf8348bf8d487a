//! Asking an engine, and waiting for what it says.
#![allow(dead_code, reason = "each test takes what it needs")]

use std::time::{Duration, Instant};

use terrace_agent::engine::{
    Done, Engine, EngineConfig, EngineHandle, Event, GenerateRequest, HiddenStates, TokenLogprob,
};
use terrace_agent::gguf::Gguf;
use terrace_agent::model::{LoadOptions, LoadedModel};
use tokio::sync::mpsc::Receiver;

use super::tiny;

/// Far more than anything here takes; reached only when something hangs.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// The small model; its KV cache has room for so many blocks of 16 tokens, or for what its sequences need.
pub fn model(sequences: u32, blocks: Option<u64>) -> LoadedModel {
    let file = Gguf::from_bytes(tiny::model(tiny::Kind::Q4_1)).unwrap();
    let block = 4 * 16 * (tiny::LAYERS * tiny::KV_HEADS * tiny::WIDTH / tiny::HEADS) as u64;
    let kv_cache_bytes = blocks.map(|blocks| blocks * block);
    let options = LoadOptions { max_sequences: sequences, kv_cache_bytes, threads: Some(1), ..LoadOptions::default() };
    LoadedModel::from_file(&file, &options).unwrap()
}

/// An engine of the small model.
pub fn engine(config: EngineConfig) -> EngineHandle {
    Engine::start(model(config.max_sequences, None), config).unwrap()
}

/// Greedy.
pub fn request(handle: &EngineHandle, text: &str, max_tokens: u32) -> GenerateRequest {
    GenerateRequest::new(handle.tokenizer().encode(text).unwrap(), max_tokens)
}

/// All that came back.
#[derive(Debug)]
pub struct Answer {
    pub text: String,
    pub tokens: Vec<TokenLogprob>,
    pub hidden: Option<HiddenStates>,
    pub last: Event,
}

impl Answer {
    pub fn done(&self) -> &Done {
        match &self.last {
            Event::Done(done) => done,
            other => panic!("not done: {other:?}"),
        }
    }

    pub fn ids(&self) -> Vec<u32> {
        self.tokens.iter().map(|t| t.id).collect()
    }
}

/// Everything up to the last event; checks their order.
pub async fn collect(mut events: Receiver<Event>) -> Answer {
    let all = async {
        let (mut text, mut tokens, mut hidden, mut begun) = (String::new(), Vec::new(), None, false);
        loop {
            match events.recv().await.expect("a last event") {
                Event::Started { .. } if !begun => begun = true,
                Event::Hidden(states) if begun && tokens.is_empty() && hidden.is_none() => hidden = Some(states),
                Event::Piece(piece) if begun => {
                    text.push_str(&piece.text);
                    assert!(piece.tokens.iter().all(|t| t.logprob <= 1e-4), "{piece:?}");
                    tokens.extend(piece.tokens);
                }
                last @ (Event::Done(_) | Event::Failed(_)) => {
                    assert!(begun || matches!(last, Event::Failed(_)), "{last:?}");
                    assert!(events.recv().await.is_none(), "nothing follows the last event");
                    return Answer { text, tokens, hidden, last };
                }
                other => panic!("out of order: {other:?}"),
            }
        }
    };
    tokio::time::timeout(DEADLINE, all).await.expect("an answer in time")
}

/// Asks and waits.
pub async fn ask(handle: &EngineHandle, request: GenerateRequest) -> Answer {
    collect(handle.submit(request).unwrap().1).await
}

/// Waits until a condition holds.
pub async fn until(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < end, "never came: {what}");
        tokio::task::yield_now().await;
    }
}

/// Waits until nothing runs, waits or holds memory.
pub async fn idle(handle: &EngineHandle) {
    until("an empty engine", || {
        let load = handle.load();
        load.running + load.queued == 0 && load.free_kv_blocks == load.total_kv_blocks
    })
    .await;
    assert_eq!(handle.load().queued_prefill_tokens, 0);
}
