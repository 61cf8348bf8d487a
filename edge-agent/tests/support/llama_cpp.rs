//! What llama.cpp made of a model (`references/make.py` asked it), and how ours is compared with it.
#![allow(dead_code)]

use std::path::PathBuf;

use serde::Deserialize;
use terrace_agent::gguf::Tokenizer;
use terrace_agent::model::{BLOCK_TOKENS, Feed, LoadOptions, LoadedModel, Network, Rows, Wanted};

use crate::cached;

/// Room for every text and answer of the references.
const CONTEXT: usize = 1024;
/// Tokens of a text in one step: logits of each are kept, and a vocabulary may have 262,144 of them.
const CHUNK: usize = 64;
/// The reference's perplexity and ours differ by so much of it at most.
const PERPLEXITY: f64 = 0.01;

#[derive(Deserialize)]
pub struct References {
    pub model_sha256: String,
    pub answers: Vec<Answer>,
    pub texts: Vec<Text>,
    likelihood: Likelihood,
}

/// A prompt and what llama.cpp said to it, always with the likeliest token.
#[derive(Deserialize)]
pub struct Answer {
    pub prompt: String,
    pub prompt_ids: Vec<u32>,
    pub ids: Vec<u32>,
    /// By how much each token's logit leads the next best.
    pub margins: Vec<f32>,
    pub text: String,
}

#[derive(Deserialize)]
pub struct Text {
    pub text: String,
    pub ids: Vec<u32>,
}

/// A text, and how unlikely each token after the first was: negative logarithms.
#[derive(Deserialize)]
struct Likelihood {
    ids: Vec<u32>,
    costs: Vec<f64>,
    perplexity: f64,
}

impl References {
    pub fn read(json: &str) -> References {
        serde_json::from_str(json).unwrap()
    }

    pub fn model(&self) -> Option<PathBuf> {
        cached::model(&self.model_sha256)
    }

    fn network(&self) -> Option<Box<dyn Network>> {
        let options = LoadOptions { context_tokens: Some(CONTEXT as u32), ..LoadOptions::default() };
        Some(LoadedModel::open(&self.model()?, &options).unwrap().network)
    }

    /// `begins` is how many tokens the tokenizer puts before a text; the reference has none.
    pub fn assert_texts(&self, tokenizer: &Tokenizer, begins: usize) {
        assert!(self.texts.len() > 30);
        for Text { text, ids } in &self.texts {
            assert_eq!(tokenizer.encode(text).unwrap()[begins..], *ids, "{text:?}");
            // Control tokens say nothing, and sentence pieces write a space as this mark.
            if ids.iter().all(|id| !tokenizer.bytes(*id).is_empty()) && !text.contains('▁') {
                assert_eq!(tokenizer.decode(ids), *text);
            }
        }
    }

    /// Every token of llama.cpp's answers is our choice too, or one of two that are nearly as likely, both here and
    /// there. The answers are fed as they are, so that one tie does not hide what comes after it.
    pub fn assert_choices(&self, near_tie: f32) {
        let Some(mut network) = self.network() else { return };
        let (mut total, mut ties) = (0, Vec::new());
        for Answer { prompt, prompt_ids, ids, margins, .. } in &self.answers {
            let tokens = [prompt_ids.as_slice(), ids].concat();
            each_logits(network.as_mut(), &tokens, |at, logits| {
                let Some(at) = (at + 1).checked_sub(prompt_ids.len()).filter(|at| *at < ids.len()) else { return };
                let (id, margin) = (ids[at], margins[at]);
                let best = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let gap = best - logits[id as usize];
                if gap > 0.0 {
                    assert!(gap.max(margin) <= near_tie, "{prompt:?} at {at}: {gap} here, {margin} there");
                    ties.push((gap, margin));
                }
                total += 1;
            });
        }
        let largest = ties.iter().map(|(gap, margin)| gap.max(*margin)).fold(0.0, f32::max);
        eprintln!("{} of {total} tokens differ, all near ties; the largest gap is {largest}", ties.len());
        assert!(total >= 400 && ties.len() * 20 <= total, "{} of {total} differ: {ties:?}", ties.len());
    }

    /// `apart` is by how much a token's cost may differ on average: equal perplexities of unequal networks would be luck.
    pub fn assert_perplexity(&self, apart: f64) {
        let Some(mut network) = self.network() else { return };
        let Likelihood { ids, costs, perplexity } = &self.likelihood;
        assert!(ids.len() > 900 && costs.len() == ids.len() - 1);
        let (mut sum, mut difference) = (0.0, 0.0);
        each_logits(network.as_mut(), ids, |at, logits| {
            let Some(&next) = ids.get(at + 1) else { return };
            let cost = cost(logits, next as usize);
            sum += cost;
            difference += (cost - costs[at]).abs();
        });
        let (ours, difference) = ((sum / costs.len() as f64).exp(), difference / costs.len() as f64);
        eprintln!("perplexity {ours:.4}, llama.cpp's {perplexity:.4}; a token's cost differs by {difference:.4}");
        assert!((ours / perplexity - 1.0).abs() <= PERPLEXITY, "{ours}, not {perplexity}");
        assert!(difference <= apart, "{difference}");
    }
}

/// Calls back with the logits after each token of a text, by the token's place.
fn each_logits(network: &mut dyn Network, tokens: &[u32], mut then: impl FnMut(usize, &[f32])) {
    let blocks: Vec<u32> = (0..(CONTEXT / BLOCK_TOKENS) as u32).collect();
    let wanted = Wanted { logits: Rows::All, hidden: None };
    for (index, chunk) in tokens.chunks(CHUNK).enumerate() {
        let position = index * CHUNK;
        let prompt = Feed { blocks: &blocks, tokens: chunk, position, prompt: chunk.len(), wanted };
        let rows = network.step(&[prompt]).remove(0).logits;
        rows.iter().enumerate().for_each(|(at, logits)| then(position + at, logits));
    }
}

/// The negative logarithm of a token's probability.
fn cost(logits: &[f32], token: usize) -> f64 {
    let best = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    let sum: f64 = logits.iter().map(|l| (f64::from(*l) - best).exp()).sum();
    best + sum.ln() - f64::from(logits[token])
}
