//! How text is cut before byte pairs are merged: each family of models was trained with its own patterns, named by
//! `tokenizer.ggml.pre`. A wrong one gives tokens the model has never seen, so an unknown name is refused.

use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::tokenizer::SplitDelimiterBehavior;

use super::{GgufError, Metadata};

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const DIGIT: &str = r"\p{N}";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const DEFAULT: [&str; 4] = [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"];

const KEY: &str = "tokenizer.ggml.pre";

/// One family's habits.
pub(super) struct Cutter {
    /// Each cuts what the one before it left.
    patterns: &'static [&'static str],
    /// Whether a cut that is a token as it stands needs no merging.
    pub(super) whole_words: bool,
    /// Whether a text begins with the beginning token where the file does not say.
    pub(super) adds_bos: bool,
}

impl Cutter {
    /// # Errors
    /// When the file names a family that is not known here.
    pub(super) fn from_metadata(metadata: &Metadata) -> Result<Self, GgufError> {
        let cutter = |patterns| Cutter { patterns, whole_words: false, adds_bos: false };
        let whole = |patterns| Cutter { patterns, whole_words: true, adds_bos: true };
        Ok(match metadata.optional_string(KEY)?.unwrap_or("default") {
            "gpt-2" | "gpt2" | "phi-2" | "olmo" => cutter(&[GPT2]),
            "smollm" | "starcoder" | "refact" | "command-r" => cutter(&[DIGIT, GPT2]),
            "llama-bpe" | "llama3" | "llama-v3" | "falcon3" | "pixtral" => whole(&[LLAMA3]),
            "qwen2" | "deepseek-r1-qwen" | "megrez" => cutter(&[QWEN2]),
            "tekken" => whole(&[TEKKEN]),
            "default" => cutter(&DEFAULT),
            other => {
                let known = "gpt-2, smollm, llama-bpe, qwen2, tekken, default";
                return Err(GgufError::key(KEY, format!("`{other}` is not supported; these are: {known}")));
            }
        })
    }

    /// As a step of the tokenizer, byte level included.
    ///
    /// # Errors
    /// Never, while the patterns above compile.
    pub(super) fn pre_tokenizer(&self) -> Result<PreTokenizerWrapper, GgufError> {
        let mut steps = Vec::with_capacity(self.patterns.len() + 1);
        for &pattern in self.patterns {
            let pattern = SplitPattern::Regex(pattern.to_owned());
            let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false)
                .map_err(|e| GgufError::key(KEY, format!("its pattern does not compile: {e}")))?;
            steps.push(PreTokenizerWrapper::Split(split));
        }
        // The patterns do the cutting; this only writes bytes as the characters that the vocabulary uses for them.
        steps.push(PreTokenizerWrapper::ByteLevel(ByteLevel::new(false, false, false)));
        Ok(PreTokenizerWrapper::Sequence(Sequence::new(steps)))
    }
}
