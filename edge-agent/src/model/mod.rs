//! The network: from token ids to logits. What the engine's loop needs of it is [`Network`]; everything that knows
//! burn lies behind.

mod backend;
mod config;
mod decoder;
mod family;
#[cfg(feature = "gpu")]
mod gpu;
mod info;
mod layers;
mod load;
mod pooled;
mod reuse;
mod rotary;
mod rows;
mod tensors;

pub use backend::{LayerCache, QuantBackend};
pub use info::ModelInfo;
pub use load::{LoadError, LoadOptions, LoadedModel};
pub use pooled::Pooled;

pub use crate::kernels::BLOCK_TOKENS;

/// One sequence's part of a step.
pub struct Feed<'a> {
    /// Its blocks of the KV cache: the i-th holds positions from `i * BLOCK_TOKENS` on. There are enough for `tokens`.
    pub blocks: &'a [u32],
    /// Its next tokens: a chunk of the prompt, or the token sampled last. At least one.
    pub tokens: &'a [u32],
    /// Where the first of them stands; everything before is in the cache.
    pub position: usize,
    /// Of these, from the first on, how many are computed as the many tokens of a prompt. The rest are computed as those
    /// of an answer: either way a token is computed the same whenever that is, but not by the same instructions.
    pub prompt: usize,
    /// What is wanted of it.
    pub wanted: Wanted,
}

/// What a feed's caller wants back. By default nothing: the tokens only go into the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wanted {
    /// Logits.
    pub logits: Rows,
    /// States of the last layer, normalised: what the logits are made of.
    pub hidden: Option<Pooling>,
}

impl Wanted {
    /// The logits after the last token.
    pub const NEXT: Wanted = Wanted { logits: Rows::Last, hidden: None };
}

/// After which of a feed's tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rows {
    /// None.
    #[default]
    None,
    /// The last.
    Last,
    /// Each.
    All,
}

/// How much of a prompt's hidden states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pooling {
    /// That of the last token.
    Last,
    /// That of the last token, and the mean over all.
    MeanAndLast,
}

/// What a step gives back for one feed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Output {
    /// For each token that they were wanted of, a row of the vocabulary.
    pub logits: Vec<Vec<f32>>,
    /// If wanted.
    pub hidden: Option<Hidden>,
}

/// Hidden states of one feed; as wide as the model.
#[derive(Debug, Clone, PartialEq)]
pub struct Hidden {
    /// Sum over the feed's tokens, so that chunks of a prompt add up; empty for [`Pooling::Last`]. In 64 bits, so that
    /// a mean rounded to 32 does not show where the chunks ended.
    pub sum: Vec<f64>,
    /// After the last of them.
    pub last: Vec<f32>,
}

/// A network with its KV cache. Which blocks hold what is up to the caller.
pub trait Network: Send {
    /// Runs one step for several sequences at once, reading the weights once. Returns one output for each feed, in
    /// that order. A row's numbers do not depend on what else is in the step, to the bit.
    ///
    /// No two feeds write to the same block; positions stay inside the context. The loop keeps to both.
    fn step(&mut self, feeds: &[Feed<'_>]) -> Vec<Output>;

    /// Copies the content of one block to another: two sequences that shared it part.
    fn copy_block(&mut self, from: u32, to: u32);

    /// Blocks of the cache.
    fn blocks(&self) -> usize;
}
