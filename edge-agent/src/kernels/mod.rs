//! The arithmetic: what the network and the sampler spend their time on, in the fastest form the processor has, each
//! beside a plain form that the tests compare it with.
//!
//! Weights stay as small in memory as they are in the file. For the formats with a fast path eight rows are
//! interleaved at load ([`Matrix`]), so that a product needs no sums across a vector; activations are quantized to
//! eight bits in blocks of 32 ([`activation`]). `unsafe` is confined to this folder: vector instructions that were
//! asked for at run time, and the pool's shared job.

mod activation;
mod attention;
#[cfg(target_arch = "x86_64")]
mod avx2;
mod distribution;
#[cfg(feature = "gpu")]
pub(crate) mod gpu;
mod matrix;
mod pointwise;
mod pool;
mod portable;

pub use attention::{Attention, BLOCK_TOKENS, RotaryStyle, Span};
pub use distribution::Distribution;
pub use matrix::{Matrix, Packing};
pub use pointwise::{gated_gelu, gated_silu, rms_norm};
pub use pool::set_threads;
