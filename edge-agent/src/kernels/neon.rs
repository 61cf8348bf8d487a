//! [`Vector`] with NEON, and with its dot product where that is there. Pairs of registers hold eight rows.
#![allow(unsafe_code, reason = "vector instructions: see the trait's promise, which every function here relies on")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "one argument for all: the trait's promise")]

use std::arch::aarch64::*;
use std::arch::asm;

use super::activation::Quantized;
use super::kernel::{Kernel, kernels};
use super::product;
use super::vector::Vector;
use crate::gguf::GgmlType;

/// Eight rows; `DOT`: with `sdot`.
struct Neon<const DOT: bool>;

type Floats = [float32x4_t; 2];
type Bytes = [uint8x16_t; 2];

/// `sdot` by one lane: its intrinsic is not stable yet.
macro_rules! sdot {
    ($sum:expr, $weights:expr, $x:expr, $lane:literal) => {
        asm!(
            ".arch_extension dotprod",
            concat!("sdot {sum:v}.4s, {w:v}.16b, {x:v}.4b[", $lane, "]"),
            sum = inout(vreg) $sum,
            w = in(vreg) $weights,
            x = in(vreg) $x,
            options(pure, nomem, nostack, preserves_flags)
        )
    };
}

impl<const DOT: bool> Vector for Neon<DOT> {
    type Floats = Floats;
    type Bytes = Bytes;
    const GROUPS: usize = 1;
    const SIGNED: bool = true;

