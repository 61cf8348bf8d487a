//! A matrix of weights, quantized as in the file, and its product with rows of activations.
#![allow(unsafe_code, reason = "threads write their own columns of the result")]

use std::cell::RefCell;

use super::activation::{BLOCK, Quantized};
use super::kernel::{Kernel, Rows, takes_quantized};
use super::layout::{self, GROUP};
use super::pool::{Parts, for_each, threads};
use crate::device::Cpu;
use crate::gguf::GgmlType;

/// Shape and kind; the bytes live in whatever holds the device's memory, eight rows interleaved, as many as in the file
/// but for a last group that is not full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Matrix {
    /// Outputs.
    pub rows: usize,
    /// Inputs.
    pub columns: usize,
    /// How the file stores the numbers.
    pub kind: GgmlType,
}

/// Rows of activations that meet a group's weights at once, at most; and their bytes, so that they stay in the nearest
/// cache.
const TILE: usize = 16;
const TILE_BYTES: usize = 20 << 10;
/// Bytes of weights that stay in the second cache while all rows of activations pass.
const NEAR_BYTES: usize = 64 << 10;

/// Runs of groups that each thread takes of a product with one row, if they are alike.
const RUNS: usize = 12;

/// Sums that begin with a line of the cache: a vector of them is then in one line.
#[repr(align(64))]
struct Lines([f32; 2 * GROUP * TILE]);

thread_local! {
    /// The engine's thread quantizes for every product; the room is made once.
    static ACTIVATIONS: RefCell<Vec<Quantized>> = const { RefCell::new(Vec::new()) };
}

impl Matrix {
    /// Packs rows as a file has them. `bytes` holds `rows` rows of `columns` numbers; rows are whole blocks.
    pub fn pack(kind: GgmlType, bytes: &[u8], rows: usize, columns: usize) -> (Matrix, Vec<u8>) {
        (Matrix { rows, columns, kind }, layout::pack(kind, bytes, rows, columns))
    }

    /// Bytes that a matrix of this shape has.
    pub fn bytes(&self) -> usize {
        self.rows.div_ceil(GROUP) * self.group_bytes()
    }

    fn group_bytes(&self) -> usize {
        self.columns / self.kind.block_len() * self.kind.block_bytes() * GROUP
    }

    /// One row as numbers: how an embedding is looked up.
    pub fn row(&self, bytes: &[u8], row: usize, out: &mut [f32]) {
        layout::unpack_row(self.kind, bytes, self.columns, row, out);
    }

    /// `out[m][rows] = x[m][columns] * weights^T`. `x` and `out` hold whole rows of the same count, of which the first
    /// `prompts` come from prompts: where the processor has something for many rows at once, those take it, however
    /// many they are. A row's numbers do not depend on the other rows. `bytes` comes from [`Matrix::pack`].
    pub fn multiply(&self, bytes: &[u8], x: &[f32], prompts: usize, out: &mut [f32]) {
        self.multiply_on(Cpu::detect(), bytes, x, prompts, out);
    }

    pub(super) fn multiply_on(&self, cpu: Cpu, bytes: &[u8], x: &[f32], prompts: usize, out: &mut [f32]) {
        let count = x.len() / self.columns;
        assert!(x.len() == count * self.columns && out.len() == count * self.rows, "rows of the wrong length");
        assert!(bytes.len() == self.bytes(), "weights of another shape");
        #[cfg(target_arch = "x86_64")]
        let (x, out, count) = if prompts > 0 && cpu == Cpu::Amx && super::amx::takes(self.kind) {
            let ((prompts, x), (to, out)) = (x.split_at(prompts * self.columns), out.split_at_mut(prompts * self.rows));
            super::amx::multiply(self, bytes, prompts, to);
            (x, out, x.len() / self.columns)
        } else {
            (x, out, count)
        };
        #[cfg(not(target_arch = "x86_64"))]
        let _ = prompts;
        if count == 0 {
            return;
        }
        if !takes_quantized(self.kind) {
            return self.multiply_rows(cpu, bytes, Rows::Plain(x), count, out);
        }
        ACTIVATIONS.with_borrow_mut(|activations| {
            let blocks = self.columns / BLOCK;
            activations.resize(activations.len().max(count * blocks), Quantized::ZERO);
            let activations = &mut activations[..count * blocks];
            quantize_rows(cpu, x, activations, self.columns);
            self.multiply_rows(cpu, bytes, Rows::Quantized(activations), count, out);
        });
    }

