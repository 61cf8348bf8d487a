//! A few queries that share their keys, over one stretch of positions or over all of them.

use std::cell::RefCell;
use std::ops::Range;

use half::f16;

use super::{Attention, BLOCK_TOKENS, STRETCH};
#[cfg(target_arch = "x86_64")]
use crate::device::Cpu;
use crate::kernels::distribution::exp;

/// Queries of a tile, at most.
pub(super) const TILE: usize = 12;

/// Queries of a tile on this processor: as many as its registers hold sums of.
pub(super) fn queries() -> usize {
    #[cfg(target_arch = "x86_64")]
    return super::wide::most(Cpu::detect());
    #[cfg(not(target_arch = "x86_64"))]
    6
}

/// The queries and what they look at.
pub(super) struct Tile<'a> {
    pub(super) shape: &'a Attention,
    pub(super) blocks: &'a [u32],
    pub(super) kv_head: usize,
    pub(super) keys: &'a [f16],
    pub(super) values: &'a [f16],
    /// How many of the places below are taken.
    pub(super) count: usize,
    /// Turned and scaled.
    pub(super) queries: [&'a [f32]; TILE],
    /// Where each query stands; none stands before the one before it.
    pub(super) positions: [usize; TILE],
}

/// What one or several stretches have given one query so far, beside the weighted sum of values.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    /// The largest score; minus infinity where nothing was seen.
    pub(super) largest: f32,
    /// Sum of the weights, which are relative to the largest score's.
    pub(super) weight: f32,
}

/// Those of a tile's queries.
pub(super) type Partial = [Share; TILE];

/// Scores, then weights, of a stretch.
pub(super) type Scores = [[f32; STRETCH]; TILE];

/// What a thread needs for its tile; of no meaning between two.
pub(super) struct Room {
    scores: Scores,
    /// Sums of a whole task and of one stretch.
    sums: Vec<f32>,
}

thread_local! {
    /// Made once: clearing it for every tile would take longer than some tiles do.
    static ROOM: RefCell<Box<Room>> = RefCell::new(Box::new(Room { scores: [[0.0; STRETCH]; TILE], sums: Vec::new() }));
}

impl Share {
    pub(super) const NONE: Share = Share { largest: f32::NEG_INFINITY, weight: 0.0 };

    /// Takes a later stretch in. `sums` and `part` are the two weighted sums.
    #[inline(always)]
    pub(super) fn merge(&mut self, sums: &mut [f32], other: Share, part: &[f32]) {
        if other.weight == 0.0 {
            return;
        }
        let largest = self.largest.max(other.largest);
        // Where nothing was seen before, the factor is e to less than -87: as good as zero, of sums that are zero.
        let own = exp((self.largest - largest).max(-87.0));
        let others = exp((other.largest - largest).max(-87.0));
        self.largest = largest;
        self.weight = self.weight * own + other.weight * others;
        sums.iter_mut().zip(part).for_each(|(sum, part)| *sum = *sum * own + part * others);
    }

    /// The weighted mean.
    #[inline(always)]
    pub(super) fn normalise(self, sums: &[f32], out: &mut [f32]) {
        let factor = 1.0 / self.weight;
        out.iter_mut().zip(sums).for_each(|(out, sum)| *out = sum * factor);
    }
}

/// [`Share::merge`] for a tile's queries: `sums` and `part` have `width` numbers for each.
pub(super) fn merge(total: &mut [Share], sums: &mut [f32], others: &[Share], part: &[f32], width: usize) {
    let rows = sums.chunks_exact_mut(width).zip(part.chunks_exact(width));
    total.iter_mut().zip(others).zip(rows).for_each(|((total, other), (sums, part))| total.merge(sums, *other, part));
}

