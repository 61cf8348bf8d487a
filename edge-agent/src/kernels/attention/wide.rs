//! A tile over a stretch with AVX2, FMA and F16C, or with AVX-512: sixteen numbers at a time, in the same order.
#![allow(clippy::undocumented_unsafe_blocks, reason = "in `Sixteen`: one argument for all, the trait's promise")]

use std::arch::x86_64::*;
use std::ops::Range;

use half::f16;

use super::tile::{Partial, Scores, TILE, Tile, weigh};
use super::{BLOCK_TOKENS, STRETCH};
use crate::device::Cpu;

/// Queries that fill the registers of AVX2 (twelve sums of sixteen), and of AVX-512.
const FEW: usize = 6;

/// How many queries [`partial`] takes at most.
pub(super) fn most(cpu: Cpu) -> usize {
    if cpu.has_avx512() { TILE } else { FEW }
}

/// See [`Tile::partial`]. `blocks` hold the positions of the stretch from `from` on, up to before `to`. The processor
/// has AVX2, FMA and F16C, the tile no more queries than [`most`] says, and heads are a multiple of sixteen wide: the
/// caller found out.
pub(super) fn partial(
    tile: &Tile<'_>,
    blocks: &[u32],
    from: usize,
    to: usize,
    seen: &dyn Fn(usize) -> Range<usize>,
    scores: &mut Scores,
    sums: &mut [f32],
) -> Partial {
    macro_rules! counted {
        ($with:ident, $($count:literal)*) => {
            match tile.count {
                $($count => $with::<$count>(tile, blocks, from, to, seen, scores, sums),)*
                other => unreachable!("{other} queries in a tile"),
            }
        };
    }
    // SAFETY: the caller's promise.
    unsafe {
        if Cpu::detect().has_avx512() {
            counted!(with_avx512, 1 2 3 4 5 6 7 8 9 10 11 12)
        } else {
            counted!(with_avx2, 1 2 3 4 5 6)
        }
    }
}

/// Sixteen numbers.
///
/// # Safety
/// The processor has the implementation's instructions, and the caller is compiled for them; pointers are good for
/// sixteen numbers.
trait Sixteen: Copy {
    unsafe fn zero() -> Self;
    unsafe fn halves(at: *const f16) -> Self;
    /// `factor * b + c`.
    unsafe fn scale_add(factor: &f32, b: Self, c: Self) -> Self;
    unsafe fn store(self, at: *mut f32);
}

#[derive(Clone, Copy)]
struct Avx2(__m256, __m256);

impl Sixteen for Avx2 {
    #[inline(always)]
    unsafe fn zero() -> Self {
        unsafe { Avx2(_mm256_setzero_ps(), _mm256_setzero_ps()) }
    }

    #[inline(always)]
    unsafe fn halves(at: *const f16) -> Self {
        unsafe {
            let eight = |at: *const f16| _mm256_cvtph_ps(_mm_loadu_si128(at.cast()));
            Avx2(eight(at), eight(at.add(8)))
        }
    }

    #[inline(always)]
    unsafe fn scale_add(factor: &f32, b: Self, c: Self) -> Self {
        unsafe {
            let factor = _mm256_broadcast_ss(factor);
            Avx2(_mm256_fmadd_ps(factor, b.0, c.0), _mm256_fmadd_ps(factor, b.1, c.1))
        }
    }

    #[inline(always)]
    unsafe fn store(self, at: *mut f32) {
        unsafe {
            _mm256_storeu_ps(at, self.0);
            _mm256_storeu_ps(at.add(8), self.1);
        }
    }
}

#[derive(Clone, Copy)]
struct Avx512(__m512);

impl Sixteen for Avx512 {
    #[inline(always)]
    unsafe fn zero() -> Self {
        unsafe { Avx512(_mm512_setzero_ps()) }
    }

    #[inline(always)]
    unsafe fn halves(at: *const f16) -> Self {
        unsafe { Avx512(_mm512_cvtph_ps(_mm256_loadu_si256(at.cast()))) }
    }