    /// Threads take runs of groups; in each, a few groups stay near while all rows pass in tiles.
    fn multiply_rows(&self, cpu: Cpu, bytes: &[u8], x: Rows<'_>, count: usize, out: &mut [f32]) {
        if count == 1 {
            return self.multiply_row(cpu, bytes, x, out);
        }
        let kernel = Kernel::of(cpu, self.kind);
        let (groups, size, rows) = (self.rows.div_ceil(GROUP), self.group_bytes(), self.rows);
        let run = (groups / (threads() * 4)).clamp(4, 256).next_multiple_of(kernel.groups);
        let near = (NEAR_BYTES / size).clamp(4, 32).next_multiple_of(kernel.groups);
        let tile = self.tile(count);
        let parts = Parts::new(out);
        for_each(groups.div_ceil(run), groups * self.columns * count > 16_384, |index| {
            let last = (index * run + run).min(groups);
            let mut sums = Lines([0.0; 2 * GROUP * TILE]);
            let sums = &mut sums.0;
            for near_first in (index * run..last).step_by(near) {
                let near_last = (near_first + near).min(last);
                for at in (0..count).step_by(tile) {
                    let (x, tile) = (x.from(at, count), tile.min(count - at));
                    for first in (near_first..near_last).step_by(kernel.groups) {
                        let weights = &bytes[first * size..(first + kernel.groups).min(groups) * size];
                        kernel.run(self.kind, self.columns, weights, x, tile, sums);
                        let width = (rows - first * GROUP).min(GROUP * kernel.groups);
                        for (i, sums) in sums.chunks_exact(GROUP * kernel.groups).take(tile).enumerate() {
                            // SAFETY: this run of groups is this thread's alone, and so are its columns.
                            let to = unsafe { parts.part((at + i) * rows + first * GROUP, width) };
                            to.copy_from_slice(&sums[..width]);
                        }
                    }
                }
            }
        });
    }

    /// One row of activations, which is as fast as its weights come: nothing is copied, and runs are short, so that no
    /// thread waits long for another's last one.
    fn multiply_row(&self, cpu: Cpu, bytes: &[u8], x: Rows<'_>, out: &mut [f32]) {
        let kernel = Kernel::of(cpu, self.kind);
        let (groups, size, wide) = (self.rows.div_ceil(GROUP), self.group_bytes(), GROUP * kernel.groups);
        let run = (groups / (threads() * RUNS)).clamp(kernel.groups, 64).next_multiple_of(kernel.groups);
        let parts = Parts::new(out);
        for_each(groups.div_ceil(run), groups * self.columns > 16_384, |index| {
            let (first, last) = (index * run, (index * run + run).min(groups));
            // SAFETY: this run of groups is this thread's alone, and so are its outputs.
            let out = unsafe { parts.part(first * GROUP, (last * GROUP).min(self.rows) - first * GROUP) };
            let weights = bytes[first * size..last * size].chunks(kernel.groups * size);
            for (weights, out) in weights.zip(out.chunks_mut(wide)) {
                if out.len() == wide {
                    kernel.run(self.kind, self.columns, weights, x, 1, out);
                } else {
                    let mut sums = [0.0; 2 * GROUP];
                    kernel.run(self.kind, self.columns, weights, x, 1, &mut sums);
                    out.copy_from_slice(&sums[..out.len()]);
                }
            }
        });
    }

    /// Rows of a tile: all tiles but the last have as many, and none is much smaller than the others.
    fn tile(&self, count: usize) -> usize {
        let row =
            if takes_quantized(self.kind) { self.columns / BLOCK * size_of::<Quantized>() } else { self.columns * 4 };
        let most = (TILE_BYTES / row.max(1)).clamp(4, TILE);
        count.div_ceil(count.div_ceil(most))
    }
}

impl<'a> Rows<'a> {
    /// From the `at`-th of `count` rows on.
    fn from(self, at: usize, count: usize) -> Rows<'a> {
        match self {
            Rows::Quantized(x) => Rows::Quantized(&x[at * (x.len() / count)..]),
            Rows::Plain(x) => Rows::Plain(&x[at * (x.len() / count)..]),
        }
    }
}

