//! How text is cut before byte pairs are merged: each family of models was trained with its own patterns, named by
//! `tokenizer.ggml.pre`. A wrong one gives tokens the model has never seen, so an unknown name is refused.

use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::tokenizer::SplitDelimiterBehavior;

use super::GgufError;

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const DIGIT: &str = r"\p{N}";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const DEFAULT: [&str; 4] = [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"];

const KEY: &str = "tokenizer.ggml.pre";

/// The cutter of this name, byte level included.
pub(super) fn pre_tokenizer(name: &str) -> Result<PreTokenizerWrapper, GgufError> {
    let patterns: &[&str] = match name {
        "gpt-2" | "gpt2" | "phi-2" | "olmo" => &[GPT2],
        "smollm" | "starcoder" | "refact" | "command-r" => &[DIGIT, GPT2],
        "llama-bpe" | "llama3" | "llama-v3" => &[LLAMA3],
        "qwen2" => &[QWEN2],
        "default" => &DEFAULT,
        other => {
            let known = "gpt-2, smollm, llama-bpe, qwen2, default";
            return Err(GgufError::key(KEY, format!("`{other}` is not supported; these are: {known}")));
        }
    };
    let mut steps = Vec::with_capacity(patterns.len() + 1);
    for &pattern in patterns {
        let pattern = SplitPattern::Regex(pattern.to_owned());
        let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false)
            .map_err(|e| GgufError::key(KEY, format!("its pattern does not compile: {e}")))?;
        steps.push(PreTokenizerWrapper::Split(split));
    }
    // The patterns above do the cutting; this only writes bytes as the characters that the vocabulary uses for them.
    steps.push(PreTokenizerWrapper::ByteLevel(ByteLevel::new(false, false, false)));
    Ok(PreTokenizerWrapper::Sequence(Sequence::new(steps)))
}
