//! Weights that are no model's: what kernels are compared on.

use half::{bf16, f16};

use crate::gguf::GgmlType;

/// Blocks as a file has them: random bytes, with scales that are small numbers.
pub(super) fn blocks(kind: GgmlType, count: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut bytes: Vec<u8> = (0..count * kind.block_bytes()).map(|_| (next() >> 32) as u8).collect();
    let mut number = || ((next() >> 40) as f32 / (1u64 << 24) as f32 - 0.5) * 0.1;
    for block in bytes.chunks_exact_mut(kind.block_bytes()) {
        let halves: &[usize] = match kind {
            GgmlType::F16 | GgmlType::Q4_0 | GgmlType::Q5_0 | GgmlType::Q8_0 => &[0],
            GgmlType::Q4_1 | GgmlType::Q5_1 | GgmlType::Q4_K | GgmlType::Q5_K => &[0, 2],
            GgmlType::Q6_K => &[208],
            GgmlType::F32 => {
                block.copy_from_slice(&number().to_le_bytes());
                &[]
            }
            GgmlType::BF16 => {
                block.copy_from_slice(&bf16::from_f32(number()).to_le_bytes());
                &[]
            }
        };
        for &at in halves {
            block[at..at + 2].copy_from_slice(&f16::from_f32(number()).to_le_bytes());
        }
    }
    bytes
}
