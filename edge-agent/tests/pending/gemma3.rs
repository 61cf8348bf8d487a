//! Gemma 3 270M against llama.cpp: the same tokens of the same texts, the same greedy choices.
//! `references/make_gemma3.py` made what it is compared with.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

use std::path::PathBuf;

use serde::Deserialize;
use terrace_agent::gguf::{Gguf, Tokenizer};
use terrace_agent::model::{BLOCK_TOKENS, Feed, LoadOptions, LoadedModel, Rows, Wanted};

/// Where our choice is not llama.cpp's, the two tokens' logits must be this close, in our logits and in its.
const NEAR_TIE: f32 = 0.4;

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
    margins: Vec<f32>,
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

/// Every token of llama.cpp's continuations is our choice too, or one of two that are nearly as likely. They are fed as
/// they are, so that one tie does not hide what comes after it.
#[test]
fn greedy_choices_are_llama_cpps() {
    let Some(path) = model() else { return };
    let options = LoadOptions { context_tokens: Some(256), ..LoadOptions::default() };
    let mut network = LoadedModel::open(&path, &options).unwrap().network;
    let blocks: Vec<u32> = (0..(256 / BLOCK_TOKENS) as u32).collect();
    let wanted = Wanted { logits: Rows::All, hidden: None };
    let (mut total, mut ties) = (0, Vec::new());
    for Reference { prompt, prompt_ids, ids, margins } in references().answers {
        let tokens = [prompt_ids.as_slice(), &ids].concat();
        let rows = network.step(&[Feed { blocks: &blocks, tokens: &tokens, position: 0, wanted }]).remove(0).logits;
        for (at, (&id, &margin)) in ids.iter().zip(&margins).enumerate() {
            let logits = &rows[prompt_ids.len() - 1 + at];
            let best = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let gap = best - logits[id as usize];
            if gap > 0.0 {
                assert!(gap.max(margin) <= NEAR_TIE, "{prompt:?} at {at}: {gap} here, {margin} there");
                ties.push((gap, margin));
            }
            total += 1;
        }
    }
    let largest = ties.iter().map(|(gap, margin)| gap.max(*margin)).fold(0.0, f32::max);
    eprintln!("{} of {total} tokens differ, all near ties; the largest gap is {largest}", ties.len());
    assert!(total >= 400 && ties.len() * 20 <= total, "{} of {total} differ: {ties:?}", ties.len());
}
