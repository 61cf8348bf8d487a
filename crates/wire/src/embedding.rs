//! `POST /v1/embeddings`: texts in, vectors out.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::completion::Prompt;
use crate::error::ErrorBody;

/// An embedding request.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct EmbeddingRequest {
    /// Model name.
    pub model: String,
    /// What to embed.
    pub input: Prompt,
    /// How vectors are written.
    #[serde(default)]
    pub encoding_format: Option<Encoding>,
    /// Numbers of a vector.
    #[serde(default)]
    pub dimensions: Option<u32>,
}

/// How vectors are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// A list of numbers.
    #[default]
    Float,
    /// Little-endian 32-bit numbers in base64.
    Base64,
}

impl EmbeddingRequest {
    /// Reads a parsed body.
    ///
    /// # Errors
    /// The error body to send: 400 with the field by JSON pointer.
    pub fn from_value(value: Value) -> Result<Self, ErrorBody> {
        crate::shape::check_embedding(&value)?;
        serde_json::from_value(value).map_err(|_| crate::shape::unreadable("embeddings"))
    }
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EmbeddingList {
    /// `list`.
    pub object: String,
    /// A vector for each input, in their order.
    pub data: Vec<Embedding>,
    /// The model that answered.
    pub model: String,
    /// Tokens used.
    pub usage: EmbeddingUsage,
}

/// One vector.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Embedding {
    /// `embedding`.
    pub object: String,
    /// Which input.
    pub index: u32,
    /// The vector.
    pub embedding: Vector,
}

/// A vector as it was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Vector {
    /// [`Encoding::Float`].
    Float(Vec<f32>),
    /// [`Encoding::Base64`].
    Base64(String),
}

/// Tokens of an embedding request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbeddingUsage {
    /// Of all inputs.
    pub prompt_tokens: u32,
    /// The same.
    pub total_tokens: u32,
}
