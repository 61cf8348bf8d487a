//! Gemma 3 270M: its vocabulary of 262,144 pieces cuts texts as llama.cpp cuts them.
//! `references/make_gemma3.py` made what it is compared with.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

#[path = "support/cached.rs"]
mod cached;

use serde::Deserialize;
use terrace_agent::gguf::{Gguf, Tokenizer};

#[derive(Deserialize)]
struct References {
    model_sha256: String,
    texts: Vec<Text>,
}

#[derive(Deserialize)]
struct Text {
    text: String,
    ids: Vec<u32>,
}

fn references() -> References {
    serde_json::from_str(include_str!("references/gemma3.json")).unwrap()
}

#[test]
fn texts_are_cut_as_llama_cpp_cuts_them() {
    let References { model_sha256, texts } = references();
    let Some(path) = cached::model(&model_sha256) else { return };
    let tokenizer = Tokenizer::from_metadata(Gguf::open(&path).unwrap().metadata()).unwrap();
    for Text { text, ids } in texts {
        // The reference has no beginning token.
        assert_eq!(tokenizer.encode(&text).unwrap()[1..], ids, "{text:?}");
        if !text.contains("<start_of_turn>") {
            assert_eq!(tokenizer.decode(&ids), text);
        }
    }
}
