//! Attention of a prompt's rows with AMX, whose tiles multiply 16 rows by 32 numbers by 16 columns of BF16 at once.
//!
//! A number of 32 bits is taken as two of BF16, its upper half and what that leaves: sixteen bits of it, of one that is
//! kept in 16 bits all. A product is `high * high + high * low + low * high`, summed in 32 bits; what is left away, low
//! times low, is below 2^-16 of it. The keys and values of a stretch become tiles once for [`QUERIES`] queries.

use std::arch::x86_64::*;
use std::cell::RefCell;
use std::sync::OnceLock;

use half::f16;

use super::halves::{halve, multiply, place};
use super::tile::Share;
use super::{Attention, BLOCK_TOKENS, Portion, RotaryStyle, STRETCH, Span, Task};
use crate::device::Cpu;
use crate::kernels::amx::{ROWS, Tile, ZERO, configure};

/// Queries of a task, at most.
pub(super) const QUERIES: usize = 128;
/// Queries that meet keys and values at a time, and columns that they meet: two tiles.
const PAIR: usize = 2 * ROWS;
/// Numbers of a tile's row: what a product sums up.
const STEP: usize = 32;

/// What a thread needs for a task; of no meaning between two. Every tile is two: the upper halves and what they leave.
#[derive(Default)]
struct Room {
    /// `[pair of blocks][step][2 blocks][2]`.
    keys: Vec<Tile>,
    /// `[pair of tiles of columns][step][2 tiles][2]`.
    values: Vec<Tile>,
    /// Of a pair of tiles of queries: `[step][2 tiles][2]`.
    queries: Vec<Tile>,
    /// Scores of such a pair.
    scores: Vec<[f32; STRETCH]>,
    /// Their weights, as `queries`.
    weights: Vec<Tile>,
    /// Weighted sums of a pair over one stretch.
    part: Vec<f32>,
}

