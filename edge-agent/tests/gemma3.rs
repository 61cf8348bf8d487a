//! Gemma 3 270M: its vocabulary of 262,144 pieces cuts texts as llama.cpp cuts them.
//! `references/make_gemma3.py` made what it is compared with.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

use std::path::PathBuf;

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

#[test]
fn texts_are_cut_as_llama_cpp_cuts_them() {
    let Some(path) = model() else { return };
    let tokenizer = Tokenizer::from_metadata(Gguf::open(&path).unwrap().metadata()).unwrap();
    for Text { text, ids } in references().texts {
        // The reference has no beginning token.
        assert_eq!(tokenizer.encode(&text).unwrap()[1..], ids, "{text:?}");
        if !text.contains("<start_of_turn>") {
            assert_eq!(tokenizer.decode(&ids), text);
        }
    }
}
