//! Attention over a paged cache in 16 bits, in one pass from the projections: rotary positions, the write of keys and
//! values, scores, softmax, weighted sum. Each sequence of the batch finds its own keys and values by a table of blocks.
//!
//! Positions are taken in stretches of [`STRETCH`]: scores and the weighted sum of one stretch are computed for a tile of
//! queries that share keys, and stretches are merged by rescaling (the online softmax of Milakov and Gimelshein 2018, as
//! in FlashAttention). Stretches lie at fixed positions, and each query meets its numbers in the same order whatever
//! else is in its tile: what a row gets does not depend, to the bit, on chunks, batches or threads.
#![allow(unsafe_code, reason = "threads write their own heads; wider vectors are used only where they are")]

#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod halves;
mod tile;
#[cfg(target_arch = "x86_64")]
mod wide;

use std::cell::RefCell;

use half::f16;
use half::slice::HalfFloatSliceExt as _;

use super::pointwise::widest;
use super::pool::{Parts, for_each};
use tile::{Share, TILE, Tile, merge};

/// Tokens of a block of the cache.
pub const BLOCK_TOKENS: usize = 16;
/// Positions whose scores are there at once.
const STRETCH: usize = 256;

thread_local! {
    /// The engine's thread turns queries for every layer; the room is made once.
    static QUERIES: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// How a rotation pairs the numbers of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RotaryStyle {
    /// Neighbours: files of the llama architecture keep queries and keys in this order.
    Interleaved,
    /// The i-th number of the first half with that of the second.
    Halves,
}

/// Shape of one layer's attention.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Attention {
    /// Query heads; a multiple of `kv_heads`.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Numbers of a head.
    pub width: usize,
    /// Factor of a query's product with a key; usually one over the root of `width`.
    pub scale: f32,
    /// A row sees itself and this many less one before it; none: everything before it.
    pub window: Option<usize>,
    /// How positions are written into queries and keys.
    pub style: RotaryStyle,
}

/// Consecutive rows of the batch that belong to one sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span<'a> {
    /// Its blocks of the cache: the i-th holds positions from `i * BLOCK_TOKENS` on.
    pub blocks: &'a [u32],
    /// Position of its first row.
    pub position: usize,
    /// Rows.
    pub len: usize,
    /// Whether they are computed as the many rows of a prompt: where the processor has something for many rows at once,
    /// they take it, however many they are.
    pub prompt: bool,
}

/// A tile's work: all of what its queries see, or one stretch of it.
#[derive(Clone, Copy)]
struct Task<'a> {
    span: Span<'a>,
    /// Row of the batch that the span begins with.
    row: usize,
    kv_head: usize,
    /// Queries of the span that share this head's keys: row by row, those of its group in each.
    first: usize,
    count: usize,
    part: Portion,
    /// With the processor's tiles.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "x86-64 alone has tiles"))]
    tiles: bool,
}

/// How much of what its queries see is a task's.
#[derive(Clone, Copy)]
enum Portion {
    /// All of it.
    Whole,
    /// This stretch; among which queries its result waits to be merged.
    Stretch(usize, usize),
}

impl Attention {
    /// Numbers of one row of `qkv`: queries, then keys, then values.
    pub fn row(&self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.width
    }

    /// Numbers of one block of keys, and as many of values: `[kv_heads, width, BLOCK_TOKENS]` for keys, so that a
    /// query meets sixteen keys without a sum across a vector, `[kv_heads, BLOCK_TOKENS, width]` for values.
    pub fn block(&self) -> usize {
        self.kv_heads * self.width * BLOCK_TOKENS
    }

    /// Where a head of a block is.
    fn at(&self, block: u32, head: usize) -> std::ops::Range<usize> {
        let size = self.width * BLOCK_TOKENS;
        let start = block as usize * self.block() + head * size;
        start..start + size
    }

