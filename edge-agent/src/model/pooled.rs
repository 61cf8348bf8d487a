//! How a model's hidden states of a text become one vector, where the caller does not say.

use super::family::Family;
use crate::gguf::{GgufError, Metadata};

/// What one vector of a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pooled {
    /// The mean of the states over its tokens.
    Mean,
    /// The state after its last token.
    Last,
}

impl Pooled {
    /// What a file's `{architecture}.pooling_type` says; the mean where it says nothing. None for a pooling that is not
    /// computed here: that of the first token, which tells nothing where attention only looks back, and ranks.
    ///
    /// The numbers are llama.cpp's `llama_pooling_type`: 0 none, 1 mean, 2 first token, 3 last token, 4 rank.
    ///
    /// # Errors
    /// When the key is no whole number.
    pub(super) fn of_file(metadata: &Metadata, family: &Family) -> Result<Option<Pooled>, GgufError> {
        Ok(match metadata.optional_u32(&family.key("pooling_type"))? {
            None | Some(0 | 1) => Some(Pooled::Mean),
            Some(3) => Some(Pooled::Last),
            Some(_) => None,
        })
    }
}
