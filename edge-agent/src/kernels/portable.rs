//! [`Vector`](super::vector::Vector) in plain code: for processors without an implementation of their own, and what those are held against.
#![allow(unsafe_code, reason = "reads through the pointers of the trait's promise")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "one argument for all: the trait's promise")]

use half::{bf16, f16};

use super::activation::Quantized;
use super::kernel::{Kernel, kernels};
use super::layout::GROUP;
use super::product;
use super::vector::Vector;
use crate::gguf::GgmlType;

/// Eight rows.
struct Plain;

type Floats = [f32; GROUP];
type Bytes = [u8; 4 * GROUP];

#[inline(always)]
fn each(a: Floats, b: Floats, f: impl Fn(f32, f32) -> f32) -> Floats {
    std::array::from_fn(|i| f(a[i], b[i]))
}

impl Vector for Plain {
    type Floats = Floats;
    type Bytes = Bytes;
    const GROUPS: usize = 1;
    const SIGNED: bool = true;

    #[inline(always)]
    unsafe fn zero() -> Floats {
        [0.0; GROUP]
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> Floats {
        [value; GROUP]
    }

    #[inline(always)]
    unsafe fn load(at: *const f32) -> Floats {
        unsafe { at.cast::<Floats>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn store(at: *mut f32, value: Floats) {
        unsafe { at.cast::<Floats>().write_unaligned(value) }
    }

    #[inline(always)]
    unsafe fn multiply(a: Floats, b: Floats) -> Floats {
        each(a, b, |a, b| a * b)
    }

    #[inline(always)]
    unsafe fn add(a: Floats, b: Floats) -> Floats {
        each(a, b, |a, b| a + b)
    }

    #[inline(always)]
    unsafe fn subtract(a: Floats, b: Floats) -> Floats {
        each(a, b, |a, b| a - b)
    }

    #[inline(always)]
    unsafe fn multiply_add(a: Floats, b: Floats, c: Floats) -> Floats {
        each(each(a, b, |a, b| a * b), c, |ab, c| ab + c)
    }

    #[inline(always)]
    unsafe fn singles(at: *const u8, _: usize) -> Floats {
        let raw = unsafe { at.cast::<[[u8; 4]; GROUP]>().read_unaligned() };
        raw.map(f32::from_le_bytes)
    }

    #[inline(always)]
    unsafe fn halves(at: *const u8, _: usize) -> Floats {
        let raw = unsafe { at.cast::<[[u8; 2]; GROUP]>().read_unaligned() };
        raw.map(|x| f16::from_le_bytes(x).to_f32())
    }

    #[inline(always)]
    unsafe fn brains(at: *const u8, _: usize) -> Floats {
        let raw = unsafe { at.cast::<[[u8; 2]; GROUP]>().read_unaligned() };
        raw.map(|x| bf16::from_le_bytes(x).to_f32())
    }

    #[inline(always)]
    unsafe fn bytes(at: *const u8, _: usize) -> Bytes {
        unsafe { at.cast::<Bytes>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn and(a: Bytes, mask: u8) -> Bytes {
        a.map(|a| a & mask)
    }

    #[inline(always)]
    unsafe fn or(a: Bytes, b: Bytes) -> Bytes {
        std::array::from_fn(|i| a[i] | b[i])
    }

    #[inline(always)]
    unsafe fn turn(a: Bytes) -> Bytes {
        a.map(|a| a ^ 128)
    }

    #[inline(always)]
    unsafe fn left(a: Bytes, by: i32) -> Bytes {
        a.map(|a| a << by)
    }

    #[inline(always)]
    unsafe fn right(a: Bytes, by: i32) -> Bytes {
        a.map(|a| a >> by)
    }

    #[inline(always)]
    unsafe fn unsigned(a: Bytes, index: i32) -> Floats {
        std::array::from_fn(|row| f32::from(a[4 * row + index as usize]))
    }

    #[inline(always)]
    unsafe fn signed(a: Bytes, index: i32) -> Floats {
        std::array::from_fn(|row| f32::from(a[4 * row + index as usize] as i8))
    }

    #[inline(always)]
    unsafe fn dot<const N: usize>(weights: &[Bytes; N], x: *const i8, _: u32) -> Floats {
        let mut sums = [0i32; GROUP];
        for (i, w) in weights.iter().enumerate() {
            let x: [i8; 4] = unsafe { x.add(4 * i).cast::<[i8; 4]>().read_unaligned() };
            for (row, sum) in sums.iter_mut().enumerate() {
                for k in 0..4 {
                    *sum += i32::from(w[4 * row + k] as i8) * i32::from(x[k]);
                }
            }
        }
        sums.map(|sum| sum as f32)
    }
}

kernels!(Plain);
