//! Kernels for GPUs, written once in CubeCL: CUDA compiles them to PTX on the node, Vulkan to SPIR-V.
//!
//! Weights keep the size they have in the file ([`Format`]); a kernel unpacks eight neighbouring numbers at a time and
//! multiplies in 32 bits. A row of a result is summed in one order whatever else is in the batch, so its bits do not
//! depend on its neighbours. What one launch may touch is checked here, before it; inside there are no checks.

mod attention;
mod buffer;
mod format;
mod pointwise;
mod product;
mod unpack;

pub(crate) use attention::{Cache, Plan, attend, copy_block};
pub(crate) use buffer::{Buffer, Rows};
pub(crate) use format::Format;
pub(crate) use pointwise::{Gate, gated, rms_norm};
pub(crate) use product::{Weights, product, rows};
