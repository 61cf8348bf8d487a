//! Plain forms of the products: for processors without a fast path, and what the tests hold the fast paths against.

use half::f16;

use super::activation::{BLOCK, Quantized};
use super::matrix::{GROUP, Matrix, Packing, Q4_GROUP_BYTES, Q8_GROUP_BYTES};

/// Sum of products, in lanes that the compiler can turn into vectors.
#[inline(always)]
pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    const LANES: usize = 16;
    let mut sums = [0.0f32; LANES];
    let (a, b) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest: f32 = a.remainder().iter().zip(b.remainder()).map(|(x, y)| x * y).sum();
    for (a, b) in a.zip(b) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    sums.iter().sum::<f32>() + rest
}

/// One block of one row of an interleaved group: scale, minimum, 32 whole numbers.
fn unpack(packing: Packing, block: &[u8], row: usize) -> (f32, f32, [i32; BLOCK]) {
    let half = |at: usize| f16::from_le_bytes([block[at], block[at + 1]]).to_f32();
    let mut q = [0; BLOCK];
    if packing == Packing::Q4x8 {
        for (i, q) in q.iter_mut().enumerate() {
            let nibble = i % 16;
            let byte = block[32 + nibble / 4 * 32 + row * 4 + nibble % 4];
            *q = i32::from(if i < 16 { byte & 15 } else { byte >> 4 });
        }
        (half(row * 2), half(16 + row * 2), q)
    } else {
        for (i, q) in q.iter_mut().enumerate() {
            *q = i32::from(block[16 + i / 4 * 32 + row * 4 + i % 4] as i8);
        }
        (half(row * 2), 0.0, q)
    }
}

fn block_bytes(packing: Packing) -> usize {
    if packing == Packing::Q4x8 { Q4_GROUP_BYTES } else { Q8_GROUP_BYTES }
}

/// Eight rows of an interleaved packing times one row of activations.
pub(super) fn product(packing: Packing, weights: &[u8], x: &[Quantized], out: &mut [f32; GROUP]) {
    *out = [0.0; GROUP];
    for (block, x) in weights.chunks_exact(block_bytes(packing)).zip(x) {
        for (row, out) in out.iter_mut().enumerate() {
            let (scale, min, q) = unpack(packing, block, row);
            let sum: i32 = q.iter().zip(&x.q).map(|(w, x)| w * i32::from(*x)).sum();
            *out += scale * x.scale * sum as f32 + min * x.sum;
        }
    }
}

