//! Attention over a paged cache in 16 bits: rotary positions and the write of keys and values in one pass, then scores,
//! softmax and weighted sum in another. The order inside a block of the cache is that of [`crate::kernels::Attention`].
#![allow(unsafe_code, reason = "launches without checks inside the kernel; what they touch is checked before")]
#![allow(missing_docs, reason = "CubeCL's macro makes items that cannot be documented")]
#![allow(clippy::too_many_arguments, reason = "what a kernel is given is what it is launched with")]

use cubecl::prelude::*;
use half::f16;

use super::pointwise::{add_up, largest};
use super::{Buffer, Rows};
use crate::kernels::{Attention, BLOCK_TOKENS, RotaryStyle, Span};

/// Less than any score, and yet a number.
const NOTHING: f32 = -1e30;

/// A step's rows on the device: for each its position and where its table of blocks begins, then the tables.
#[derive(Clone)]
pub(crate) struct Plan {
    words: Buffer,
    rows: usize,
    /// The largest block of the tables.
    last_block: usize,
}

impl Plan {
    /// The words of a plan: made once a step, compared by who keeps it for the next layer.
    pub(crate) fn words(spans: &[Span<'_>]) -> Vec<u32> {
        let rows: usize = spans.iter().map(|s| s.len).sum();
        let mut table = 2 * rows;
        let mut words = Vec::with_capacity(table);
        for span in spans {
            let needed = (span.position + span.len).div_ceil(BLOCK_TOKENS);
            assert!(needed <= span.blocks.len(), "a table of blocks ends before its sequence");
            for i in 0..span.len {
                words.extend([(span.position + i) as u32, table as u32]);
            }
            table += span.blocks.len();
        }
        spans.iter().for_each(|span| words.extend(span.blocks));
        words
    }

    /// Puts the words on the device.
    pub(crate) fn new<R: Runtime>(client: &ComputeClient<R>, words: &[u32], spans: &[Span<'_>]) -> Plan {
        Plan {
            words: Buffer::words(client, words),
            rows: spans.iter().map(|s| s.len).sum(),
            last_block: spans.iter().flat_map(|s| s.blocks).copied().max().unwrap_or(0) as usize,
        }
    }
}

/// Keys and values of one layer, block after block.
pub(crate) struct Cache {
    pub(crate) keys: Buffer,
    pub(crate) values: Buffer,
}

/// See [`Attention::run`]: `qkv` has a row for each of the plan's, `angles` as well.
pub(crate) fn attend<R: Runtime>(
    client: &ComputeClient<R>,
    shape: Attention,
    qkv: &Rows,
    plan: &Plan,
    angles: &Rows,
    cache: &Cache,
) -> Rows {
    let blocks = plan.last_block + 1;
    assert!(qkv.whole() && qkv.width == shape.row() && qkv.count == plan.rows, "projections of another shape");
    assert!(angles.whole() && angles.width == shape.width && angles.count == plan.rows, "angles for other rows");
    assert!(blocks * shape.block() <= cache.keys.len().min(cache.values.len()), "a block past the last");
    let queries = Rows::empty(client, qkv.count, shape.heads * shape.width);
    let out = Rows::empty(client, qkv.count, shape.heads * shape.width);
    if qkv.count == 0 {
        return out;
    }
    let heads = (shape.heads, shape.kv_heads, shape.width);
    // SAFETY: rows, positions and blocks were checked against what they index; queries and result are made for them.
    unsafe {
        place::launch_unchecked::<R>(
            client,
            CubeCount::Static((shape.heads + 2 * shape.kv_heads) as u32, qkv.count as u32, 1),
            CubeDim::new_1d(32),
            qkv.buffer.argument(),
            angles.buffer.argument(),
            plan.words.argument(),
            queries.buffer.argument(),
            cache.keys.argument(),
            cache.values.argument(),
            qkv.stride,
            angles.stride,
            shape.scale,
            heads,
            shape.style == RotaryStyle::Interleaved,
        );
        let threads = if shape.width <= 64 { 64 } else { 128 };
        look::launch_unchecked::<R>(
            client,
            CubeCount::Static(shape.heads as u32, qkv.count as u32, 1),
            CubeDim::new_1d(threads as u32),
            queries.buffer.argument(),
            plan.words.argument(),
            cache.keys.argument(),
            cache.values.argument(),
            out.buffer.argument(),
            shape.window.unwrap_or(0),
            heads,
            threads,
        );
    }
    out
}

/// Copies the content of one block to another.
pub(crate) fn copy_block<R: Runtime>(client: &ComputeClient<R>, shape: Attention, cache: &Cache, from: u32, to: u32) {
    let size = shape.block();
    for numbers in [&cache.keys, &cache.values] {
        assert!((from.max(to) as usize + 1) * size <= numbers.len(), "a block past the last");
        // SAFETY: both blocks are inside, as was checked.
        unsafe {
            copy::launch_unchecked::<R>(
                client,
                CubeCount::Static(size.div_ceil(256) as u32, 1, 1),
                CubeDim::new_1d(256),
                numbers.argument(),
                size,
                from as usize * size,
                to as usize * size,
            );
        }
    }
}

#[cube(launch_unchecked)]
fn copy(numbers: &mut Array<f16>, size: usize, from: usize, to: usize) {
    if ABSOLUTE_POS < size {
        let number = numbers[from + ABSOLUTE_POS];
        numbers[to + ABSOLUTE_POS] = number;
    }
}

/// One head of one row: a query is turned and scaled, a key turned and written to the cache, a value only written.
#[cube(launch_unchecked)]
fn place(
    qkv: &Array<f32>,
    angles: &Array<f32>,
    plan: &Array<u32>,
    queries: &mut Array<f32>,
    keys: &mut Array<f16>,
    values: &mut Array<f16>,
    stride: usize,
    angle_stride: usize,
    scale: f32,
    #[comptime] shape: (usize, usize, usize),
    #[comptime] interleaved: bool,
) {
    let heads = comptime!(shape.0);
    let kv_heads = comptime!(shape.1);
    let width = comptime!(shape.2);
    let half = comptime!(shape.2 / 2);
    let tokens = comptime!(BLOCK_TOKENS);
    let head = CUBE_POS_X as usize;
    let row = CUBE_POS_Y as usize;
    let position = plan[row * 2] as usize;
    let block = plan[plan[row * 2 + 1] as usize + position / tokens] as usize;
    let slot = position % tokens;
    let from = row * stride + head * width;
    for i in range_stepped(UNIT_POS_X as usize, half, 32usize) {
        let cos = angles[row * angle_stride + i];
        let sin = angles[row * angle_stride + half + i];
        let mut a = i;
        let mut b = i + half;
        if comptime!(interleaved) {
            a = 2 * i;
            b = 2 * i + 1;
        }
        let x = qkv[from + a];
        let y = qkv[from + b];
        if head < heads {
            let to = (row * heads + head) * width;
            queries[to + a] = (x * cos - y * sin) * scale;
            queries[to + b] = (x * sin + y * cos) * scale;
        } else if head < heads + kv_heads {
            let to = (block * kv_heads + head - heads) * width * tokens + slot;
            keys[to + a * tokens] = f16::cast_from(x * cos - y * sin);
            keys[to + b * tokens] = f16::cast_from(x * sin + y * cos);
        } else {
            let to = ((block * kv_heads + head - heads - kv_heads) * tokens + slot) * width;
            values[to + a] = f16::cast_from(x);
            values[to + b] = f16::cast_from(y);
        }
    }
}

/// One head of one row over all that it may see, as many positions at a time as there are threads: each scores one, then
/// each adds up its own numbers of the values. What came before is scaled down when a larger score appears.
#[cube(launch_unchecked)]
fn look(
    queries: &Array<f32>,
    plan: &Array<u32>,
    keys: &Array<f16>,
    values: &Array<f16>,
    out: &mut Array<f32>,
    window: usize,
    #[comptime] shape: (usize, usize, usize),
    #[comptime] threads: usize,
) {
    let heads = comptime!(shape.0);
    let kv_heads = comptime!(shape.1);
    let width = comptime!(shape.2);
    let own = comptime!(shape.2.div_ceil(threads));
    let tokens = comptime!(BLOCK_TOKENS);
    let head = CUBE_POS_X as usize;
    let row = CUBE_POS_Y as usize;
    let thread = UNIT_POS_X as usize;
    let kv_head = head * kv_heads / heads;
    let table = plan[row * 2 + 1] as usize;
    let seen = plan[row * 2] as usize + 1;
    let mut first = 0usize;
    if window > 0 && seen > window {
        first = seen - window;
    }
    let mut query = SharedMemory::<f32>::new(width);
    for i in range_stepped(thread, width, threads) {
        query[i] = queries[(row * heads + head) * width + i];
    }
    let mut weights = SharedMemory::<f32>::new(threads);
    let mut shared = SharedMemory::<f32>::new(threads);
    let mut sums = Array::<f32>::new(own);
    #[unroll]
    for k in 0..own {
        sums[k] = 0.0f32;
    }
    let mut most = f32::new(comptime!(NOTHING));
    let mut total = 0.0f32;
    sync_cube();
    let mut begin = first - first % tokens;
    while begin < seen {
        let position = begin + thread;
        let mut score = f32::new(comptime!(NOTHING));
        if position >= first && position < seen {
            let block = plan[table + position / tokens] as usize;
            let at = (block * kv_heads + kv_head) * width * tokens + position % tokens;
            score = 0.0f32;
            for i in 0..width {
                score = fma(query[i], f32::cast_from(keys[at + i * tokens]), score);
            }
        }
        let new_most = max(most, largest(&mut shared, thread, score, threads));
        let mut weight = 0.0f32;
        if position >= first && position < seen {
            weight = (score - new_most).exp();
        }
        weights[thread] = weight;
        // Its barriers also show everyone's weights to everyone.
        let sum = add_up(&mut shared, thread, weight, threads);
        let rescale = (most - new_most).exp();
        total = total * rescale + sum;
        most = new_most;
        let count = min(threads, seen - begin);
        #[unroll]
        for k in 0..own {
            let i = thread + k * threads;
            if i < width {
                let mut mixed = sums[k] * rescale;
                for j in 0..count {
                    let position = begin + j;
                    let block = plan[table + position / tokens] as usize;
                    let at = ((block * kv_heads + kv_head) * tokens + position % tokens) * width;
                    mixed = fma(weights[j], f32::cast_from(values[at + i]), mixed);
                }
                sums[k] = mixed;
            }
        }
        // The next round's weights wait until these were used.
        sync_cube();
        begin += threads;
    }
    #[unroll]
    for k in 0..own {
        let i = thread + k * threads;
        if i < width {
            out[(row * heads + head) * width + i] = sums[k] / total;
        }
    }
}