    #[inline(always)]
    unsafe fn scale_add(factor: &f32, b: Self, c: Self) -> Self {
        unsafe { Avx512(_mm512_fmadd_ps(_mm512_set1_ps(*factor), b.0, c.0)) }
    }

    #[inline(always)]
    unsafe fn store(self, at: *mut f32) {
        unsafe { _mm512_storeu_ps(at, self.0) }
    }
}

macro_rules! with {
    ($name:ident, $sixteen:ty, $features:literal) => {
        /// # Safety
        /// The instructions are there.
        #[target_feature(enable = $features)]
        unsafe fn $name<const T: usize>(
            tile: &Tile<'_>,
            blocks: &[u32],
            from: usize,
            to: usize,
            seen: &dyn Fn(usize) -> Range<usize>,
            scores: &mut Scores,
            sums: &mut [f32],
        ) -> Partial {
            // SAFETY: the caller's promise.
            unsafe { with::<$sixteen, T>(tile, blocks, from, to, seen, scores, sums) }
        }
    };
}
with!(with_avx2, Avx2, "avx2,fma,f16c");
with!(with_avx512, Avx512, "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl");

/// # Safety
/// See [`Sixteen`].
#[inline(always)]
unsafe fn with<S: Sixteen, const T: usize>(
    tile: &Tile<'_>,
    blocks: &[u32],
    from: usize,
    to: usize,
    seen: &dyn Fn(usize) -> Range<usize>,
    scores: &mut Scores,
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
        unsafe { score::<S, T>(&queries, keys.as_ptr(), width, at, scores) };
    }
    let partial = weigh(T, seen, scores);
    let values: [&[f16]; STRETCH / BLOCK_TOKENS] = std::array::from_fn(|index| {
        blocks.get(index).map_or(&[][..], |block| &tile.values[tile.shape.at(*block, tile.kv_head)])
    });
    for column in (0..width).step_by(16) {
        // SAFETY: the columns from `column` on are sixteen, `to` is at most the end of the last block, and `sums` has
        // `width` numbers for each query: checked above.
        unsafe { mix::<S, T>(scores, &values, from, to, width, column, sums) };
    }
    partial
}

/// Scores of all queries with a block's sixteen keys.
///
/// # Safety
/// See [`Sixteen`], and the call for lengths.
#[inline(always)]
unsafe fn score<S: Sixteen, const T: usize>(
    queries: &[*const f32; T],
    keys: *const f16,
    width: usize,
    at: usize,
    scores: &mut Scores,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sums = [S::zero(); T];
        for i in 0..width {
            let key = S::halves(keys.add(i * BLOCK_TOKENS));
            for t in 0..T {
                sums[t] = S::scale_add(&*queries[t].add(i), key, sums[t]);
            }
        }
        for t in 0..T {
            sums[t].store(scores[t].as_mut_ptr().add(at));
        }
    }
}

/// Weighted sums of sixteen columns of values, for all queries.
///
/// # Safety
/// See [`Sixteen`], and the call for lengths.
#[inline(always)]
unsafe fn mix<S: Sixteen, const T: usize>(
    weights: &Scores,
    values: &[&[f16]; STRETCH / BLOCK_TOKENS],
    from: usize,
    to: usize,
    width: usize,
    column: usize,
    sums: &mut [f32],
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut acc = [S::zero(); T];
        let (mut at, mut index) = (from, 0);
        while at < to {
            let end = (at + BLOCK_TOKENS).min(to);
            let mut value = values.get_unchecked(index).as_ptr().add(column);
            for position in at..end {
                let numbers = S::halves(value);
                for t in 0..T {
                    acc[t] = S::scale_add(weights[t].get_unchecked(position), numbers, acc[t]);
                }
                value = value.wrapping_add(width);
            }
            (at, index) = (end, index + 1);
        }
        for (t, acc) in acc.into_iter().enumerate() {
            acc.store(sums.as_mut_ptr().add(t * width + column));
        }
    }
}
