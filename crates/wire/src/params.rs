//! What chat and text completions ask for alike: limits, sampling, streaming.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::stop::Stop;

/// Fields of both requests. Ranges are checked by [`crate::shape`] before.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Params {
    /// Model name.
    pub model: String,
    /// Whether to stream.
    #[serde(default, deserialize_with = "null_is_default")]
    pub stream: bool,
    /// Options of the stream.
    #[serde(default)]
    pub stream_options: Option<StreamOptions>,
    /// Output tokens at most (in a chat, the older name).
    #[serde(default)]
    pub max_tokens: Option<u32>,
    /// 0 is greedy; 1 by default.
    #[serde(default)]
    pub temperature: Option<f32>,
    /// Nucleus; 1 by default.
    #[serde(default)]
    pub top_p: Option<f32>,
    /// Most likely tokens considered; 0, -1 or more than there are: all. Not OpenAI's.
    #[serde(default)]
    pub top_k: Option<i64>,
    /// Least probability relative to the most likely token. Not OpenAI's.
    #[serde(default)]
    pub min_p: Option<f32>,
    /// Divides the logits of tokens that prompt or answer have already; 1: off. Not OpenAI's.
    #[serde(default)]
    pub repetition_penalty: Option<f32>,
    /// -2 to 2.
    #[serde(default)]
    pub presence_penalty: Option<f32>,
    /// -2 to 2.
    #[serde(default)]
    pub frequency_penalty: Option<f32>,
    /// Added to the logits of tokens, by id; -100 to 100.
    #[serde(default)]
    pub logit_bias: Option<BTreeMap<u32, f32>>,
    /// Same seed, same text.
    #[serde(default)]
    pub seed: Option<i64>,
    /// Stop strings.
    #[serde(default)]
    pub stop: Stop,
    /// Choices wanted.
    #[serde(default)]
    pub n: Option<u32>,
}

/// Options of a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamOptions {
    /// A last chunk with usage and no choices.
    #[serde(default, deserialize_with = "null_is_default")]
    pub include_usage: bool,
}

pub(crate) fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}