    /// `angles` holds, for each row, `width / 2` cosines and then as many sines. `keys` and `values` are the
    /// cache, block after block; the rows' own keys and values are written into it first. `out` has a row of
    /// `heads * width` for each.
    pub fn run(
        &self,
        qkv: &[f32],
        spans: &[Span<'_>],
        angles: &[f32],
        keys: &mut [f16],
        values: &mut [f16],
        out: &mut [f32],
    ) {
        let rows: usize = spans.iter().map(|s| s.len).sum();
        assert!(qkv.len() == rows * self.row() && out.len() == rows * self.heads * self.width);
        assert!(angles.len() == rows * self.width, "angles for other rows");
        QUERIES.with_borrow_mut(|queries| {
            queries.resize(queries.len().max(out.len()), 0.0);
            let queries = &mut queries[..out.len()];
            self.write(qkv, spans, angles, queries, keys, values);
            self.attend(spans, queries, keys, values, out);
        });
    }

    /// What the turned queries of `spans` see of the cache.
    fn attend(&self, spans: &[Span<'_>], queries: &[f32], keys: &[f16], values: &[f16], out: &mut [f32]) {
        let seen = |s: &Span<'_>| s.len * s.position + s.len * (s.len + 1) / 2;
        let parallel = spans.iter().map(seen).sum::<usize>() * self.heads * self.width > 40_000;
        let (tasks, waiting) = self.tasks(spans);
        let mut shares = vec![Share::NONE; waiting];
        let mut sums = vec![0.0; waiting * self.width];
        {
            let (out, shares, sums) = (Parts::new(out), Parts::new(&mut shares), Parts::new(&mut sums));
            for_each(tasks.len(), parallel, |index| {
                let task = &tasks[index];
                let finish = |query: usize, share: Share, sums: &[f32]| {
                    // SAFETY: each query has its own numbers of the result, and each is one task's.
                    share.normalise(sums, unsafe { out.part(self.place(task, query), self.width) });
                };
                // SAFETY: those queries are one task's.
                let waiting = |place: usize| unsafe {
                    (shares.part(place, task.count), sums.part(place * self.width, task.count * self.width))
                };
                match task.part {
                    #[cfg(target_arch = "x86_64")]
                    Portion::Whole if task.tiles => amx::whole(self, task, queries, keys, values, finish),
                    #[cfg(target_arch = "x86_64")]
                    Portion::Stretch(stretch, place) if task.tiles => {
                        let (shares, sums) = waiting(place);
                        amx::stretch(self, task, stretch, queries, keys, values, shares, sums);
                    }
                    Portion::Stretch(stretch, place) => {
                        let (shares, sums) = waiting(place);
                        let partial = self.tile(task, queries, keys, values).stretch(stretch, sums);
                        shares.copy_from_slice(&partial[..task.count]);
                    }
                    Portion::Whole => self.tile(task, queries, keys, values).whole(|total, sums| {
                        let all = total.into_iter().zip(sums.chunks_exact(self.width)).take(task.count);
                        all.enumerate().for_each(|(query, (share, sums))| finish(query, share, sums));
                    }),
                }
            });
        }
        self.merge(&tasks, &mut shares, &mut sums, out);
    }

    /// Turns queries and keys to their positions; keys and values go to the cache.
    fn write(
        &self,
        qkv: &[f32],
        spans: &[Span<'_>],
        angles: &[f32],
        queries: &mut [f32],
        keys: &mut [f16],
        values: &mut [f16],
    ) {
        let width = self.width;
        let rows: Vec<(u32, usize)> = spans
            .iter()
            .flat_map(|s| (s.position..s.position + s.len).map(|p| (s.blocks[p / BLOCK_TOKENS], p)))
            .collect();
        let (queries, keys, values) = (Parts::new(queries), Parts::new(keys), Parts::new(values));
        for_each(self.heads + 2 * self.kv_heads, rows.len() >= 8, |head| {
            let (mut turned, mut halves) = (vec![0.0; width], vec![f16::ZERO; width]);
            for (row, &(block, position)) in rows.iter().enumerate() {
                let from = &qkv[row * self.row() + head * width..][..width];
                let angles = &angles[row * width..(row + 1) * width];
                let slot = position % BLOCK_TOKENS;
                if head < self.heads {
                    // SAFETY: each row and head has its own numbers.
                    let to = unsafe { queries.part((row * self.heads + head) * width, width) };
                    rotate(self.style, from, angles, self.scale, to);
                    continue;
                }
                let of = self.at(block, (head - self.heads) % self.kv_heads);
                if head < self.heads + self.kv_heads {
                    rotate(self.style, from, angles, 1.0, &mut turned);
                    halves.convert_from_f32_slice(&turned);
                    // SAFETY: each head of each block is one thread's: no two spans write to the same block.
                    let to = unsafe { keys.part(of.start, of.len()) };
                    to[slot..].iter_mut().step_by(BLOCK_TOKENS).zip(&halves).for_each(|(to, from)| *to = *from);
                } else {
                    // SAFETY: likewise.
                    let to = unsafe { values.part(of.start + slot * width, width) };
                    to.convert_from_f32_slice(from);
                }
            }
        });
    }

    /// Cuts the work up. A span of few queries is cut by stretches, so that one long sequence keeps every thread busy;
    /// their results wait to be merged. Returns also for how many queries.
    fn tasks<'a>(&self, spans: &[Span<'a>]) -> (Vec<Task<'a>>, usize) {
        let group = self.heads / self.kv_heads;
        let (most, mut tasks, mut row, mut waiting) = (tile::queries(), Vec::new(), 0, 0);
        for &span in spans {
            let queries = span.len * group;
            #[cfg(target_arch = "x86_64")]
            let tiles = span.prompt && amx::takes(self.width);
            #[cfg(not(target_arch = "x86_64"))]
            let tiles = false;
            #[cfg(target_arch = "x86_64")]
            let most = if tiles { amx::QUERIES } else { most };
            for kv_head in 0..self.kv_heads {
                if queries <= most {
                    for stretch in self.stretches(span.position, span.position + span.len) {
                        let part = Portion::Stretch(stretch, waiting);
                        tasks.push(Task { span, row, kv_head, first: 0, count: queries, part, tiles });
                        waiting += queries;
                    }
                    continue;
                }
                for first in (0..queries).step_by(most) {
                    let count = (queries - first).min(most);
                    tasks.push(Task { span, row, kv_head, first, count, part: Portion::Whole, tiles });
                }
            }
            row += span.len;
        }
        (tasks, waiting)
    }

    /// The stretches that rows from `first` to before `end` look at.
    fn stretches(&self, first: usize, end: usize) -> std::ops::Range<usize> {
        self.visible(first).start / STRETCH..end.div_ceil(STRETCH)
    }

    /// The positions that a row at this position looks at.
    fn visible(&self, position: usize) -> std::ops::Range<usize> {
        self.window.map_or(0, |window| (position + 1).saturating_sub(window))..position + 1
    }

    /// Of those, the ones in this stretch, from its beginning on.
    fn seen(&self, position: usize, stretch: usize) -> std::ops::Range<usize> {
        let (start, visible) = (stretch * STRETCH, self.visible(position));
        visible.start.clamp(start, start + STRETCH) - start..visible.end.clamp(start, start + STRETCH) - start
    }

    /// The row of the span and the head of a task's query.
    fn query(&self, task: &Task<'_>, query: usize) -> (usize, usize) {
        let group = self.heads / self.kv_heads;
        ((task.first + query) / group, task.kv_head * group + (task.first + query) % group)
    }

    /// Where the result of a task's query is.
    fn place(&self, task: &Task<'_>, query: usize) -> usize {
        let (row, head) = self.query(task, query);
        ((task.row + row) * self.heads + head) * self.width
    }

    fn tile<'a>(&'a self, task: &Task<'a>, queries: &'a [f32], keys: &'a [f16], values: &'a [f16]) -> Tile<'a> {
        let mut tile = Tile {
            shape: self,
            blocks: task.span.blocks,
            kv_head: task.kv_head,
            keys,
            values,
            count: task.count,
            queries: [&[]; TILE],
            positions: [0; TILE],
        };
        for query in 0..task.count {
            let at = self.place(task, query);
            tile.queries[query] = &queries[at..at + self.width];
            tile.positions[query] = task.span.position + self.query(task, query).0;
        }
        tile
    }

    /// Merges what the stretches of short spans gave, in their order.
    fn merge(&self, tasks: &[Task<'_>], shares: &mut [Share], sums: &mut [f32], out: &mut [f32]) {
        let same = |a: &Task<'_>, b: &Task<'_>| (a.row, a.kv_head) == (b.row, b.kv_head);
        for stretches in tasks.chunk_by(same) {
            let Some(Task { count, part: Portion::Stretch(_, place), .. }) = stretches.first() else { continue };
            let size = count * self.width;
            let (shares, others) = shares[*place..][..stretches.len() * count].split_at_mut(*count);
            let (sums, parts) = sums[place * self.width..][..stretches.len() * size].split_at_mut(size);
            for (others, part) in others.chunks_exact(*count).zip(parts.chunks_exact(size)) {
                merge(shares, sums, others, part, self.width);
            }
            for (query, (share, from)) in shares.iter().zip(sums.chunks_exact(self.width)).enumerate() {
                let to = self.place(&stretches[0], query);
                share.normalise(from, &mut out[to..to + self.width]);
            }
        }
    }
}

widest! {
    /// One head turned by its row's angles, times `scale`.
    fn rotate(style: RotaryStyle, from: &[f32], angles: &[f32], scale: f32, to: &mut [f32]) {
        let (cos, sin) = angles.split_at(angles.len() / 2);
        let turn = |a: f32, b: f32, cos: f32, sin: f32| ((a * cos - b * sin) * scale, (a * sin + b * cos) * scale);
        let angles = cos.iter().zip(sin);
        match style {
            RotaryStyle::Interleaved => {
                for ((from, to), (cos, sin)) in from.chunks_exact(2).zip(to.chunks_exact_mut(2)).zip(angles) {
                    (to[0], to[1]) = turn(from[0], from[1], *cos, *sin);
                }
            }
            RotaryStyle::Halves => {
                let ((a, b), (first, second)) = (from.split_at(cos.len()), to.split_at_mut(cos.len()));
                for (((a, b), (first, second)), (cos, sin)) in
                    a.iter().zip(b).zip(first.iter_mut().zip(second)).zip(angles)
                {
                    (*first, *second) = turn(*a, *b, *cos, *sin);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