    #[inline(always)]
    unsafe fn zero() -> Floats {
        unsafe { [vdupq_n_f32(0.0); 2] }
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> Floats {
        unsafe { [vdupq_n_f32(value); 2] }
    }

    #[inline(always)]
    unsafe fn load(at: *const f32) -> Floats {
        unsafe { [vld1q_f32(at), vld1q_f32(at.add(4))] }
    }

    #[inline(always)]
    unsafe fn store(at: *mut f32, value: Floats) {
        unsafe {
            vst1q_f32(at, value[0]);
            vst1q_f32(at.add(4), value[1]);
        }
    }

    #[inline(always)]
    unsafe fn multiply(a: Floats, b: Floats) -> Floats {
        unsafe { [vmulq_f32(a[0], b[0]), vmulq_f32(a[1], b[1])] }
    }

    #[inline(always)]
    unsafe fn add(a: Floats, b: Floats) -> Floats {
        unsafe { [vaddq_f32(a[0], b[0]), vaddq_f32(a[1], b[1])] }
    }

    #[inline(always)]
    unsafe fn subtract(a: Floats, b: Floats) -> Floats {
        unsafe { [vsubq_f32(a[0], b[0]), vsubq_f32(a[1], b[1])] }
    }

    #[inline(always)]
    unsafe fn multiply_add(a: Floats, b: Floats, c: Floats) -> Floats {
        unsafe { [vfmaq_f32(c[0], a[0], b[0]), vfmaq_f32(c[1], a[1], b[1])] }
    }

    #[inline(always)]
    unsafe fn singles(at: *const u8, _: usize) -> Floats {
        unsafe { Self::bytes(at, 0).map(|x| vreinterpretq_f32_u8(x)) }
    }

    #[inline(always)]
    unsafe fn halves(at: *const u8, _: usize) -> Floats {
        unsafe {
            let half = vreinterpretq_u16_u8(vld1q_u8(at));
            let wide = |four| vcvt_f32_f16(vreinterpret_f16_u16(four));
            [wide(vget_low_u16(half)), wide(vget_high_u16(half))]
        }
    }

    #[inline(always)]
    unsafe fn brains(at: *const u8, _: usize) -> Floats {
        unsafe {
            let half = vreinterpretq_u16_u8(vld1q_u8(at));
            let wide = |four| vreinterpretq_f32_u32(vshll_n_u16::<16>(four));
            [wide(vget_low_u16(half)), wide(vget_high_u16(half))]
        }
    }

    #[inline(always)]
    unsafe fn bytes(at: *const u8, _: usize) -> Bytes {
        unsafe { [vld1q_u8(at), vld1q_u8(at.add(16))] }
    }

    #[inline(always)]
    unsafe fn and(a: Bytes, mask: u8) -> Bytes {
        unsafe { a.map(|a| vandq_u8(a, vdupq_n_u8(mask))) }
    }

    #[inline(always)]
    unsafe fn or(a: Bytes, b: Bytes) -> Bytes {
        unsafe { [vorrq_u8(a[0], b[0]), vorrq_u8(a[1], b[1])] }
    }

    #[inline(always)]
    unsafe fn turn(a: Bytes) -> Bytes {
        unsafe { a.map(|a| veorq_u8(a, vdupq_n_u8(128))) }
    }

    #[inline(always)]
    unsafe fn left(a: Bytes, by: i32) -> Bytes {
        unsafe { a.map(|a| vshlq_u8(a, vdupq_n_s8(by as i8))) }
    }

    #[inline(always)]
    unsafe fn right(a: Bytes, by: i32) -> Bytes {
        unsafe { Self::left(a, -by) }
    }

    #[inline(always)]
    unsafe fn unsigned(a: Bytes, index: i32) -> Floats {
        unsafe {
            a.map(|a| {
                let low = vshlq_u32(vreinterpretq_u32_u8(a), vdupq_n_s32(-8 * index));
                vcvtq_f32_u32(vandq_u32(low, vdupq_n_u32(255)))
            })
        }
    }

    #[inline(always)]
    unsafe fn signed(a: Bytes, index: i32) -> Floats {
        unsafe {
            a.map(|a| {
                let top = vshlq_s32(vreinterpretq_s32_u8(a), vdupq_n_s32(24 - 8 * index));
                vcvtq_f32_s32(vshrq_n_s32::<24>(top))
            })
        }
    }

    #[inline(always)]
    unsafe fn dot<const N: usize>(weights: &[Bytes; N], x: *const i8, bits: u32) -> Floats {
        unsafe {
            let mut sums = [vdupq_n_s32(0); 2];
            if DOT {
                for (part, weights) in weights.chunks_exact(4).enumerate() {
                    let x = vld1q_s8(x.add(16 * part));
                    for (half, sum) in sums.iter_mut().enumerate() {
                        sdot!(*sum, weights[0][half], x, 0);
                        sdot!(*sum, weights[1][half], x, 1);
                        sdot!(*sum, weights[2][half], x, 2);
                        sdot!(*sum, weights[3][half], x, 3);
                    }
                }
                return sums.map(|sum| vcvtq_f32_s32(sum));
            }
            // Sums of so many products fit 16 bits: 8 * 31 * 127, 4 * 63 * 127 and 2 * 128 * 127 are below 32768.
            let depth = match bits {
                4 | 5 => 8,
                6 => 4,
                _ => 2,
            };
            for (half, sum) in sums.iter_mut().enumerate() {
                let mut wide = [vdupq_n_s32(0); 2];
                for (part, weights) in weights.chunks(depth).enumerate() {
                    let mut products = [vdupq_n_s16(0); 2];
                    for (i, w) in weights.iter().enumerate() {
                        let x = vreinterpret_s8_s32(vdup_n_s32(
                            x.add(4 * (part * depth + i)).cast::<i32>().read_unaligned(),
                        ));
                        let w = vreinterpretq_s8_u8(w[half]);
                        products[0] = vmlal_s8(products[0], vget_low_s8(w), x);
                        products[1] = vmlal_s8(products[1], vget_high_s8(w), x);
                    }
                    wide = [vpadalq_s16(wide[0], products[0]), vpadalq_s16(wide[1], products[1])];
                }
                *sum = vpaddq_s32(wide[0], wide[1]);
            }
            sums.map(|sum| vcvtq_f32_s32(sum))
        }
    }
}

pub(super) mod base {
    use super::*;
    kernels!(Neon<false>, "neon");
}

pub(super) mod dot {
    use super::*;
    kernels!(Neon<true>, "neon,dotprod");
}