/// One row of an interleaved packing as numbers.
pub(super) fn unpack_row(matrix: &Matrix, bytes: &[u8], row: usize, out: &mut [f32]) {
    let size = block_bytes(matrix.packing);
    let group = matrix.columns / BLOCK * size;
    let group = &bytes[row / GROUP * group..(row / GROUP + 1) * group];
    for (block, out) in group.chunks_exact(size).zip(out.chunks_exact_mut(BLOCK)) {
        let (scale, min, q) = unpack(matrix.packing, block, row % GROUP);
        out.iter_mut().zip(q).for_each(|(out, q)| *out = scale * q as f32 + min);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Cpu;
    use crate::gguf::{GgmlType, dequantize};
    use crate::kernels::activation::quantize;
    use proptest::prelude::*;

    /// Random blocks with scales that are small numbers.
    pub(crate) fn random_blocks(kind: GgmlType, count: usize, seed: u64) -> Vec<u8> {
        let mut state = seed | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let mut bytes: Vec<u8> = (0..count * kind.block_bytes()).map(|_| (next() >> 32) as u8).collect();
        let mut number = || f16::from_f32(((next() >> 40) as f32 / (1u64 << 24) as f32 - 0.5) * 0.1);
        for block in bytes.chunks_exact_mut(kind.block_bytes()) {
            let halves: &[usize] = match kind {
                GgmlType::F16 | GgmlType::Q4_0 | GgmlType::Q5_0 | GgmlType::Q8_0 => &[0],
                GgmlType::Q4_1 | GgmlType::Q5_1 | GgmlType::Q4_K | GgmlType::Q5_K => &[0, 2],
                GgmlType::Q6_K => &[208],
                GgmlType::F32 => {
                    block.copy_from_slice(&number().to_f32().to_le_bytes());
                    &[]
                }
                GgmlType::BF16 => {
                    block.copy_from_slice(&half::bf16::from_f32(number().to_f32()).to_le_bytes());
                    &[]
                }
            };
            for &at in halves {
                block[at..at + 2].copy_from_slice(&number().to_le_bytes());
            }
        }
        bytes
    }

    /// Norm of the difference over the norm of the reference.
    fn error(found: &[f32], reference: &[f64]) -> f64 {
        let (mut difference, mut norm) = (0.0, 0.0);
        for (f, r) in found.iter().zip(reference) {
            difference += (f64::from(*f) - r).powi(2);
            norm += r * r;
        }
        (difference / norm.max(1e-30)).sqrt()
    }

    fn check(kind: GgmlType, rows: usize, columns: usize, count: usize, seed: u64) {
        let bytes = random_blocks(kind, rows * columns / kind.block_len(), seed);
        let mut weights = vec![0.0; rows * columns];
        dequantize(kind, &bytes, &mut weights);
        let x: Vec<f32> = (0..count * columns).map(|i| ((i as f32 + seed as f32 % 97.0) * 0.77).sin()).collect();
        let (matrix, packed) = Matrix::pack(kind, &bytes, rows, columns);
        // What the kernel multiplies with: quantized activations where the packing asks for them.
        let mut seen = x.clone();
        if !matches!(matrix.packing, Packing::Plain(_)) {
            let mut blocks = vec![Quantized::ZERO; x.len() / BLOCK];
            quantize(&x, &mut blocks);
            for (block, seen) in blocks.iter().zip(seen.chunks_exact_mut(BLOCK)) {
                seen.iter_mut().zip(block.q).for_each(|(s, q)| *s = block.scale * f32::from(q));
            }
        }
        let reference: Vec<f64> = seen
            .chunks_exact(columns)
            .flat_map(|x| weights.chunks_exact(columns).map(move |w| (w, x)))
            .map(|(w, x)| w.iter().zip(x).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum())
            .collect();
        for cpu in [Cpu::Portable, Cpu::detect()] {
            let mut out = vec![f32::NAN; rows * count];
            matrix.multiply_on(cpu, &packed, &x, &mut out);
            let error = error(&out, &reference);
            assert!(error < 1e-3, "{kind} {rows}x{columns} times {count} on {cpu}: {error}");
        }
        let mut row = vec![0.0; columns];
        matrix.row(&packed, rows - 1, &mut row);
        let expected = &weights[(rows - 1) * columns..];
        assert!(row.iter().zip(expected).all(|(a, b)| (a - b).abs() <= 1e-6 + 1e-6 * b.abs()), "{kind}: last row");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn products_are_those_of_the_dequantized_numbers(
            kind in proptest::sample::select(GgmlType::ALL.to_vec()),
            rows in 1usize..70,
            wide in 1usize..4,
            count in 1usize..10,
            seed in any::<u64>(),
        ) {
            check(kind, rows, wide * 256, count, seed);
        }
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        for kind in [GgmlType::Q4_1, GgmlType::Q8_0] {
            let mut bytes = random_blocks(kind, 16, 3);
            let from = if kind == GgmlType::Q4_1 { 4 } else { 2 };
            for block in bytes.chunks_exact_mut(kind.block_bytes()) {
                block[from..].fill(if kind == GgmlType::Q4_1 { 0xff } else { 0x80 });
            }
            let (matrix, packed) = Matrix::pack(kind, &bytes, 8, 64);
            let (mut fast, mut plain) = (vec![0.0; 8], vec![0.0; 8]);
            matrix.multiply_on(Cpu::detect(), &packed, &[-1.0; 64], &mut fast);
            matrix.multiply_on(Cpu::Portable, &packed, &[-1.0; 64], &mut plain);
            assert!(fast.iter().zip(&plain).all(|(f, p)| (f - p).abs() <= 1e-4 * p.abs()), "{fast:?} {plain:?}");
        }
    }
}
