//! A file on disk becomes something the engine can run.

use super::{ModelInfo, Network};
use crate::gguf::{ChatTemplate, Tokenizer};

/// All of a model: network, words, and what it says of itself.
pub struct LoadedModel {
    /// The network with its KV cache.
    pub network: Box<dyn Network>,
    /// Facts.
    pub info: ModelInfo,
    /// Text to tokens and back.
    pub tokenizer: Tokenizer,
    /// Messages to a prompt, if the file has a template.
    pub template: Option<ChatTemplate>,
}
