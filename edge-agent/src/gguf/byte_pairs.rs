//! Byte-level BPE: text is cut by its family's patterns, then pairs of pieces are merged in the file's order.

use ahash::AHashMap;
use tokenizers::models::bpe::BPE;

use super::pretokenize::Cutter;
use super::vocabulary::Vocabulary;
use super::{GgufError, Metadata};

const MERGES: &str = "tokenizer.ggml.merges";

/// # Errors
/// When a merge is not two pieces of the vocabulary that make a third.
pub(super) fn byte_pairs(
    metadata: &Metadata,
    vocabulary: &Vocabulary<'_>,
    cutter: &Cutter,
) -> Result<tokenizers::Tokenizer, GgufError> {
    let merges = metadata.strings(MERGES)?.iter().enumerate().map(|(index, line)| {
        let pair = line.split_once(' ').filter(|(left, right)| !left.is_empty() && !right.is_empty());
        let (left, right) = pair.ok_or_else(|| GgufError::key(MERGES, format!("entry {index} is not two pieces")))?;
        Ok((left.to_owned(), right.to_owned()))
    });
    let ids: AHashMap<String, u32> =
        vocabulary.texts.iter().enumerate().map(|(id, text)| (text.clone(), id as u32)).collect();
    let model = BPE::builder()
        .vocab_and_merges(ids, merges.collect::<Result<_, _>>()?)
        .ignore_merges(cutter.whole_words)
        .build()
        .map_err(|e| GgufError::key(MERGES, e.to_string()))?;
    let mut tokenizer = tokenizers::Tokenizer::new(model);
    tokenizer.with_pre_tokenizer(Some(cutter.pre_tokenizer()?));
    Ok(tokenizer)
}