impl Tile<'_> {
    /// Over everything that the queries see; `then` gets the weighted sums of values.
    pub(super) fn whole(&self, then: impl FnOnce(Partial, &[f32])) {
        ROOM.with_borrow_mut(|room| {
            let Room { scores, sums } = &mut **room;
            sums.resize(2 * TILE * self.shape.width, 0.0);
            let (sums, part) = sums.split_at_mut(TILE * self.shape.width);
            then(self.stretches(scores, sums, part), sums);
        });
    }

    /// Over one stretch. `sums` has room for the tile's queries.
    pub(super) fn stretch(&self, stretch: usize, sums: &mut [f32]) -> Partial {
        ROOM.with_borrow_mut(|room| self.partial(stretch, &mut room.scores, sums))
    }

    fn stretches(&self, scores: &mut Scores, sums: &mut [f32], part: &mut [f32]) -> Partial {
        let mut total = [Share::NONE; TILE];
        let (first, end) = (self.positions[0], self.positions[self.count - 1] + 1);
        for (turn, stretch) in self.shape.stretches(first, end).enumerate() {
            if turn == 0 {
                total = self.partial(stretch, scores, sums);
            } else {
                let partial = self.partial(stretch, scores, part);
                merge(&mut total[..self.count], sums, &partial, part, self.shape.width);
            }
        }
        total
    }

    /// Over one stretch. `sums` has room for the tile's queries; what was in it and in `scores` does not matter.
    fn partial(&self, stretch: usize, scores: &mut Scores, sums: &mut [f32]) -> Partial {
        let start = stretch * STRETCH;
        let seen = |query: usize| self.shape.seen(self.positions[query], stretch);
        let (from, to) = (seen(0).start / BLOCK_TOKENS, seen(self.count - 1).end);
        let blocks = &self.blocks[start / BLOCK_TOKENS..][from..to.div_ceil(BLOCK_TOKENS)];
        #[cfg(target_arch = "x86_64")]
        if Cpu::detect().has_avx2() && self.shape.width.is_multiple_of(16) {
            return super::wide::partial(self, blocks, from * BLOCK_TOKENS, to, &seen, scores, sums);
        }
        for (index, block) in blocks.iter().enumerate() {
            let keys = &self.keys[self.shape.at(*block, self.kv_head)];
            let at = (from + index) * BLOCK_TOKENS;
            for (query, scores) in self.queries[..self.count].iter().zip(scores.iter_mut()) {
                let scores = &mut scores[at..at + BLOCK_TOKENS];
                scores.fill(0.0);
                for (q, keys) in query.iter().zip(keys.chunks_exact(BLOCK_TOKENS)) {
                    scores.iter_mut().zip(keys).for_each(|(score, key)| *score += q * key.to_f32());
                }
            }
        }
        let partial = weigh(self.count, &seen, scores);
        sums.fill(0.0);
        let width = self.shape.width;
        for (index, block) in blocks.iter().enumerate() {
            let at = (from + index) * BLOCK_TOKENS;
            let values = &self.values[self.shape.at(*block, self.kv_head)];
            for (slot, value) in values.chunks_exact(width).enumerate().take(to - at.min(to)) {
                for (scores, sums) in scores[..self.count].iter().zip(sums.chunks_exact_mut(width)) {
                    let weight = scores[at + slot];
                    sums.iter_mut().zip(value).for_each(|(sum, v)| *sum += weight * v.to_f32());
                }
            }
        }
        partial
    }
}

/// Scores of a tile's queries to weights, query by query.
#[inline(always)]
pub(super) fn weigh(count: usize, seen: &dyn Fn(usize) -> Range<usize>, scores: &mut Scores) -> Partial {
    let mut partial = [Share::NONE; TILE];
    for (query, (share, scores)) in partial.iter_mut().zip(scores).enumerate().take(count) {
        *share = weights(seen(query), scores);
    }
    partial
}

/// Scores to weights: e to the power of each less the largest; zero where the query does not look.
#[inline(always)]
fn weights(seen: Range<usize>, scores: &mut [f32; STRETCH]) -> Share {
    const LANES: usize = 16;
    if seen.is_empty() {
        scores.fill(0.0);
        return Share::NONE;
    }
    scores[..seen.start].fill(f32::NEG_INFINITY);
    scores[seen.end..].fill(f32::NEG_INFINITY);
    // Whole vectors: what is outside was just filled.
    let (low, high) = (seen.start / LANES * LANES, seen.end.next_multiple_of(LANES));
    let mut lanes = [f32::NEG_INFINITY; LANES];
    for chunk in scores[low..high].chunks_exact(LANES) {
        lanes.iter_mut().zip(chunk).for_each(|(lane, x)| *lane = if *x > *lane { *x } else { *lane });
    }
    let largest = lanes.into_iter().fold(f32::NEG_INFINITY, f32::max);
    for x in &mut scores[low..high] {
        *x = exp((*x - largest).max(-87.0));
    }
    scores[..seen.start].fill(0.0);
    scores[seen.end..].fill(0.0);
    let mut lanes = [0.0; LANES];
    for chunk in scores[low..high].chunks_exact(LANES) {
        lanes.iter_mut().zip(chunk).for_each(|(lane, x)| *lane += x);
    }
    Share { largest, weight: lanes.into_iter().sum() }
}
