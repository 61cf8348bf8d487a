//! [`Vector`] with AVX2, FMA and F16C, and with AVX-VNNI's dot product where that is there.
#![allow(unsafe_code, reason = "vector instructions: see the trait's promise, which every function here relies on")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "one argument for all: the trait's promise")]

use std::arch::x86_64::*;

use super::activation::Quantized;
use super::kernel::{Kernel, kernels};
use super::product;
use super::vector::Vector;
use crate::gguf::GgmlType;

/// Eight rows; `VNNI`: with `vpdpbusd`.
struct Avx2<const VNNI: bool>;

impl<const VNNI: bool> Vector for Avx2<VNNI> {
    type Floats = __m256;
    type Bytes = __m256i;
    const GROUPS: usize = 1;
    const SIGNED: bool = !VNNI;

    #[inline(always)]
    unsafe fn zero() -> __m256 {
        unsafe { _mm256_setzero_ps() }
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> __m256 {
        unsafe { _mm256_set1_ps(value) }
    }

    #[inline(always)]
    unsafe fn load(at: *const f32) -> __m256 {
        unsafe { _mm256_loadu_ps(at) }
    }

    #[inline(always)]
    unsafe fn store(at: *mut f32, value: __m256) {
        unsafe { _mm256_storeu_ps(at, value) }
    }

    #[inline(always)]
    unsafe fn multiply(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_mul_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn add(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_add_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn subtract(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_sub_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn multiply_add(a: __m256, b: __m256, c: __m256) -> __m256 {
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    unsafe fn singles(at: *const u8, _: usize) -> __m256 {
        unsafe { _mm256_loadu_ps(at.cast()) }
    }

    #[inline(always)]
    unsafe fn halves(at: *const u8, _: usize) -> __m256 {
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(at.cast())) }
    }

    #[inline(always)]
    unsafe fn brains(at: *const u8, _: usize) -> __m256 {
        unsafe { _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(at.cast())), 16)) }
    }

    #[inline(always)]
    unsafe fn bytes(at: *const u8, _: usize) -> __m256i {
        unsafe { _mm256_loadu_si256(at.cast()) }
    }

    #[inline(always)]
    unsafe fn and(a: __m256i, mask: u8) -> __m256i {
        unsafe { _mm256_and_si256(a, _mm256_set1_epi8(mask as i8)) }
    }

    #[inline(always)]
    unsafe fn or(a: __m256i, b: __m256i) -> __m256i {
        unsafe { _mm256_or_si256(a, b) }
    }

    #[inline(always)]
    unsafe fn turn(a: __m256i) -> __m256i {
        unsafe { _mm256_xor_si256(a, _mm256_set1_epi8(-128)) }
    }

    #[inline(always)]
    unsafe fn left(a: __m256i, by: i32) -> __m256i {
        unsafe { _mm256_sll_epi16(a, _mm_cvtsi32_si128(by)) }
    }

    #[inline(always)]
    unsafe fn right(a: __m256i, by: i32) -> __m256i {
        unsafe { _mm256_srl_epi16(a, _mm_cvtsi32_si128(by)) }
    }

    #[inline(always)]
    unsafe fn unsigned(a: __m256i, index: i32) -> __m256 {
        unsafe {
            let low = _mm256_srl_epi32(a, _mm_cvtsi32_si128(8 * index));
            _mm256_cvtepi32_ps(_mm256_and_si256(low, _mm256_set1_epi32(255)))
        }
    }

    #[inline(always)]
    unsafe fn signed(a: __m256i, index: i32) -> __m256 {
        unsafe {
            let top = _mm256_sll_epi32(a, _mm_cvtsi32_si128(24 - 8 * index));
            _mm256_cvtepi32_ps(_mm256_srai_epi32(top, 24))
        }
    }

    #[inline(always)]
    unsafe fn dot<const N: usize>(weights: &[__m256i; N], x: *const i8, bits: u32) -> __m256 {
        unsafe {
            let mut sum = _mm256_setzero_si256();
            if VNNI {
                for (i, w) in weights.iter().enumerate() {
                    sum = _mm256_dpbusd_avx_epi32(sum, *w, four(x.add(4 * i)));
                }
                return _mm256_cvtepi32_ps(sum);
            }
            let ones = _mm256_set1_epi16(1);
            let depth = depth(bits);
            let mut first = true;
            for (part, weights) in weights.chunks(depth).enumerate() {
                let mut pairs = _mm256_setzero_si256();
                for (i, w) in weights.iter().enumerate() {
                    let x = four(x.add(4 * (part * depth + i)));
                    let product = if bits == 8 {
                        // One side must be unsigned: the weights' signs move to the activations. -128 becomes 128.
                        _mm256_maddubs_epi16(_mm256_abs_epi8(*w), _mm256_sign_epi8(x, *w))
                    } else {
                        _mm256_maddubs_epi16(*w, x)
                    };
                    pairs = if i == 0 { product } else { _mm256_add_epi16(pairs, product) };
                }
                let wide = _mm256_madd_epi16(pairs, ones);
                sum = if first { wide } else { _mm256_add_epi32(sum, wide) };
                first = false;
            }
            _mm256_cvtepi32_ps(sum)
        }
    }

    #[inline(always)]
    unsafe fn prefetch(at: *const u8, _: usize) {
        unsafe { _mm_prefetch(at.cast(), _MM_HINT_T0) }
    }
}

/// How many products of pairs (`maddubs`) of weights of so many bits are added up in 16 bits: 8 * 2 * 15 * 127,
/// 4 * 2 * 31 * 127, 2 * 2 * 63 * 127 and 2 * 128 * 127 are all below 32768.
#[inline(always)]
pub(super) const fn depth(bits: u32) -> usize {
    match bits {
        4 => 8,
        5 => 4,
        6 => 2,
        _ => 1,
    }
}

/// Four activations, the same for all rows.
#[inline(always)]
unsafe fn four(at: *const i8) -> __m256i {
    unsafe { _mm256_set1_epi32(at.cast::<i32>().read_unaligned()) }
}

/// See [`super::activation::quantize`].
pub(super) fn quantize(x: &[f32], out: &mut [Quantized]) {
    #[target_feature(enable = "avx2,fma")]
    fn with_vectors(x: &[f32], out: &mut [Quantized]) {
        super::activation::quantize(x, out);
    }
    // SAFETY: the caller found AVX2 and FMA.
    unsafe { with_vectors(x, out) }
}

pub(super) mod base {
    use super::*;
    kernels!(Avx2<false>, "avx2,fma,f16c");
}

pub(super) mod vnni {
    use super::*;
    kernels!(Avx2<true>, "avx2,fma,f16c,avxvnni");
}
