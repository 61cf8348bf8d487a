//! The network: from token ids to logits. What the engine's loop needs of it is [`Network`]; everything that knows
//! burn lies behind.

mod backend;
mod config;
mod info;
mod layers;
mod llama;
mod load;

pub use backend::{LayerCache, QuantBackend};
pub use info::ModelInfo;
pub use load::{LoadError, LoadOptions, LoadedModel};

/// One sequence's part of a step.
pub struct Feed<'a> {
    /// Which slot of the KV cache holds the sequence.
    pub slot: usize,
    /// Its next tokens: a chunk of the prompt, or the token sampled last.
    pub tokens: &'a [u32],
    /// Where the first of them stands; everything before is in the cache.
    pub position: usize,
    /// Whether the logits after the last one are wanted.
    pub wants_logits: bool,
}

/// A network with its KV cache: a fixed number of slots, one running sequence each.
pub trait Network: Send {
    /// Runs one step for several sequences at once, reading the weights once. Returns, for each feed that wants
    /// them and in that order, the logits after its last token.
    ///
    /// Feeds name different slots; positions stay inside the context. The loop keeps to both.
    fn step(&mut self, feeds: &[Feed<'_>]) -> Vec<Vec<f32>>;

    /// Slots of the cache.
    fn slots(&self) -> usize;
}
