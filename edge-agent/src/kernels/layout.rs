//! How weights lie in memory: blocks as in the file, with eight rows interleaved, in exactly the file's size.
//!
//! A group is eight rows. Its numbers come in runs of 32 columns; inside a run a vector of 32 bytes holds four columns
//! of each of the eight rows, so that a product with four activations, repeated eight times, adds up row by row and
//! needs no sum across the vector. In front of the runs stands what the rows' blocks say of their scales:
//!
//! | kind | in front | each run of 32 columns |
//! | --- | --- | --- |
//! | F32, F16, BF16 | | per column: eight numbers |
//! | Q4_0, Q8_0 | 8 scales | 4 (8) vectors of low bits |
//! | Q4_1 | 8 scales, 8 minimums | 4 vectors of low bits |
//! | Q5_0, Q5_1 | likewise | 1 vector of fifth bits, 4 of low bits |
//! | Q4_K, Q5_K | 8 scales, 8 minimums, 3 vectors of six-bit scales | (1 vector of fifth bits,) 4 of low bits; 8 such runs |
//! | Q6_K | 8 scales, 4 vectors of eight-bit scales | 2 vectors of high bits, 4 of low bits; 8 such runs |
//!
//! Vector `j` of four-bit numbers has columns `4j..` in its low and `16 + 4j..` in its high nibbles. Byte `4 * row + k`
//! of the fifth bits has column `4j + k` of the row at bit `j`; of Q6_K's high bits, at bits `2j` and `2j + 1`, with
//! columns from 16 on in the second vector.
#![allow(unsafe_code, reason = "threads pack their own groups")]

use half::f16;

use super::activation::BLOCK;
use super::pool::{Parts, for_each};
use crate::gguf::{GgmlType, dequantize};

/// Rows that are interleaved.
pub(super) const GROUP: usize = 8;

/// Bits of a number, 0 where the file's numbers are used as they are.
pub(super) const fn bits(kind: GgmlType) -> u32 {
    match kind {
        GgmlType::F32 | GgmlType::F16 | GgmlType::BF16 => 0,
        GgmlType::Q4_0 | GgmlType::Q4_1 | GgmlType::Q4_K => 4,
        GgmlType::Q5_0 | GgmlType::Q5_1 | GgmlType::Q5_K => 5,
        GgmlType::Q6_K => 6,
        GgmlType::Q8_0 => 8,
    }
}

/// Bytes in front of a group's runs.
pub(super) const fn header(kind: GgmlType) -> usize {
    match kind {
        GgmlType::F32 | GgmlType::F16 | GgmlType::BF16 => 0,
        GgmlType::Q4_0 | GgmlType::Q5_0 | GgmlType::Q8_0 => 16,
        GgmlType::Q4_1 | GgmlType::Q5_1 => 32,
        GgmlType::Q4_K | GgmlType::Q5_K => 32 + 3 * 32,
        GgmlType::Q6_K => 16 + 4 * 32,
    }
}

/// Bytes of a run's bits beyond the fourth, which stand before its low bits.
pub(super) const fn high(kind: GgmlType) -> usize {
    match bits(kind) {
        5 => 32,
        6 => 64,
        _ => 0,
    }
}

/// Bytes of a run of 32 columns.
pub(super) const fn run(kind: GgmlType) -> usize {
    high(kind) + if bits(kind) == 8 { 256 } else { 128 }
}

/// Rows of the file to groups of eight; rows that the last group lacks are zero. `bytes` holds `rows` rows of whole
/// blocks.
pub(super) fn pack(kind: GgmlType, bytes: &[u8], rows: usize, columns: usize) -> Vec<u8> {
    let size = kind.block_bytes();
    let blocks = columns / kind.block_len();
    let groups = rows.div_ceil(GROUP);
    let mut out = vec![0; groups * blocks * size * GROUP];
    let parts = Parts::new(&mut out);
    for_each(groups, bytes.len() > 1 << 16, |group| {
        // SAFETY: each group is packed by one index.
        let out = unsafe { parts.part(group * blocks * size * GROUP, blocks * size * GROUP) };
        for row in 0..GROUP.min(rows - group * GROUP) {
            let from = &bytes[(group * GROUP + row) * blocks * size..][..blocks * size];
            place_row(kind, from, row, out);
        }
    });
    out
}

