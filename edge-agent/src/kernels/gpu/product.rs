//! Rows of activations times quantized weights, and single rows of weights.
//!
//! 32 threads share some rows of weights: each takes every 32nd chunk of eight columns, unpacks it once and multiplies it
//! with every activation of the tile. The threads' sums are added in one order at the end.
#![allow(unsafe_code, reason = "launches without checks inside the kernel; what they touch is checked before")]
#![allow(missing_docs, reason = "CubeCL's macro makes items that cannot be documented")]
#![allow(clippy::too_many_arguments, reason = "what a kernel is given is what it is launched with")]

use cubecl::prelude::*;

use super::format::{self, Format};
use super::unpack::unpack;
use super::{Buffer, Rows};
use crate::gguf::GgmlType;

/// Threads that share rows of weights.
const LANES: usize = 32;
/// Such groups of a cube.
const GROUPS: usize = 4;
/// Rows of activations that meet an unpacked chunk at most.
const WIDEST: usize = 8;

/// A matrix of weights on the device.
#[derive(Clone)]
pub(crate) struct Weights {
    pub(crate) words: Buffer,
    pub(crate) format: Format,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
}

impl Weights {
    /// The words of a file's rows, as the kernels want them.
    pub(crate) fn pack(kind: GgmlType, bytes: &[u8], rows: usize, columns: usize) -> Vec<u32> {
        format::pack(kind, bytes, rows, columns)
    }

    fn chunks(&self) -> usize {
        self.columns.div_ceil(8)
    }

    fn check(&self) {
        let words = self.rows * self.format.row_words(self.chunks());
        assert!(words <= self.words.len(), "{words} words of weights are wanted, {} are there", self.words.len());
    }
}

/// `x[m, columns]` times the transposed weights: `[m, rows]`.
pub(crate) fn product<R: Runtime>(client: &ComputeClient<R>, weights: &Weights, x: &Rows) -> Rows {
    assert!(x.whole() && x.width == weights.columns, "activations of another width");
    weights.check();
    let x = aligned(client, x);
    let out = Rows::empty(client, x.count, weights.rows);
    if x.count == 0 {
        return out;
    }
    let tile = x.count.next_power_of_two().min(WIDEST);
    let near = if tile == WIDEST { 2 } else { 4 };
    let count = CubeCount::Static(weights.rows.div_ceil(GROUPS * near) as u32, x.count.div_ceil(tile) as u32, 1);
    // SAFETY: weights and activations were checked above to hold every row, the result is made for them; rows past the
    // last are read as the last and not written.
    unsafe {
        multiply::launch_unchecked::<R>(
            client,
            count,
            CubeDim::new_2d(LANES as u32, GROUPS as u32),
            weights.words.argument(),
            x.buffer.argument(),
            out.buffer.argument(),
            weights.rows,
            x.count,
            x.stride / 4,
            weights.chunks(),
            near,
            tile,
            weights.format,
        );
    }
    out
}

/// Rows that begin at whole vectors of four and end with whole chunks; copied only where they do not.
fn aligned<R: Runtime>(client: &ComputeClient<R>, x: &Rows) -> Rows {
    if x.width.is_multiple_of(8) && x.stride.is_multiple_of(4) {
        return x.clone();
    }
    let out = Rows { width: x.width, ..Rows::empty(client, x.count, x.width.next_multiple_of(8)) };
    // SAFETY: the caller checked `x`; the result has `count * stride` numbers, and the kernel compares with that.
    unsafe {
        widen::launch_unchecked::<R>(
            client,
            CubeCount::Static((x.count * out.stride).div_ceil(256) as u32, 1, 1),
            CubeDim::new_1d(256),
            x.buffer.argument(),
            out.buffer.argument(),
            x.count * out.stride,
            x.width,
            x.stride,
            out.stride,
        );
    }
    out
}

