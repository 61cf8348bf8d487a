//! A matrix of weights, quantized as in the file, and its product with rows of activations.
#![allow(unsafe_code, reason = "threads write their own columns of the result")]

use std::cell::RefCell;

use super::activation::{BLOCK, Quantized};
use super::pool::{Parts, for_each, threads};
use super::portable;
use crate::device::Cpu;
use crate::gguf::{GgmlType, dequantize};

/// Rows that are interleaved.
pub(super) const GROUP: usize = 8;
/// Bytes of a group's block of 32 columns: eight scales and eight minimums in 16 bits, then nibbles.
pub(super) const Q4_GROUP_BYTES: usize = GROUP * 20;
/// Eight scales in 16 bits, then bytes.
pub(super) const Q8_GROUP_BYTES: usize = GROUP * 34;

/// How the weights lie in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// Q4_0 and Q4_1, eight rows interleaved: four columns of each of the eight rows stand side by side.
    Q4x8,
    /// Q8_0, likewise.
    Q8x8,
    /// As in the file, row by row.
    Plain(GgmlType),
}

/// Shape and packing; the bytes live in whatever holds the device's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Matrix {
    /// Outputs.
    pub rows: usize,
    /// Inputs.
    pub columns: usize,
    /// How the bytes lie.
    pub packing: Packing,
}

thread_local! {
    /// The engine's thread quantizes for every product; the room is made once.
    static ACTIVATIONS: RefCell<Vec<Quantized>> = const { RefCell::new(Vec::new()) };
}

impl Matrix {
    /// Packs rows as a file has them. `bytes` holds `rows` rows of `columns` numbers; rows are whole blocks.
    pub fn pack(kind: GgmlType, bytes: &[u8], rows: usize, columns: usize) -> (Matrix, Vec<u8>) {
        let packing = match kind {
            GgmlType::Q4_0 | GgmlType::Q4_1 => Packing::Q4x8,
            GgmlType::Q8_0 => Packing::Q8x8,
            other => Packing::Plain(other),
        };
        let packed = match packing {
            Packing::Plain(_) => bytes.to_vec(),
            Packing::Q4x8 | Packing::Q8x8 => interleave(kind, bytes, rows, columns / BLOCK),
        };
        (Matrix { rows, columns, packing }, packed)
    }

    /// Bytes that a matrix of this shape has.
    pub fn bytes(&self) -> usize {
        let groups = self.rows.div_ceil(GROUP) * (self.columns / BLOCK);
        match self.packing {
            Packing::Q4x8 => groups * Q4_GROUP_BYTES,
            Packing::Q8x8 => groups * Q8_GROUP_BYTES,
            Packing::Plain(kind) => self.rows * self.columns / kind.block_len() * kind.block_bytes(),
        }
    }

    /// One row as numbers: how an embedding is looked up.
    pub fn row(&self, bytes: &[u8], row: usize, out: &mut [f32]) {
        match self.packing {
            Packing::Plain(kind) => {
                let stride = self.columns / kind.block_len() * kind.block_bytes();
                dequantize(kind, &bytes[row * stride..(row + 1) * stride], out);
            }
            Packing::Q4x8 | Packing::Q8x8 => portable::unpack_row(self, bytes, row, out),
        }
    }

    /// `out[m][rows] = x[m][columns] * weights^T`. `x` and `out` hold whole rows of the same count; `bytes` comes from
    /// [`Matrix::pack`].
    pub fn multiply(&self, bytes: &[u8], x: &[f32], out: &mut [f32]) {
        self.multiply_on(Cpu::detect(), bytes, x, out);
    }

    pub(super) fn multiply_on(&self, cpu: Cpu, bytes: &[u8], x: &[f32], out: &mut [f32]) {
        let count = x.len() / self.columns;
        assert!(x.len() == count * self.columns && out.len() == count * self.rows, "rows of the wrong length");
        assert!(bytes.len() == self.bytes(), "weights of another shape");
        match self.packing {
            Packing::Plain(kind) => self.multiply_plain(kind, bytes, x, out),
            Packing::Q4x8 | Packing::Q8x8 => ACTIVATIONS.with_borrow_mut(|activations| {
                let blocks = self.columns / BLOCK;
                activations.resize(activations.len().max(count * blocks), Quantized::ZERO);
                let activations = &mut activations[..count * blocks];
                quantize_rows(cpu, x, activations, self.columns);
                self.multiply_groups(cpu, bytes, activations, count, out);
            }),
        }
    }

