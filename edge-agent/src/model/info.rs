//! What a loaded model says of itself.

use super::Pooled;

/// Facts about a loaded model, for status, spans and checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelInfo {
    /// `general.name` of the file, or its architecture.
    pub name: String,
    /// For example `llama`.
    pub architecture: String,
    /// For example `GGUF Q4_K_M`: the file's own name for its type, or else the type that most of the weights have.
    pub format: String,
    /// For example `135M`.
    pub parameters: String,
    /// Prompt and answer together, in tokens: the file's, or less where the KV cache's limit says so.
    pub context_tokens: u32,
    /// Tokens of the vocabulary.
    pub vocabulary: usize,
    /// Numbers of a hidden state.
    pub width: usize,
    /// How a text becomes one vector; none: by a pooling that is not computed here.
    pub pooled: Option<Pooled>,
}