/// Some rows of the weights as numbers, by their numbers in `ids`: `[ids, columns]`.
pub(crate) fn rows<R: Runtime>(client: &ComputeClient<R>, weights: &Weights, ids: &[u32]) -> Rows {
    weights.check();
    assert!(ids.iter().all(|id| (*id as usize) < weights.rows), "a row past the last");
    let out = Rows::empty(client, ids.len(), weights.columns);
    if ids.is_empty() {
        return out;
    }
    // SAFETY: each id is a row; the result has a row for each, and columns past the last are not written.
    unsafe {
        look_up::launch_unchecked::<R>(
            client,
            CubeCount::Static(weights.chunks().div_ceil(64) as u32, ids.len() as u32, 1),
            CubeDim::new_1d(64),
            weights.words.argument(),
            Buffer::words(client, ids).argument(),
            out.buffer.argument(),
            weights.columns,
            weights.chunks(),
            weights.format,
        );
    }
    out
}

#[cube(launch_unchecked)]
fn multiply(
    words: &Array<u32>,
    x: &Array<Vector<f32, Const<4>>>,
    out: &mut Array<f32>,
    rows: usize,
    count: usize,
    stride: usize,
    chunks: usize,
    #[comptime] near: usize,
    #[comptime] tile: usize,
    #[comptime] format: Format,
) {
    let lanes = comptime!(LANES);
    let groups = comptime!(GROUPS);
    let each = comptime!(near * tile);
    let lane = UNIT_POS_X as usize;
    let group = UNIT_POS_Y as usize;
    let first = (CUBE_POS_X as usize * groups + group) * near;
    let top = CUBE_POS_Y as usize * tile;
    let mut sums = Array::<f32>::new(each);
    #[unroll]
    for i in 0..each {
        sums[i] = 0.0f32;
    }
    let mut weights = Array::<f32>::new(comptime!(near * 8));
    let mut chunk = lane;
    while chunk < chunks {
        #[unroll]
        for r in 0..near {
            let row = min(first + r, rows - 1);
            unpack(words, row, chunk, chunks, &mut weights, r * 8, format);
        }
        #[unroll]
        for m in 0..tile {
            let from = min(top + m, count - 1) * stride + chunk * 2;
            let low = x[from];
            let high = x[from + 1];
            #[unroll]
            for r in 0..near {
                let mut sum = sums[m * near + r];
                #[unroll]
                for n in 0..4usize {
                    sum = fma(weights[r * 8 + n], low[n], sum);
                }
                #[unroll]
                for n in 0..4usize {
                    sum = fma(weights[r * 8 + 4 + n], high[n], sum);
                }
                sums[m * near + r] = sum;
            }
        }
        chunk += lanes;
    }
    // One more than the lanes, so that threads that add up different results do not meet in one bank of the memory.
    let stripe = comptime!(LANES + 1);
    let mut shared = SharedMemory::<f32>::new(comptime!(GROUPS * near * tile * (LANES + 1)));
    #[unroll]
    for i in 0..each {
        shared[(group * each + i) * stripe + lane] = sums[i];
    }
    sync_cube();
    let place = group * lanes + lane;
    if place < groups * each {
        let mut total = 0.0f32;
        #[unroll]
        for n in 0..lanes {
            total += shared[place * stripe + n];
        }
        let owner = place / each;
        let i = place % each;
        let row = (CUBE_POS_X as usize * groups + owner) * near + i % near;
        let m = top + i / near;
        if row < rows && m < count {
            out[m * rows + row] = total;
        }
    }
}

#[cube(launch_unchecked)]
fn widen(x: &Array<f32>, out: &mut Array<f32>, len: usize, width: usize, from: usize, to: usize) {
    if ABSOLUTE_POS < len {
        let row = ABSOLUTE_POS / to;
        let column = ABSOLUTE_POS % to;
        let mut number = 0.0f32;
        if column < width {
            number = x[row * from + column];
        }
        out[ABSOLUTE_POS] = number;
    }
}

#[cube(launch_unchecked)]
fn look_up(
    words: &Array<u32>,
    ids: &Array<u32>,
    out: &mut Array<f32>,
    columns: usize,
    chunks: usize,
    #[comptime] format: Format,
) {
    let chunk = ABSOLUTE_POS_X as usize;
    if chunk < chunks {
        let row = CUBE_POS_Y as usize;
        let mut numbers = Array::<f32>::new(8usize);
        unpack(words, ids[row] as usize, chunk, chunks, &mut numbers, 0usize, format);
        #[unroll]
        for n in 0..8usize {
            let column = chunk * 8 + n;
            if column < columns {
                out[row * columns + column] = numbers[n];
            }
        }
    }
}