    /// The interleaved packings: threads take runs of groups of eight rows.
    fn multiply_groups(&self, cpu: Cpu, bytes: &[u8], x: &[Quantized], count: usize, out: &mut [f32]) {
        let groups = self.rows.div_ceil(GROUP);
        let run = (groups / (threads() * 4)).clamp(4, 256);
        let group_bytes = bytes.len() / groups.max(1);
        let (rows, parts) = (self.rows, Parts::new(out));
        for_each(groups.div_ceil(run), groups * self.columns * count > 16_384, |index| {
            let first = index * run;
            let last = (first + run).min(groups);
            // A few groups stay in the nearest cache while all rows of activations pass.
            for near in (first..last).step_by(4) {
                let mut at = 0;
                while at < count {
                    let tile = if count - at >= 4 { 4 } else { 1 };
                    for group in near..(near + 4).min(last) {
                        let weights = &bytes[group * group_bytes..(group + 1) * group_bytes];
                        let mut sums = [[0.0; GROUP]; 4];
                        product(
                            cpu,
                            self.packing,
                            weights,
                            &x[at * (x.len() / count)..],
                            x.len() / count,
                            tile,
                            &mut sums,
                        );
                        let width = (rows - group * GROUP).min(GROUP);
                        for (i, sums) in sums[..tile].iter().enumerate() {
                            // SAFETY: this run of groups is this thread's alone, and so are its columns.
                            let to = unsafe { parts.part((at + i) * rows + group * GROUP, width) };
                            to.copy_from_slice(&sums[..width]);
                        }
                    }
                    at += tile;
                }
            }
        });
    }

    /// Any other format: each row becomes numbers once and meets every row of activations.
    fn multiply_plain(&self, kind: GgmlType, bytes: &[u8], x: &[f32], out: &mut [f32]) {
        let stride = self.columns / kind.block_len() * kind.block_bytes();
        let (rows, columns, parts) = (self.rows, self.columns, Parts::new(out));
        let run = (rows / (threads() * 8)).clamp(1, 256);
        for_each(rows.div_ceil(run), x.len() * rows > 16_384, |index| {
            let mut numbers = vec![0.0; columns];
            for row in index * run..(index * run + run).min(rows) {
                dequantize(kind, &bytes[row * stride..(row + 1) * stride], &mut numbers);
                for (i, x) in x.chunks_exact(columns).enumerate() {
                    // SAFETY: this row of weights is this thread's alone, and so is its column of the result.
                    let to = unsafe { parts.part(i * rows + row, 1) };
                    to[0] = portable::dot(&numbers, x);
                }
            }
        });
    }
}

/// Eight rows times 1 or 4 rows of activations.
fn product(
    cpu: Cpu,
    packing: Packing,
    weights: &[u8],
    x: &[Quantized],
    blocks: usize,
    tile: usize,
    out: &mut [[f32; GROUP]; 4],
) {
    #[cfg(target_arch = "x86_64")]
    if cpu == Cpu::Avx2 {
        return super::avx2::product(packing, weights, x, blocks, tile, out);
    }
    let _ = cpu;
    for (i, out) in out[..tile].iter_mut().enumerate() {
        portable::product(packing, weights, &x[i * blocks..(i + 1) * blocks], out);
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
        if cpu == Cpu::Avx2 {
            return super::avx2::quantize(x, out);
        }
        let _ = cpu;
        super::activation::quantize(x, out);
    });
}

/// Rows of the file to groups of eight; rows that the last group lacks are zero. Q4_0 becomes Q4_1 without loss: its
/// numbers are `scale * q - 8 * scale`, and eight times a 16-bit scale is one too, but for the very largest.
fn interleave(kind: GgmlType, bytes: &[u8], rows: usize, blocks: usize) -> Vec<u8> {
    let size = kind.block_bytes();
    let quants_at = if kind == GgmlType::Q4_1 { 4 } else { 2 };
    let out_size = if kind == GgmlType::Q8_0 { Q8_GROUP_BYTES } else { Q4_GROUP_BYTES };
    let zero = vec![0; size];
    let mut out = Vec::with_capacity(rows.div_ceil(GROUP) * blocks * out_size);
    for first in (0..rows).step_by(GROUP) {
        for block in 0..blocks {
            let of = |row: usize| {
                let at = ((first + row) * blocks + block) * size;
                if first + row < rows { &bytes[at..at + size] } else { zero.as_slice() }
            };
            (0..GROUP).for_each(|row| out.extend_from_slice(&of(row)[..2]));
            match kind {
                GgmlType::Q4_1 => (0..GROUP).for_each(|row| out.extend_from_slice(&of(row)[2..4])),
                GgmlType::Q4_0 => (0..GROUP).for_each(|row| {
                    let scale = half::f16::from_le_bytes([of(row)[0], of(row)[1]]);
                    out.extend_from_slice(&half::f16::from_f32(scale.to_f32() * -8.0).to_le_bytes());
                }),
                _ => {}
            }
            for at in (quants_at..size).step_by(4) {
                (0..GROUP).for_each(|row| out.extend_from_slice(&of(row)[at..at + 4]));
            }
        }
    }
    out
}
