//! Stop strings: one string or a list of at most four.

use serde::{Deserialize, Serialize};

/// OpenAI's `stop`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Stop {
    /// None given (or null).
    #[default]
    None,
    /// One.
    One(String),
    /// Up to four.
    Many(Vec<String>),
}

impl Stop {
    /// The strings, empty ones left out.
    pub fn strings(&self) -> Vec<String> {
        match self {
            Stop::None => Vec::new(),
            Stop::One(s) => vec![s.clone()],
            Stop::Many(many) => many.clone(),
        }
        .into_iter()
        .filter(|s| !s.is_empty())
        .collect()
    }
}
