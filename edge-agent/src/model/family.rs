//! What tells the architectures apart. All of them are one decoder: blocks of attention and a gated feed-forward, each
//! normalised before and added to what came in.

use crate::kernels::RotaryStyle;

/// One architecture.
#[derive(Debug)]
pub(super) struct Family {
    /// `general.architecture` of its files, and what their keys begin with.
    pub(super) name: &'static str,
    /// Models of it, for people.
    pub(super) models: &'static str,
    /// How its files order the numbers of queries and keys.
    pub(super) rotary: RotaryStyle,
    /// Whether something is added to queries, keys and values.
    pub(super) bias: bool,
    /// Whether each head of queries and keys is normalised.
    pub(super) head_norms: bool,
    /// Whether what a half of a block gives is normalised before it is added.
    pub(super) post_norms: bool,
    /// What the gate of the feed-forward is put through.
    pub(super) gate: Gate,
    /// Whether an embedding is multiplied by the root of its width.
    pub(super) scaled_embedding: bool,
    /// Which layers see only a window.
    pub(super) local: Option<Local>,
}

/// A gate's function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gate {
    /// `x * sigmoid(x)`.
    Silu,
    /// The Gaussian's, by its approximation with `tanh`.
    Gelu,
}

/// Layers that see a sliding window, where the file names its length.
#[derive(Debug)]
pub(super) struct Local {
    /// Each layer of this number sees everything, the others the window; where the file does not say.
    pub(super) every: usize,
    /// Base of the window's rotations, where the file does not say.
    pub(super) base: f64,
}

const LLAMA: Family = Family {
    name: "llama",
    models: "SmolLM2, Llama 2 and 3, Mistral",
    rotary: RotaryStyle::Interleaved,
    bias: false,
    head_norms: false,
    post_norms: false,
    gate: Gate::Silu,
    scaled_embedding: false,
    local: None,
};

/// Every architecture with code here.
pub(super) static FAMILIES: [Family; 4] = [
    LLAMA,
    Family { name: "qwen2", models: "Qwen 2 and 2.5", rotary: RotaryStyle::Halves, bias: true, ..LLAMA },
    Family { name: "qwen3", models: "Qwen 3", rotary: RotaryStyle::Halves, head_norms: true, ..LLAMA },
    Family {
        name: "gemma3",
        models: "Gemma 3",
        rotary: RotaryStyle::Halves,
        bias: false,
        head_norms: true,
        post_norms: true,
        gate: Gate::Gelu,
        scaled_embedding: true,
        local: Some(Local { every: 6, base: 10_000.0 }),
    },
];

impl Family {
    /// That of a file.
    pub(super) fn named(name: &str) -> Option<&'static Family> {
        FAMILIES.iter().find(|family| family.name == name)
    }

    /// All of them, for a message.
    pub(super) fn list() -> String {
        FAMILIES.each_ref().map(|family| format!("{} ({})", family.name, family.models)).join(", ")
    }

    /// A key of its metadata.
    pub(super) fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.name)
    }
}