/// One row's blocks to their places among eight: the code for each kind is made apart, since a model has millions.
fn place_row(kind: GgmlType, from: &[u8], row: usize, out: &mut [u8]) {
    #[inline(always)]
    fn each(kind: GgmlType, from: &[u8], row: usize, out: &mut [u8]) {
        let size = kind.block_bytes();
        for (block, out) in from.chunks_exact(size).zip(out.chunks_exact_mut(size * GROUP)) {
            place(kind, block, row, out);
        }
    }
    match kind {
        GgmlType::F32 => each(GgmlType::F32, from, row, out),
        GgmlType::F16 | GgmlType::BF16 => each(GgmlType::F16, from, row, out),
        GgmlType::Q4_0 => each(GgmlType::Q4_0, from, row, out),
        GgmlType::Q4_1 => each(GgmlType::Q4_1, from, row, out),
        GgmlType::Q5_0 => each(GgmlType::Q5_0, from, row, out),
        GgmlType::Q5_1 => each(GgmlType::Q5_1, from, row, out),
        GgmlType::Q8_0 => each(GgmlType::Q8_0, from, row, out),
        GgmlType::Q4_K => each(GgmlType::Q4_K, from, row, out),
        GgmlType::Q5_K => each(GgmlType::Q5_K, from, row, out),
        GgmlType::Q6_K => each(GgmlType::Q6_K, from, row, out),
    }
}

/// One row's block to its place among eight.
#[inline(always)]
fn place(kind: GgmlType, block: &[u8], row: usize, out: &mut [u8]) {
    let mut put = |at: usize, bytes: &[u8]| out[at + row * bytes.len()..][..bytes.len()].copy_from_slice(bytes);
    match kind {
        GgmlType::F32 | GgmlType::F16 | GgmlType::BF16 => return put(0, block),
        GgmlType::Q4_0 | GgmlType::Q5_0 | GgmlType::Q8_0 => put(0, &block[..2]),
        GgmlType::Q4_1 | GgmlType::Q5_1 => {
            put(0, &block[..2]);
            put(16, &block[2..4]);
        }
        GgmlType::Q4_K | GgmlType::Q5_K => {
            put(0, &block[..2]);
            put(16, &block[2..4]);
            block[4..16].chunks_exact(4).enumerate().for_each(|(i, four)| put(32 + 32 * i, four));
        }
        GgmlType::Q6_K => {
            put(0, &block[208..210]);
            block[192..208].chunks_exact(4).enumerate().for_each(|(i, four)| put(16 + 32 * i, four));
        }
    }
    let (high, mut q) = (high(kind), [0; BLOCK]);
    for (index, out) in out[header(kind)..].chunks_exact_mut(run(kind)).enumerate() {
        numbers(kind, block, index, &mut q);
        let (high, low) = out.split_at_mut(high);
        // Four columns at a time, as one word.
        let four = |i: usize| u32::from_le_bytes([q[4 * i], q[4 * i + 1], q[4 * i + 2], q[4 * i + 3]]);
        let put = |out: &mut [u8], vector: usize, word: u32| {
            out[vector * 32 + row * 4..][..4].copy_from_slice(&word.to_le_bytes());
        };
        // The bits above the fourth of words `from..to`, each moved up by its place times `width`.
        let above = |from: usize, to: usize, width: usize| {
            (from..to).fold(0, |bits, i| bits | (four(i) >> 4 & 0x0303_0303) << (width * (i - from)))
        };
        match bits(kind) {
            8 => (0..8).for_each(|i| put(low, i, four(i))),
            _ => (0..4).for_each(|i| put(low, i, four(i) & 0x0f0f_0f0f | (four(i + 4) & 0x0f0f_0f0f) << 4)),
        }
        match bits(kind) {
            5 => put(high, 0, above(0, 8, 1)),
            6 => (0..2).for_each(|half| put(high, half, above(4 * half, 4 * half + 4, 2))),
            _ => {}
        }
    }
}

/// The 32 whole numbers of the `index`-th run of a file's block, as they are before offset and scale.
#[inline(always)]
fn numbers(kind: GgmlType, block: &[u8], index: usize, q: &mut [u8; BLOCK]) {
    let nibbles = |from: &[u8], q: &mut [u8; BLOCK]| {
        for i in 0..16 {
            (q[i], q[i + 16]) = (from[i] & 15, from[i] >> 4);
        }
    };
    // K-quants: two runs share 32 bytes, one has the low, the other the high nibbles.
    let pairs = |from: &[u8], q: &mut [u8; BLOCK]| {
        for (q, byte) in q.iter_mut().zip(&from[index / 2 * 32..]) {
            *q = byte >> (index % 2 * 4) & 15;
        }
    };
    let fifth = |from: &[u8], q: &mut [u8; BLOCK]| {
        let high = u32::from_le_bytes([from[0], from[1], from[2], from[3]]);
        q.iter_mut().enumerate().for_each(|(i, q)| *q |= ((high >> i & 1) as u8) << 4);
    };
    match kind {
        GgmlType::Q4_0 => nibbles(&block[2..], q),
        GgmlType::Q4_1 => nibbles(&block[4..], q),
        GgmlType::Q5_0 => {
            nibbles(&block[6..], q);
            fifth(&block[2..], q);
        }
        GgmlType::Q5_1 => {
            nibbles(&block[8..], q);
            fifth(&block[4..], q);
        }
        GgmlType::Q8_0 => q.copy_from_slice(&block[2..34]),
        GgmlType::Q4_K => pairs(&block[16..], q),
        GgmlType::Q5_K => {
            pairs(&block[48..], q);
            q.iter_mut().zip(&block[16..]).for_each(|(q, bits)| *q |= (bits >> index & 1) << 4);
        }
        GgmlType::Q6_K => {
            // Half a block is 128 numbers: four runs over 64 bytes of low and 32 of high bits.
            let (half, quarter) = (index / 4, index % 4);
            let low = &block[half * 64 + quarter % 2 * 32..];
            for ((q, low), high) in q.iter_mut().zip(low).zip(&block[128 + half * 32..]) {
                *q = low >> (quarter / 2 * 4) & 15 | (high >> (2 * quarter) & 3) << 4;
            }
        }
        GgmlType::F32 | GgmlType::F16 | GgmlType::BF16 => {}
    }
}

