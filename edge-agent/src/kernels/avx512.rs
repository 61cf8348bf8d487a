//! [`Vector`] with AVX-512 (F, BW, DQ, VL), and with VNNI's dot product where that is there: two groups at a time.
#![allow(unsafe_code, reason = "vector instructions: see the trait's promise, which every function here relies on")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "one argument for all: the trait's promise")]

use std::arch::x86_64::*;

use super::activation::Quantized;
use super::avx2::depth;
use super::kernel::{Kernel, kernels};
use super::product;
use super::vector::Vector;
use crate::gguf::GgmlType;

/// Sixteen rows; `VNNI`: with `vpdpbusd`.
pub(super) struct Avx512<const VNNI: bool>;

impl<const VNNI: bool> Vector for Avx512<VNNI> {
    type Floats = __m512;
    type Bytes = __m512i;
    const GROUPS: usize = 2;
    const SIGNED: bool = !VNNI;

    #[inline(always)]
    unsafe fn zero() -> __m512 {
        unsafe { _mm512_setzero_ps() }
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> __m512 {
        unsafe { _mm512_set1_ps(value) }
    }

    #[inline(always)]
    unsafe fn load(at: *const f32) -> __m512 {
        unsafe { _mm512_loadu_ps(at) }
    }

    #[inline(always)]
    unsafe fn store(at: *mut f32, value: __m512) {
        unsafe { _mm512_storeu_ps(at, value) }
    }

    #[inline(always)]
    unsafe fn multiply(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_mul_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn add(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_add_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn subtract(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_sub_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn multiply_add(a: __m512, b: __m512, c: __m512) -> __m512 {
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    unsafe fn singles(at: *const u8, stride: usize) -> __m512 {
        unsafe { _mm512_castsi512_ps(Self::bytes(at, stride)) }
    }

    #[inline(always)]
    unsafe fn halves(at: *const u8, stride: usize) -> __m512 {
        unsafe { _mm512_cvtph_ps(sixteen(at, stride)) }
    }

    #[inline(always)]
    unsafe fn brains(at: *const u8, stride: usize) -> __m512 {
        unsafe { _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(sixteen(at, stride)), 16)) }
    }

    #[inline(always)]
    unsafe fn bytes(at: *const u8, stride: usize) -> __m512i {
        unsafe {
            let first = _mm512_castsi256_si512(_mm256_loadu_si256(at.cast()));
            _mm512_inserti64x4(first, _mm256_loadu_si256(at.add(stride).cast()), 1)
        }
    }

    #[inline(always)]
    unsafe fn and(a: __m512i, mask: u8) -> __m512i {
        unsafe { _mm512_and_si512(a, _mm512_set1_epi8(mask as i8)) }
    }

    #[inline(always)]
    unsafe fn or(a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_or_si512(a, b) }
    }

    #[inline(always)]
    unsafe fn turn(a: __m512i) -> __m512i {
        unsafe { _mm512_xor_si512(a, _mm512_set1_epi8(-128)) }
    }

    #[inline(always)]
    unsafe fn left(a: __m512i, by: i32) -> __m512i {
        unsafe { _mm512_sll_epi16(a, _mm_cvtsi32_si128(by)) }
    }

    #[inline(always)]
    unsafe fn right(a: __m512i, by: i32) -> __m512i {
        unsafe { _mm512_srl_epi16(a, _mm_cvtsi32_si128(by)) }
    }

    #[inline(always)]
    unsafe fn unsigned(a: __m512i, index: i32) -> __m512 {
        unsafe {
            let low = _mm512_srl_epi32(a, _mm_cvtsi32_si128(8 * index));
            _mm512_cvtepi32_ps(_mm512_and_si512(low, _mm512_set1_epi32(255)))
        }
    }

    #[inline(always)]
    unsafe fn signed(a: __m512i, index: i32) -> __m512 {
        unsafe {
            let top = _mm512_sll_epi32(a, _mm_cvtsi32_si128(24 - 8 * index));
            _mm512_cvtepi32_ps(_mm512_srai_epi32(top, 24))
        }
    }

    #[inline(always)]
    unsafe fn dot<const N: usize>(weights: &[__m512i; N], x: *const i8, bits: u32) -> __m512 {
        unsafe {
            let mut sum = _mm512_setzero_si512();
            if VNNI {
                for (i, w) in weights.iter().enumerate() {
                    sum = _mm512_dpbusd_epi32(sum, *w, four(x.add(4 * i)));
                }
                return _mm512_cvtepi32_ps(sum);
            }
            let ones = _mm512_set1_epi16(1);
            let depth = depth(bits);
            let mut first = true;
            for (part, weights) in weights.chunks(depth).enumerate() {
                let mut pairs = _mm512_setzero_si512();
                for (i, w) in weights.iter().enumerate() {
                    let x = four(x.add(4 * (part * depth + i)));
                    let product = if bits == 8 {
                        // One side must be unsigned: the weights' signs move to the activations. -128 becomes 128.
                        let turned = _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(*w), _mm512_setzero_si512(), x);
                        _mm512_maddubs_epi16(_mm512_abs_epi8(*w), turned)
                    } else {
                        _mm512_maddubs_epi16(*w, x)
                    };
                    pairs = if i == 0 { product } else { _mm512_add_epi16(pairs, product) };
                }
                let wide = _mm512_madd_epi16(pairs, ones);
                sum = if first { wide } else { _mm512_add_epi32(sum, wide) };
                first = false;
            }
            _mm512_cvtepi32_ps(sum)
        }
    }

    /// Into the second cache: the first has few lines under way at a time, and the processor fills it from there by itself.
    #[inline(always)]
    unsafe fn prefetch(at: *const u8, stride: usize) {
        unsafe {
            _mm_prefetch(at.cast(), _MM_HINT_T1);
            _mm_prefetch(at.wrapping_add(stride).cast(), _MM_HINT_T1);
        }
    }
}

/// Four activations, the same for all rows.
#[inline(always)]
unsafe fn four(at: *const i8) -> __m512i {
    unsafe { _mm512_set1_epi32(at.cast::<i32>().read_unaligned()) }
}

/// 16 bytes of each group.
#[inline(always)]
unsafe fn sixteen(at: *const u8, stride: usize) -> __m256i {
    unsafe { _mm256_set_m128i(_mm_loadu_si128(at.add(stride).cast()), _mm_loadu_si128(at.cast())) }
}

pub(super) mod base {
    use super::*;
    kernels!(Avx512<false>, "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl");
}

pub(super) mod vnni {
    use super::*;
    kernels!(Avx512<true>, "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni");
}