fn quantize_rows(cpu: Cpu, x: &[f32], out: &mut [Quantized], columns: usize) {
    let (blocks, count) = (columns / BLOCK, x.len() / columns);
    let parts = Parts::new(out);
    for_each(count, count >= 16, |row| {
        // SAFETY: each row of the result is taken by one index.
        let out = unsafe { parts.part(row * blocks, blocks) };
        let x = &x[row * columns..(row + 1) * columns];
        #[cfg(target_arch = "x86_64")]
        if cpu.has_avx2() {
            return super::avx2::quantize(x, out);
        }
        let _ = cpu;
        super::activation::quantize(x, out);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gguf::dequantize;
    use crate::kernels::activation::quantize;
    use crate::kernels::sample;
    use proptest::prelude::*;

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
        let bytes = sample::blocks(kind, rows * columns / kind.block_len(), seed);
        let mut weights = vec![0.0; rows * columns];
        dequantize(kind, &bytes, &mut weights);
        let x: Vec<f32> = (0..count * columns).map(|i| ((i as f32 + seed as f32 % 97.0) * 0.77).sin()).collect();
        let (matrix, packed) = Matrix::pack(kind, &bytes, rows, columns);
        // What the kernel multiplies with: quantized activations where the kind asks for them.
        let mut seen = x.clone();
        if takes_quantized(kind) {
            let mut blocks = vec![Quantized::ZERO; x.len() / BLOCK];
            quantize(&x, &mut blocks);
            for (block, seen) in blocks.iter().zip(seen.chunks_exact_mut(BLOCK)) {
                seen.iter_mut().zip(block.q).for_each(|(s, q)| *s = block.scale * f32::from(q));
            }
        }
        let products = |x: &[f32]| -> Vec<f64> {
            x.chunks_exact(columns)
                .flat_map(|x| weights.chunks_exact(columns).map(move |w| (w, x)))
                .map(|(w, x)| w.iter().zip(x).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum())
                .collect()
        };
        let (reference, exact) = (products(&seen), products(&x));
        for cpu in Cpu::ALL.into_iter().filter(|cpu| cpu.is_there()) {
            for prompts in [0, count / 2, count] {
                let mut out = vec![f32::NAN; rows * count];
                matrix.multiply_on(cpu, &packed, &x, prompts, &mut out);
                let (first, rest) = out.split_at(rows * prompts);
                let mut errors = vec![error(rest, &reference[first.len()..])];
                if cpu == Cpu::Amx && takes_quantized(kind) {
                    // Tiles take a prompt's activations as they are, and both sides in sixteen bits: a product that happens
                    // to cancel out is measured by what such products are on the average.
                    let norm = |x: &[f32]| x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>();
                    let usual = (norm(&weights) * norm(&x[..prompts * columns]) / columns as f64).sqrt();
                    let own = exact[..first.len()].iter().map(|x| x * x).sum::<f64>().sqrt();
                    errors.push(error(first, &exact[..first.len()]) * own / usual.max(own).max(1e-15));
                } else {
                    errors.push(error(first, &reference[..first.len()]));
                }
                for error in errors {
                    assert!(error < 1e-3, "{kind} {rows}x{columns} times {prompts} of {count} on {cpu}: {error}");
                }
                // A row's numbers do not depend on what else is in the batch, to the bit.
                for at in [0, count - 1] {
                    let (mut alone, x) = (vec![f32::NAN; rows], &x[at * columns..(at + 1) * columns]);
                    matrix.multiply_on(cpu, &packed, x, usize::from(at < prompts), &mut alone);
                    let among = &out[at * rows..(at + 1) * rows];
                    assert_eq!(alone, among, "{kind} {rows}x{columns}, row {at} of {count} on {cpu}");
                }
            }
        }
        for at in [0, rows / 2, rows - 1] {
            let mut row = vec![0.0; columns];
            matrix.row(&packed, at, &mut row);
            let expected = &weights[at * columns..(at + 1) * columns];
            assert!(row.iter().zip(expected).all(|(a, b)| (a - b).abs() <= 1e-6 + 1e-6 * b.abs()), "{kind}: row {at}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(160))]
        #[test]
        fn products_are_those_of_the_dequantized_numbers(
            kind in proptest::sample::select(GgmlType::ALL.to_vec()),
            rows in 1usize..70,
            wide in 1usize..9,
            count in 1usize..40,
            seed in any::<u64>(),
        ) {
            // Rows are whole blocks; those of plain numbers may be of any length.
            let columns = if takes_quantized(kind) { wide * kind.block_len() } else { wide * 7 };
            check(kind, rows, columns, count, seed);
        }
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        for (kind, from) in [
            (GgmlType::Q4_0, 2),
            (GgmlType::Q4_1, 4),
            (GgmlType::Q5_0, 2),
            (GgmlType::Q5_1, 4),
            (GgmlType::Q8_0, 2),
            (GgmlType::Q4_K, 4),
            (GgmlType::Q5_K, 4),
            (GgmlType::Q6_K, 0),
        ] {
            let mut bytes = sample::blocks(kind, 16, 3);
            for block in bytes.chunks_exact_mut(kind.block_bytes()) {
                let to = if kind == GgmlType::Q6_K { 192 } else { block.len() };
                block[from..to].fill(if kind == GgmlType::Q8_0 { 0x80 } else { 0xff });
            }
            let columns = 2 * kind.block_len();
            let (matrix, packed) = Matrix::pack(kind, &bytes, 8, columns);
            let x = vec![-1.0; columns];
            let mut plain = vec![0.0; 8];
            matrix.multiply_on(Cpu::Portable, &packed, &x, 0, &mut plain);
            for cpu in Cpu::ALL.into_iter().filter(|cpu| cpu.is_there()) {
                for prompts in [0, 1] {
                    let mut fast = vec![0.0; 8];
                    matrix.multiply_on(cpu, &packed, &x, prompts, &mut fast);
                    // Sixteen bits are as fine as the row's largest number allows.
                    let largest = plain.iter().fold(0.0f32, |most, p| most.max(p.abs()));
                    let near = fast
                        .iter()
                        .zip(&plain)
                        .all(|(f, p)| (f - p).abs() <= 1e-4 * if prompts == 1 { largest } else { p.abs() });
                    assert!(near, "{kind} on {cpu}: {fast:?} {plain:?}");
                }
            }
        }
    }
}