/// One row of packed groups as numbers.
pub(super) fn unpack_row(kind: GgmlType, bytes: &[u8], columns: usize, row: usize, out: &mut [f32]) {
    let (size, length) = (kind.block_bytes(), kind.block_len());
    let group = columns / length * size * GROUP;
    let group = &bytes[row / GROUP * group..][..group];
    let row = row % GROUP;
    for (block, out) in group.chunks_exact(size * GROUP).zip(out.chunks_exact_mut(length)) {
        if bits(kind) == 0 {
            dequantize(kind, &block[row * size..(row + 1) * size], out);
            continue;
        }
        for (index, (run, out)) in
            block[header(kind)..].chunks_exact(run(kind)).zip(out.chunks_exact_mut(BLOCK)).enumerate()
        {
            let (scales, mins) = scales(kind, block, row, index);
            for (i, out) in out.iter_mut().enumerate() {
                *out = scales[i / 16] * f32::from(number(kind, run, row, i)) + mins[i / 16];
            }
        }
    }
}

/// Column `i` of a row in a packed run.
fn number(kind: GgmlType, run: &[u8], row: usize, i: usize) -> i16 {
    let (high, low) = run.split_at(high(kind));
    let (at, vector) = (row * 4 + i % 4, i / 4);
    let nibble = || i16::from(low[vector % 4 * 32 + at] >> (vector / 4 * 4) & 15);
    match bits(kind) {
        8 => i16::from(low[vector * 32 + at] as i8),
        6 => nibble() | i16::from(high[vector / 4 * 32 + at] >> (vector % 4 * 2) & 3) << 4,
        5 => nibble() | i16::from(high[at] >> vector & 1) << 4,
        _ => nibble(),
    }
}

/// Scale and minimum of a row's first and last 16 columns of a run.
fn scales(kind: GgmlType, block: &[u8], row: usize, index: usize) -> ([f32; 2], [f32; 2]) {
    let half = |at: usize| f16::from_le_bytes([block[at + row * 2], block[at + row * 2 + 1]]).to_f32();
    let (scale, min) = match kind {
        GgmlType::Q4_0 => (half(0), -8.0 * half(0)),
        GgmlType::Q5_0 => (half(0), -16.0 * half(0)),
        GgmlType::Q4_1 | GgmlType::Q5_1 => (half(0), half(16)),
        GgmlType::Q4_K | GgmlType::Q5_K => {
            let byte = |vector: usize| block[32 + vector * 32 + row * 4 + index % 4];
            let (scale, min) = if index < 4 {
                (byte(0) & 63, byte(1) & 63)
            } else {
                (byte(2) & 15 | byte(0) >> 6 << 4, byte(2) >> 4 | byte(1) >> 6 << 4)
            };
            (half(0) * f32::from(scale), -half(16) * f32::from(min))
        }
        GgmlType::Q6_K => {
            let byte = |i: usize| f32::from(block[16 + index / 2 * 32 + row * 4 + index % 2 * 2 + i] as i8);
            let scales = [half(0) * byte(0), half(0) * byte(1)];
            return (scales, scales.map(|s| -32.0 * s));
        }
        _ => (half(0), 0.0),
    };
    ([scale; 2], [min; 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_weights_take_the_files_bytes_and_no_more() {
        for kind in GgmlType::ALL.into_iter().filter(|k| bits(*k) > 0) {
            let runs = kind.block_len() / BLOCK;
            assert_eq!(header(kind) + runs * run(kind), GROUP * kind.block_bytes(), "{kind}");
        }
    }
}