thread_local! {
    static ROOM: RefCell<Room> = RefCell::new(Room::default());
    /// Weighted sums of all queries of a whole task.
    static SUMS: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// Whether attention with heads of this width is computed here, on a processor with AMX: compared with the narrower form
/// once, before it is used.
pub(super) fn takes(width: usize) -> bool {
    static CHECKED: OnceLock<bool> = OnceLock::new();
    Cpu::detect() == Cpu::Amx && width.is_multiple_of(STEP) && *CHECKED.get_or_init(|| {
        let difference = difference();
        if difference >= 1e-3 {
            tracing::warn!(
                difference,
                "attention with AMX disagrees with plain code on this processor and is not used; please report the processor's model"
            );
        }
        difference < 1e-3
    })
}

/// Norm of the difference from what [`super::wide`] gives over its norm, on a small matter; 1 where that is no number.
fn difference() -> f64 {
    const TOKENS: usize = STRETCH + 20;
    let a = Attention { heads: 2, kv_heads: 1, width: STEP, scale: 0.2, window: None, style: RotaryStyle::Halves };
    let numbers = |count: usize| (0..count).map(|i| (i as f32 * 0.77).sin());
    let cache = || numbers(TOKENS.next_multiple_of(BLOCK_TOKENS) * STEP).map(f16::from_f32).collect::<Vec<_>>();
    let (keys, values, queries) = (cache(), cache(), numbers(TOKENS * 2 * STEP).collect::<Vec<_>>());
    let blocks: Vec<u32> = (0..TOKENS.div_ceil(BLOCK_TOKENS) as u32).collect();
    let span = Span { blocks: &blocks, position: 0, len: TOKENS, prompt: true };
    // The last queries: they see more than one stretch.
    let task = Task { span, row: 0, kv_head: 0, first: 2 * TOKENS - 10, count: 10, part: Portion::Whole, tiles: true };
    let (mut off, mut norm) = (0.0, 0.0);
    let mut found = vec![vec![f32::NAN; STEP]; task.count];
    whole(&a, &task, &queries, &keys, &values, |query, share, sums| share.normalise(sums, &mut found[query]));
    a.tile(&task, &queries, &keys, &values).whole(|total, sums| {
        let mut right = [0.0; STEP];
        for ((share, sums), found) in total.into_iter().zip(sums.chunks_exact(STEP)).zip(&found) {
            share.normalise(sums, &mut right);
            for (found, right) in found.iter().zip(right) {
                off += f64::from(found - right).powi(2);
                norm += f64::from(right).powi(2);
            }
        }
    });
    let difference = (off / norm).sqrt();
    if difference.is_finite() { difference } else { 1.0 }
}

/// Over everything that the task's queries see; `finish` gets each query's weighted sum of values. The processor has AMX.
pub(super) fn whole(
    a: &Attention,
    task: &Task<'_>,
    queries: &[f32],
    keys: &[f16],
    values: &[f16],
    mut finish: impl FnMut(usize, Share, &[f32]),
) {
    SUMS.with_borrow_mut(|sums| {
        sums.clear();
        sums.resize(task.count * a.width, 0.0);
        let mut shares = [Share::NONE; QUERIES];
        let shares = &mut shares[..task.count];
        let position = |query: usize| task.span.position + a.query(task, query).0;
        for at in a.stretches(position(0), position(task.count - 1) + 1) {
            stretch(a, task, at, queries, keys, values, shares, sums);
        }
        let all = shares.iter().zip(sums.chunks_exact(a.width));
        all.enumerate().for_each(|(query, (share, sums))| finish(query, *share, sums));
    });
}

/// Over one stretch, merged into what is there already. The processor has AMX.
#[expect(clippy::too_many_arguments, reason = "two callers, and a struct of them would be made for each call")]
pub(super) fn stretch(
    a: &Attention,
    task: &Task<'_>,
    stretch: usize,
    queries: &[f32],
    keys: &[f16],
    values: &[f16],
    shares: &mut [Share],
    sums: &mut [f32],
) {
    let seen = |query: usize| a.seen(task.span.position + a.query(task, query).0, stretch);
    let all = seen(0).start..seen(task.count - 1).end;
    if all.is_empty() {
        return;
    }
    ROOM.with_borrow_mut(|room| {
        room.resize(a.width);
        let _configured = configure();
        let both = shares.chunks_mut(PAIR).zip(sums.chunks_mut(PAIR * a.width)).enumerate();
        // SAFETY: a processor with AMX has AVX-512.
        unsafe {
            room.unpack(a, task, &task.span.blocks[stretch * STRETCH / BLOCK_TOKENS..], all, keys, values);
            for (pair, (shares, sums)) in both {
                let first = pair * PAIR;
                let query = |query: usize| &queries[a.place(task, first + query)..][..a.width];
                room.pair(a.width, &query, &|query| seen(first + query), shares, sums);
            }
        }
    });
}

impl Room {
    fn resize(&mut self, width: usize) {
        let tiles = STRETCH / STEP * (width / STEP) * 4;
        self.keys.resize(tiles, ZERO);
        self.values.resize(tiles, ZERO);
        self.queries.resize(width / STEP * 4, ZERO);
        self.weights.resize(STRETCH / STEP * 4, ZERO);
        self.scores.resize(PAIR, [0.0; STRETCH]);
        self.part.resize(PAIR * width, 0.0);
    }

    /// Keys and values of those positions of a stretch become tiles, and zeros around them to whole steps.
    ///
    /// # Safety
    /// The processor has AVX-512.
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn unpack(
        &mut self,
        a: &Attention,
        task: &Task<'_>,
        blocks: &[u32],
        seen: std::ops::Range<usize>,
        keys: &[f16],
        values: &[f16],
    ) {
        let (steps, nothing) = (a.width / STEP, [f16::ZERO; BLOCK_TOKENS]);
        // Whole steps, of two blocks: what nobody looks at may not even be there, and must not bring in what is no number.
        for block in seen.start / STEP * 2..seen.end.div_ceil(STEP) * 2 {
            let first = block * BLOCK_TOKENS;
            let is_seen = seen.start < first + BLOCK_TOKENS && first < seen.end;
            let of = blocks.get(block).filter(|_| is_seen).map_or(0..0, |block| a.at(*block, task.kv_head));
            let (keys, values) = (&keys[of.clone()], &values[of]);
            for (pair, numbers) in keys.chunks_exact(2 * BLOCK_TOKENS).enumerate() {
                let (step, row) = (pair / ROWS, pair % ROWS);
                let tile = ((block / 2 * steps + step) * 2 + block % 2) * 2;
                // SAFETY: two rows of sixteen.
                unsafe {
                    place(numbers.as_ptr(), numbers.as_ptr().add(BLOCK_TOKENS), row, &mut self.keys[tile..tile + 2])
                };
            }
            for slot in (0..BLOCK_TOKENS).step_by(2) {
                let at = first + slot;
                for tile_of in 0..a.width / ROWS {
                    let number = |slot: usize| {
                        if seen.contains(&(first + slot)) {
                            &values[slot * a.width + tile_of * ROWS..][..ROWS]
                        } else {
                            &nothing
                        }
                        .as_ptr()
                    };
                    let tile = ((tile_of / 2 * (STRETCH / STEP) + at / STEP) * 2 + tile_of % 2) * 2;
                    // SAFETY: sixteen numbers each.
                    unsafe { place(number(slot), number(slot + 1), at % STEP / 2, &mut self.values[tile..tile + 2]) };
                }
            }
        }
    }

    /// Up to two tiles of queries over the stretch that is unpacked.
    ///
    /// # Safety
    /// The processor has AMX, its tiles are configured, and what these queries see is unpacked.
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn pair<'a>(
        &mut self,
        width: usize,
        query: &dyn Fn(usize) -> &'a [f32],
        seen: &dyn Fn(usize) -> std::ops::Range<usize>,
        shares: &mut [Share],
        sums: &mut [f32],
    ) {
        let count = shares.len();
        let all = seen(0).start..seen(count - 1).end;
        if all.is_empty() {
            return;
        }
        let (steps, pairs) = (width / STEP, all.start / STEP..all.end.div_ceil(STEP));
        // Rows that are no query's keep what they had: nobody reads what becomes of it.
        for row in 0..count {
            for (step, numbers) in query(row).chunks_exact(STEP).enumerate() {
                // SAFETY: a step has 32 numbers.
                let numbers = unsafe { [_mm512_loadu_ps(numbers.as_ptr()), _mm512_loadu_ps(numbers.as_ptr().add(16))] };
                halve(numbers, row, step, &mut self.queries);
            }
        }
        for pair in pairs.clone() {
            let keys = &self.keys[pair * steps * 4..(pair + 1) * steps * 4];
            // SAFETY: whole steps; the scores have rows of a stretch, and `pair` is inside it.
            unsafe { multiply(&self.queries, keys, self.scores.as_mut_ptr().cast::<f32>().add(pair * PAIR), STRETCH) };
        }
        let mut parts = [Share::NONE; PAIR];
        for (row, part) in parts.iter_mut().enumerate().take(count) {
            *part = weigh(&self.scores[row], seen(row), row, pairs.clone(), &mut self.weights);
        }
        let weights = &self.weights[pairs.start * 4..pairs.end * 4];
        for column in 0..width / PAIR {
            let step = |step: usize| (column * (STRETCH / STEP) + step) * 4;
            let values = &self.values[step(pairs.start)..step(pairs.end)];
            // SAFETY: whole steps; `part` has rows of `width`, and `column` is inside them.
            unsafe { multiply(weights, values, self.part.as_mut_ptr().add(column * PAIR), width) };
        }
        let sums = sums.chunks_exact_mut(width).zip(self.part.chunks_exact(width));
        for ((share, part), (sums, from)) in shares.iter_mut().zip(parts).zip(sums) {
            share.merge(sums, part, from);
        }
    }
}

