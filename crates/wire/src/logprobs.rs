//! Log-probabilities of an answer's tokens, in the two shapes that OpenAI gives them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A token of a chat's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Logprob {
    /// Its text; U+FFFD where it is not whole characters.
    pub token: String,
    /// Natural logarithm of its probability.
    pub logprob: f32,
    /// Its bytes.
    pub bytes: Option<Vec<u8>>,
}

/// A token of a chat's answer with the likeliest at its place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TokenLogprob {
    /// The token.
    #[serde(flatten)]
    pub sampled: Logprob,
    /// The likeliest, the likeliest first.
    pub top_logprobs: Vec<Logprob>,
}

/// `logprobs` of a chat's choice.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ChatLogprobs {
    /// Of the content's tokens.
    pub content: Option<Vec<TokenLogprob>>,
    /// Of a refusal's.
    pub refusal: Option<Vec<TokenLogprob>>,
}

/// `logprobs` of a text completion's choice: four lists of the same length.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TextLogprobs {
    /// Texts of the tokens; `bytes:\x…` where one is not whole characters.
    pub tokens: Vec<String>,
    /// Natural logarithms of their probabilities.
    pub token_logprobs: Vec<f32>,
    /// The likeliest at each place by their texts; none if they were not asked for.
    pub top_logprobs: Option<Vec<BTreeMap<String, f32>>>,
    /// Where each begins in the choice's text, in characters.
    pub text_offset: Vec<u32>,
}
