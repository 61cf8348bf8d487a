//! A tile over a stretch with AVX2, FMA and F16C.

use std::arch::x86_64::*;
use std::ops::Range;

use half::f16;

use super::tile::{Partial, TILE, Tile, weigh};
use super::{BLOCK_TOKENS, STRETCH};

/// See [`Tile::partial`]. `blocks` hold the positions of the stretch from `from` on, up to before `to`. The processor
/// has the instructions, and heads are a multiple of sixteen wide: the caller found out.
pub(super) fn partial(
    tile: &Tile<'_>,
    blocks: &[u32],
    from: usize,
    to: usize,
    seen: &dyn Fn(usize) -> Range<usize>,
    scores: &mut [[f32; STRETCH]; TILE],
    sums: &mut [f32],
) -> Partial {
    // SAFETY: the caller's promise.
    unsafe {
        match tile.count {
            1 => with::<1>(tile, blocks, from, to, seen, scores, sums),
            2 => with::<2>(tile, blocks, from, to, seen, scores, sums),
            3 => with::<3>(tile, blocks, from, to, seen, scores, sums),
            4 => with::<4>(tile, blocks, from, to, seen, scores, sums),
            5 => with::<5>(tile, blocks, from, to, seen, scores, sums),
            _ => with::<TILE>(tile, blocks, from, to, seen, scores, sums),
        }
    }
}

/// # Safety
/// AVX2, FMA and F16C are there.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn with<const T: usize>(
    tile: &Tile<'_>,
    blocks: &[u32],
    from: usize,
    to: usize,
    seen: &dyn Fn(usize) -> Range<usize>,
    scores: &mut [[f32; STRETCH]; TILE],
    sums: &mut [f32],
) -> Partial {
    let width = tile.shape.width;
    assert!(from + blocks.len() * BLOCK_TOKENS <= STRETCH && sums.len() >= T * width && width.is_multiple_of(16));
    let mut queries = [std::ptr::null(); T];
    for (pointer, query) in queries.iter_mut().zip(&tile.queries) {
        assert!(query.len() == width);
        *pointer = query.as_ptr();
    }
    for (index, block) in blocks.iter().enumerate() {
        let keys = &tile.keys[tile.shape.at(*block, tile.kv_head)];
        let at = from + index * BLOCK_TOKENS;
        // SAFETY: each query has `width` numbers and each block `width * BLOCK_TOKENS`; `at` leaves room for a block's
        // scores in a stretch: checked above, the block by slicing.
        unsafe { score::<T>(&queries, keys.as_ptr(), width, at, scores) };
    }
    let partial = weigh(T, seen, scores);
    let values: [&[f16]; STRETCH / BLOCK_TOKENS] = std::array::from_fn(|index| {
        blocks.get(index).map_or(&[][..], |block| &tile.values[tile.shape.at(*block, tile.kv_head)])
    });
    for column in (0..width).step_by(16) {
        // SAFETY: the columns from `column` on are sixteen, `to` is at most the end of the last block, and `sums` has
        // `width` numbers for each query: checked above.
        unsafe { mix::<T>(scores, &values, from, to, width, column, sums) };
    }
    partial
}

/// Scores of all queries with a block's sixteen keys.
///
/// # Safety
/// AVX2, FMA and F16C are there; see the call for lengths.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn score<const T: usize>(
    queries: &[*const f32; T],
    keys: *const f16,
    width: usize,
    at: usize,
    scores: &mut [[f32; STRETCH]; TILE],
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [[_mm256_setzero_ps(); 2]; T];
        for i in 0..width {
            let key = keys.add(i * BLOCK_TOKENS);
            let low = _mm256_cvtph_ps(_mm_loadu_si128(key.cast()));
            let high = _mm256_cvtph_ps(_mm_loadu_si128(key.add(8).cast()));
            for t in 0..T {
                let q = _mm256_broadcast_ss(&*queries[t].add(i));
                sums[t][0] = _mm256_fmadd_ps(q, low, sums[t][0]);
                sums[t][1] = _mm256_fmadd_ps(q, high, sums[t][1]);
            }
        }
        for t in 0..T {
            let to = scores[t].as_mut_ptr().add(at);
            _mm256_storeu_ps(to, sums[t][0]);
            _mm256_storeu_ps(to.add(8), sums[t][1]);
        }
    }
}

/// Weighted sums of sixteen columns of values, for all queries.
///
/// # Safety
/// AVX2, FMA and F16C are there; see the call for lengths.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn mix<const T: usize>(
    weights: &[[f32; STRETCH]; TILE],
    values: &[&[f16]; STRETCH / BLOCK_TOKENS],
    from: usize,
    to: usize,
    width: usize,
    column: usize,
    sums: &mut [f32],
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut acc = [[_mm256_setzero_ps(); 2]; T];
        let (mut at, mut index) = (from, 0);
        while at < to {
            let end = (at + BLOCK_TOKENS).min(to);
            let mut value = values.get_unchecked(index).as_ptr().add(column);
            for position in at..end {
                let low = _mm256_cvtph_ps(_mm_loadu_si128(value.cast()));
                let high = _mm256_cvtph_ps(_mm_loadu_si128(value.add(8).cast()));
                for t in 0..T {
                    let weight = _mm256_broadcast_ss(weights[t].get_unchecked(position));
                    acc[t][0] = _mm256_fmadd_ps(weight, low, acc[t][0]);
                    acc[t][1] = _mm256_fmadd_ps(weight, high, acc[t][1]);
                }
                value = value.wrapping_add(width);
            }
            (at, index) = (end, index + 1);
        }
        for (t, [low, high]) in acc.into_iter().enumerate() {
            let out = sums.as_mut_ptr().add(t * width + column);
            _mm256_storeu_ps(out, low);
            _mm256_storeu_ps(out.add(8), high);
        }
    }
}
