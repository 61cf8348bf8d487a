//! `GET /v1/models`.

use serde::{Deserialize, Serialize};

/// The list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelList {
    /// `list`.
    pub object: String,
    /// The models.
    pub data: Vec<Model>,
}

/// One model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Model {
    /// The name that requests use.
    pub id: String,
    /// `model`.
    pub object: String,
    /// Seconds since the Unix epoch.
    pub created: u64,
    /// Who serves it.
    pub owned_by: String,
    /// Context length in tokens, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_length: Option<u32>,
    /// Digest of the file, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

impl ModelList {
    /// A list of these models.
    pub fn of(data: Vec<Model>) -> Self {
        Self { object: "list".into(), data }
    }
}