/// Scores of those steps to weights, as a row of tiles: e to the power of each less the largest; zero where the query does
/// not look.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
fn weigh(
    scores: &[f32; STRETCH],
    seen: std::ops::Range<usize>,
    row: usize,
    steps: std::ops::Range<usize>,
    to: &mut [Tile],
) -> Share {
    let below = |end: usize, at: usize| ((1u32 << end.saturating_sub(at).min(16)) - 1) as u16;
    let mask = |at: usize| below(seen.end, at) & !below(seen.start, at);
    let least = _mm512_set1_ps(f32::NEG_INFINITY);
    // SAFETY: `at` is a vector's beginning inside of the scores.
    let load = |at: usize| unsafe { _mm512_mask_loadu_ps(least, mask(at), scores[at..at + 16].as_ptr()) };
    let mut most = least;
    for at in (steps.start * STEP..steps.end * STEP).step_by(16) {
        most = _mm512_max_ps(most, load(at));
    }
    let largest = _mm512_reduce_max_ps(most);
    let (most, mut sum) = (_mm512_set1_ps(largest), _mm512_setzero_ps());
    for step in steps {
        // Not by `map`: what is compiled for all processors takes no code for this one in.
        let weight = |at: usize| _mm512_maskz_mov_ps(mask(at), exp(_mm512_sub_ps(load(at), most)));
        let weights = [weight(step * STEP), weight(step * STEP + 16)];
        sum = _mm512_add_ps(sum, _mm512_add_ps(weights[0], weights[1]));
        halve(weights, row, step, to);
    }
    Share { largest, weight: _mm512_reduce_add_ps(sum) }
}

/// e^x for x up to 0: 2^n times a polynomial (Cephes' `exp2f`). Within 2 units in the last place; zero where that is too
/// small to be told.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
fn exp(x: __m512) -> __m512 {
    let x = _mm512_mul_ps(x, _mm512_set1_ps(std::f32::consts::LOG2_E));
    let n = _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(x);
    let r = _mm512_sub_ps(x, n);
    let mut p = _mm512_set1_ps(1.535_336_2e-4);
    for c in [1.339_887_4e-3, 9.618_437e-3, 5.550_332_5e-2, 0.240_226_48, std::f32::consts::LN_2, 1.0] {
        p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(c));
    }
    _mm512_scalef_ps(p, n)
}
