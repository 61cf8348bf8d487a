//! Attention of a prompt's rows with AMX, whose tiles multiply 16 rows by 32 numbers by 16 columns of BF16 at once.
//!
//! A number of 32 bits is taken as two of BF16, its upper half and what that leaves: sixteen bits of it, of one that is
//! kept in 16 bits all. A product is `high * high + high * low + low * high`, summed in 32 bits; what is left away, low
//! times low, is below 2^-16 of it. The keys and values of a stretch become tiles once for [`QUERIES`] queries.

use std::arch::asm;
use std::arch::x86_64::*;
use std::cell::RefCell;
use std::sync::OnceLock;

use half::f16;

use super::tile::{Share, weights};
use super::{Attention, BLOCK_TOKENS, Portion, RotaryStyle, STRETCH, Span, Task};
use crate::device::Cpu;
use crate::kernels::amx::{ROWS, TILE, Tile, ZERO, configure};

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
    /// Scores, then weights, of such a pair, and those weights as `queries`.
    scores: Vec<[f32; STRETCH]>,
    weights: Vec<Tile>,
    /// Weighted sums of all queries, and those of a pair over one stretch.
    sums: Vec<f32>,
    part: Vec<f32>,
}

thread_local! {
    static ROOM: RefCell<Room> = RefCell::new(Room::default());
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
    let task = Task { span, row: 0, kv_head: 0, first: 2 * TOKENS - 10, count: 10, part: Portion::Tiles };
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
    ROOM.with_borrow_mut(|room| {
        room.sums.clear();
        room.sums.resize(task.count * a.width, 0.0);
        let mut shares = [Share::NONE; QUERIES];
        let position = |query: usize| task.span.position + a.query(task, query).0;
        let _configured = configure();
        for stretch in a.stretches(position(0), position(task.count - 1) + 1) {
            let start = stretch * STRETCH;
            let seen = |query: usize| {
                let visible = a.visible(position(query));
                visible.start.clamp(start, start + STRETCH) - start..visible.end.clamp(start, start + STRETCH) - start
            };
            let all = seen(0).start..seen(task.count - 1).end;
            room.resize(a.width);
            // SAFETY: a processor with AMX has AVX-512.
            unsafe {
                room.unpack(a, task, &task.span.blocks[start / BLOCK_TOKENS..], all, keys, values);
                for first in (0..task.count).step_by(PAIR) {
                    let count = PAIR.min(task.count - first);
                    let query = |query: usize| &queries[a.place(task, first + query)..][..a.width];
                    let shares = &mut shares[first..first + count];
                    room.pair(a.width, first, count, &query, &|query| seen(first + query), shares);
                }
            }
        }
        let all = shares.iter().zip(room.sums.chunks_exact(a.width)).take(task.count);
        all.enumerate().for_each(|(query, (share, sums))| finish(query, *share, sums));
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
        for block in seen.start / BLOCK_TOKENS..seen.end.div_ceil(BLOCK_TOKENS) {
            let of = a.at(blocks[block], task.kv_head);
            let (keys, values) = (&keys[of.clone()], &values[of]);
            for (pair, numbers) in keys.chunks_exact(2 * BLOCK_TOKENS).enumerate() {
                let (step, row) = (pair / ROWS, pair % ROWS);
                let tile = ((block / 2 * steps + step) * 2 + block % 2) * 2;
                // SAFETY: two rows of sixteen.
                unsafe { place(numbers.as_ptr(), numbers.as_ptr().add(BLOCK_TOKENS), row, &mut self.keys[tile..tile + 2]) };
            }
            for slot in (0..BLOCK_TOKENS).step_by(2) {
                let at = block * BLOCK_TOKENS + slot;
                for tile_of in 0..a.width / ROWS {
                    let number = |slot: usize| {
                        let is_seen = seen.contains(&(block * BLOCK_TOKENS + slot));
                        if is_seen { &values[slot * a.width + tile_of * ROWS..][..ROWS] } else { &nothing }.as_ptr()
                    };
                    let tile = ((tile_of / 2 * (STRETCH / STEP) + at / STEP) * 2 + tile_of % 2) * 2;
                    // SAFETY: sixteen numbers each.
                    unsafe { place(number(slot), number(slot + 1), at % STEP / 2, &mut self.values[tile..tile + 2]) };
                }
            }
        }
        // A step is two blocks: one that nobody looks at must not bring in what is no number.
        for block in [(seen.start / BLOCK_TOKENS).wrapping_sub(1), seen.end.div_ceil(BLOCK_TOKENS)] {
            let step = block / 2;
            if block < STRETCH / BLOCK_TOKENS && (step == seen.start / STEP || step == (seen.end - 1) / STEP) {
                let half = block % 2 * TILE / 2..(block % 2 + 1) * TILE / 2;
                for column in 0..a.width / PAIR {
                    let tile = (column * (STRETCH / STEP) + step) * 4;
                    self.values[tile..tile + 4].iter_mut().for_each(|tile| tile.0[half.clone()].fill(0));
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
        first: usize,
        count: usize,
        query: &dyn Fn(usize) -> &'a [f32],
        seen: &dyn Fn(usize) -> std::ops::Range<usize>,
        shares: &mut [Share],
    ) {
        let all = seen(0).start..seen(count - 1).end;
        if all.is_empty() {
            return;
        }
        let (steps, pairs) = (width / STEP, all.start / STEP..all.end.div_ceil(STEP));
        // Rows that are no query's keep what they had: nobody reads what becomes of it.
        for row in 0..count {
            halve(query(row), row, 0, &mut self.queries);
        }
        for pair in pairs.clone() {
            let keys = &self.keys[pair * steps * 4..(pair + 1) * steps * 4];
            // SAFETY: whole steps; the scores have rows of a stretch, and `pair` is inside it.
            unsafe { multiply(&self.queries, keys, self.scores.as_mut_ptr().cast::<f32>().add(pair * PAIR), STRETCH) };
        }
        let mut parts = [Share::NONE; PAIR];
        for (row, part) in parts.iter_mut().enumerate().take(count) {
            *part = weights(seen(row), &mut self.scores[row]);
            halve(&self.scores[row][pairs.start * STEP..pairs.end * STEP], row, pairs.start, &mut self.weights);
        }
        let weights = &self.weights[pairs.start * 4..pairs.end * 4];
        for column in 0..width / PAIR {
            let step = |step: usize| (column * (STRETCH / STEP) + step) * 4;
            let values = &self.values[step(pairs.start)..step(pairs.end)];
            // SAFETY: whole steps; `part` has rows of `width`, and `column` is inside them.
            unsafe { multiply(weights, values, self.part.as_mut_ptr().add(column * PAIR), width) };
        }
        let sums = self.sums[first * width..].chunks_exact_mut(width).zip(self.part.chunks_exact(width));
        for ((share, part), (sums, from)) in shares.iter_mut().zip(parts).zip(sums) {
            share.merge(sums, part, from);
        }
    }
}

/// A row of two tiles of weights from sixteen numbers and their followers: `[16][2]`, the upper halves and what they leave.
///
/// # Safety
/// Both are good for sixteen numbers, and the processor has AVX-512.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn place(a: *const f16, b: *const f16, row: usize, to: &mut [Tile]) {
    // SAFETY: the caller's promise; a tile has sixteen rows of 64 bytes.
    unsafe {
        let upper = _mm512_set1_epi32(0xffff_0000_u32 as i32);
        let number = |at: *const f16| _mm512_cvtph_ps(_mm256_loadu_si256(at.cast()));
        let high = |x: __m512| _mm512_and_si512(_mm512_castps_si512(x), upper);
        let (a, b) = (number(a), number(b));
        let (high_a, high_b) = (high(a), high(b));
        let low_a = _mm512_castps_si512(_mm512_sub_ps(a, _mm512_castsi512_ps(high_a)));
        let low_b = _mm512_castps_si512(_mm512_sub_ps(b, _mm512_castsi512_ps(high_b)));
        let both = |a, b| _mm512_or_si512(_mm512_srli_epi32(a, 16), _mm512_and_si512(b, upper));
        for (tile, numbers) in to.iter_mut().zip([both(high_a, high_b), both(low_a, low_b)]) {
            _mm512_store_si512(tile.0.as_mut_ptr().add(row * 64).cast(), numbers);
        }
    }
}

/// A row of two tiles of queries, `[step][2 tiles][2]` from step `first` on: upper halves and what they leave, rounded.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
fn halve(from: &[f32], row: usize, first: usize, to: &mut [Tile]) {
    for (step, numbers) in from.chunks_exact(STEP).enumerate() {
        let tile = ((first + step) * 2 + row / ROWS) * 2;
        let (high, low) = to[tile..tile + 2].split_at_mut(1);
        for half in 0..2 {
            // SAFETY: sixteen numbers of 32; a tile has sixteen rows of 64 bytes.
            unsafe {
                let x = _mm512_loadu_ps(numbers.as_ptr().add(half * 16));
                let bits = _mm512_castps_si512(x);
                let upper = _mm512_and_si512(bits, _mm512_set1_epi32(0xffff_0000_u32 as i32));
                let rest = _mm512_castps_si512(_mm512_sub_ps(x, _mm512_castsi512_ps(upper)));
                let rest = _mm512_add_epi32(rest, _mm512_set1_epi32(0x8000));
                let place = row % ROWS * 64 + half * 32;
                for (tile, bits) in [(&mut high[0], bits), (&mut low[0], rest)] {
                    let numbers = _mm512_cvtepi32_epi16(_mm512_srli_epi32(bits, 16));
                    _mm256_storeu_si256(tile.0.as_mut_ptr().add(place).cast(), numbers);
                }
            }
        }
    }
}

/// Two tiles of rows, `[steps][2][2]`, with two of columns, as many: 32 by 32 sums, to rows of `stride` numbers.
///
/// # Safety
/// Tiles are configured, and `out` has room.
unsafe fn multiply(rows: &[Tile], columns: &[Tile], out: *mut f32, stride: usize) {
    assert!(!rows.is_empty() && rows.len() == columns.len() && rows.len().is_multiple_of(4), "tiles of another shape");
    // SAFETY: reads whole steps of both, writes the four tiles of the result. Tiles are only named here.
    unsafe {
        asm!(
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            "2:",
            "tileloadd tmm4, [{x} + {line}]",
            "tileloadd tmm6, [{w} + {line}]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloadd tmm7, [{w} + {line} + 2048]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tileloadd tmm5, [{x} + {line} + 2048]",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "tileloadd tmm6, [{w} + {line} + 1024]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloadd tmm7, [{w} + {line} + 3072]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tileloadd tmm4, [{x} + {line} + 1024]",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tileloadd tmm6, [{w} + {line}]",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "tileloadd tmm7, [{w} + {line} + 2048]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloadd tmm5, [{x} + {line} + 3072]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "add {x}, 4096",
            "add {w}, 4096",
            "dec {steps}",
            "jnz 2b",
            "tilestored [{out} + {stride}], tmm0",
            "tilestored [{out} + {stride} + 64], tmm1",
            "tilestored [{next} + {stride}], tmm2",
            "tilestored [{next} + {stride} + 64], tmm3",
            x = inout(reg) rows.as_ptr() => _,
            w = inout(reg) columns.as_ptr() => _,
            steps = inout(reg) rows.len() / 4 => _,
            line = in(reg) 64usize,
            stride = in(reg) stride * 4,
            out = in(reg) out,
            next = in(reg) out.add(ROWS * stride),
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        );
    }
}
