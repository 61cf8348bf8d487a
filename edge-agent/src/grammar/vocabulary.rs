//! A model's vocabulary as `llguidance` searches it.

use std::sync::Arc;

use llguidance::toktrie::{ApproximateTokEnv, TokEnv, TokRxInfo, TokTrie};

use crate::gguf::Tokenizer;

/// Nodes that its tree of tokens can have; each byte of a token makes one at most.
const MOST_BYTES: usize = (1 << 22) - 1;
/// Bytes of a token at most; longer ones are never chosen in a constrained answer.
const LONGEST: usize = 1000;

/// None if the vocabulary is too large.
pub(super) fn environment(tokenizer: &Tokenizer) -> Option<TokEnv> {
    let count = u32::try_from(tokenizer.vocabulary()).ok().filter(|n| *n < (1 << 24) - 1)?;
    let mut words: Vec<Vec<u8>> = (0..count).map(|id| tokenizer.bytes(id).to_vec()).collect();
    for (id, text) in tokenizer.controls() {
        // The mark keeps it from being taken for text.
        words[id as usize] = [&[TokTrie::SPECIAL_TOKEN_MARKER], text.as_bytes()].concat();
    }
    words.iter_mut().filter(|word| word.len() > LONGEST).for_each(Vec::clear);
    if words.iter().map(Vec::len).sum::<usize>() > MOST_BYTES {
        return None;
    }
    let ends: Vec<u32> = tokenizer.ends().filter(|id| *id < count).collect();
    let trie = match ends.first() {
        Some(first) => TokTrie::from(&TokRxInfo::new(count, *first), &words).with_eos_tokens(&ends),
        // Such a model ends only where the grammar allows nothing more.
        None => TokTrie::from(&TokRxInfo::new(count, llguidance::toktrie::INVALID_TOKEN), &words),
    };
    Some(Arc::new(ApproximateTokEnv::new(trie)))
}
