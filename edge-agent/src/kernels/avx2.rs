//! The products with AVX2, FMA and F16C. Each function here checks once what its loop then relies on; the instructions
//! themselves were asked for by whoever passes [`Cpu::Avx2`](crate::device::Cpu).
#![allow(
    unsafe_code,
    reason = "vector instructions; every pointer stays inside slices whose lengths are checked first"
)]

use std::arch::x86_64::*;

use super::activation::Quantized;
use super::matrix::{GROUP, Packing, Q4_GROUP_BYTES, Q8_GROUP_BYTES};

/// See [`super::activation::quantize`].
pub(super) fn quantize(x: &[f32], out: &mut [Quantized]) {
    #[target_feature(enable = "avx2,fma")]
    fn with_vectors(x: &[f32], out: &mut [Quantized]) {
        super::activation::quantize(x, out);
    }
    // SAFETY: the caller found AVX2 and FMA.
    unsafe { with_vectors(x, out) }
}

/// Eight rows times one or four rows of activations, which stand `blocks` apart.
pub(super) fn product(
    packing: Packing,
    weights: &[u8],
    x: &[Quantized],
    blocks: usize,
    tile: usize,
    out: &mut [[f32; GROUP]; 4],
) {
    let size = if packing == Packing::Q4x8 { Q4_GROUP_BYTES } else { Q8_GROUP_BYTES };
    assert!(weights.len() == blocks * size && x.len() >= tile * blocks && (tile == 1 || tile == 4));
    // SAFETY: the instructions are there (module docs); the loops read `blocks` blocks of weights and `tile * blocks`
    // of activations, which the line above checked. Prefetches may point past the end: they never fault.
    unsafe {
        match (packing, tile) {
            (Packing::Q4x8, 1) => q4x8::<1>(weights.as_ptr(), x.as_ptr(), blocks, out),
            (Packing::Q4x8, _) => q4x8::<4>(weights.as_ptr(), x.as_ptr(), blocks, out),
            (_, 1) => q8x8::<1>(weights.as_ptr(), x.as_ptr(), blocks, out),
            (_, _) => q8x8::<4>(weights.as_ptr(), x.as_ptr(), blocks, out),
        }
    }
}

/// Four activations, the same for all eight rows.
///
/// # Safety
/// Four bytes can be read at `at`.
#[inline(always)]
unsafe fn four(at: *const i8) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe { _mm256_set1_epi32(at.cast::<i32>().read_unaligned()) }
}

/// # Safety
/// See [`product`].
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn q4x8<const T: usize>(weights: *const u8, x: *const Quantized, blocks: usize, out: &mut [[f32; GROUP]; 4]) {
    // SAFETY: see `product`.
    unsafe {
        let (ones, low) = (_mm256_set1_epi16(1), _mm256_set1_epi8(15));
        let mut sums = [_mm256_setzero_ps(); T];
        for block in 0..blocks {
            let w = weights.add(block * Q4_GROUP_BYTES);
            for line in 0..3 {
                _mm_prefetch(w.wrapping_add(8 * Q4_GROUP_BYTES + line * 64).cast(), _MM_HINT_T0);
            }
            let scales = _mm256_cvtph_ps(_mm_loadu_si128(w.cast()));
            let mins = _mm256_cvtph_ps(_mm_loadu_si128(w.add(16).cast()));
            let load = |j: usize| _mm256_loadu_si256(w.add(32 + 32 * j).cast());
            let raw = [load(0), load(1), load(2), load(3)];
            let lows = raw.map(|v| _mm256_and_si256(v, low));
            let highs = raw.map(|v| _mm256_and_si256(_mm256_srli_epi16(v, 4), low));
            for (t, sum) in sums.iter_mut().enumerate() {
                let x = &*x.add(t * blocks + block);
                let q = x.q.as_ptr();
                // Products of a nibble and a byte: eight pairs add up to at most 8 * 2 * 15 * 127 = 30480, which fits.
                let mut a = _mm256_maddubs_epi16(lows[0], four(q));
                let mut b = _mm256_maddubs_epi16(highs[0], four(q.add(16)));
                for j in 1..4 {
                    a = _mm256_add_epi16(a, _mm256_maddubs_epi16(lows[j], four(q.add(4 * j))));
                    b = _mm256_add_epi16(b, _mm256_maddubs_epi16(highs[j], four(q.add(16 + 4 * j))));
                }
                let dot = _mm256_cvtepi32_ps(_mm256_madd_epi16(_mm256_add_epi16(a, b), ones));
                *sum = _mm256_fmadd_ps(dot, _mm256_mul_ps(scales, _mm256_set1_ps(x.scale)), *sum);
                *sum = _mm256_fmadd_ps(mins, _mm256_set1_ps(x.sum), *sum);
            }
        }
        for (sum, out) in sums.iter().zip(out) {
            _mm256_storeu_ps(out.as_mut_ptr(), *sum);
        }
    }
}

/// # Safety
/// See [`product`].
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn q8x8<const T: usize>(weights: *const u8, x: *const Quantized, blocks: usize, out: &mut [[f32; GROUP]; 4]) {
    // SAFETY: see `product`.
    unsafe {
        let ones = _mm256_set1_epi16(1);
        let mut sums = [_mm256_setzero_ps(); T];
        for block in 0..blocks {
            let w = weights.add(block * Q8_GROUP_BYTES);
            for line in 0..5 {
                _mm_prefetch(w.wrapping_add(6 * Q8_GROUP_BYTES + line * 64).cast(), _MM_HINT_T0);
            }
            let scales = _mm256_cvtph_ps(_mm_loadu_si128(w.cast()));
            let mut dots = [_mm256_setzero_si256(); T];
            for j in 0..8 {
                let v = _mm256_loadu_si256(w.add(16 + 32 * j).cast());
                // One side must be unsigned: move the weights' signs to the activations. A pair is at most
                // 2 * 128 * 127 = 32512, which fits; -128 stays 128 when read as unsigned.
                let size = _mm256_abs_epi8(v);
                for (t, dot) in dots.iter_mut().enumerate() {
                    let q = four((*x.add(t * blocks + block)).q.as_ptr().add(4 * j));
                    let pairs = _mm256_maddubs_epi16(size, _mm256_sign_epi8(q, v));
                    *dot = _mm256_add_epi32(*dot, _mm256_madd_epi16(pairs, ones));
                }
            }
            for (t, (sum, dot)) in sums.iter_mut().zip(dots).enumerate() {
                let scale = _mm256_set1_ps((*x.add(t * blocks + block)).scale);
                *sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), _mm256_mul_ps(scales, scale), *sum);
            }
        }
        for (sum, out) in sums.iter().zip(out) {
            _mm256_storeu_ps(out.as_mut_ptr(), *sum);
        }
    }
}
