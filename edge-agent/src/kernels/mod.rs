//! The arithmetic: what the network and the sampler spend their time on, in the fastest form the processor has, each
//! beside a plain form that the tests compare it with.
//!
//! Weights stay as small in memory as they are in the file: eight rows are interleaved at load ([`layout`]), so that a
//! product needs no sums across a vector; activations are quantized to eight bits in blocks of 32 ([`activation`]). The
//! products are written once ([`product`]) over what a processor must be able to do ([`vector`]); [`kernel`] picks and
//! checks. `unsafe` is confined to this folder: vector instructions that were asked for at run time, and the pool's
//! shared job.

mod activation;
#[cfg(target_arch = "x86_64")]
mod amx;
mod attention;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod distribution;
#[cfg(feature = "gpu")]
pub(crate) mod gpu;
mod kernel;
mod layout;
mod matrix;
#[cfg(target_arch = "aarch64")]
mod neon;
mod pointwise;
mod pool;
mod portable;
mod product;
mod sample;
mod vector;

pub use attention::{Attention, BLOCK_TOKENS, RotaryStyle, Span};
pub use distribution::Distribution;
pub use matrix::Matrix;
pub use pointwise::{add, gated_gelu, gated_silu, rms_norm};
pub use pool::set_threads;
