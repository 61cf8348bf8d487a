//! Eight neighbouring weights of one row as numbers.
#![allow(missing_docs, reason = "CubeCL's macro makes items that cannot be documented")]

use cubecl::prelude::*;
use half::f16;

use super::format::Format;

/// Writes the numbers of a chunk behind those that are in `to` already: at `at` and the seven after it. `chunks`: of a row.
#[cube]
pub(super) fn unpack(
    words: &Array<u32>,
    row: usize,
    chunk: usize,
    chunks: usize,
    to: &mut Array<f32>,
    at: usize,
    #[comptime] format: Format,
) {
    match format {
        Format::F32 => f32s(words, (row * chunks + chunk) * 8, to, at),
        Format::F16 => f16s(words, (row * chunks + chunk) * 4, to, at),
        Format::Bf16 => bf16s(words, (row * chunks + chunk) * 4, to, at),
        Format::Q4 => q4(words, row * (chunks / 4) + chunk / 4, chunk % 4, to, at),
        Format::Q5 => q5(words, row * (chunks / 4) + chunk / 4, chunk % 4, to, at),
        Format::Q8 => q8(words, row * (chunks / 4) + chunk / 4, chunk % 4, to, at),
        Format::Q4K => q4_k(words, row * (chunks / 32) + chunk / 32, chunk % 32, to, at),
        Format::Q5K => q5_k(words, row * (chunks / 32) + chunk / 32, chunk % 32, to, at),
        Format::Q6K => q6_k(words, row * (chunks / 32) + chunk / 32, chunk % 32, to, at),
    }
}

/// Two 16-bit floats of a word.
#[cube]
fn halves(word: u32) -> (f32, f32) {
    let pair = Vector::<f16, Const<2>>::reinterpret(word);
    (f32::cast_from(pair[0]), f32::cast_from(pair[1]))
}

#[cube]
fn f32s(words: &Array<u32>, base: usize, to: &mut Array<f32>, at: usize) {
    #[unroll]
    for n in 0..8usize {
        to[at + n] = f32::reinterpret(words[base + n]);
    }
}

#[cube]
fn f16s(words: &Array<u32>, base: usize, to: &mut Array<f32>, at: usize) {
    #[unroll]
    for n in 0..4usize {
        let (low, high) = halves(words[base + n]);
        to[at + 2 * n] = low;
        to[at + 2 * n + 1] = high;
    }
}

#[cube]
fn bf16s(words: &Array<u32>, base: usize, to: &mut Array<f32>, at: usize) {
    #[unroll]
    for n in 0..4usize {
        let word = words[base + n];
        to[at + 2 * n] = f32::reinterpret(word << 16u32);
        to[at + 2 * n + 1] = f32::reinterpret(word & 0xffff_0000u32);
    }
}

/// Eight nibbles, with their upper bits already in place in `upper` (of which the n-th number takes those at
/// `n * width`), scaled.
#[cube]
fn scaled(nibbles: u32, upper: u32, scale: f32, minimum: f32, to: &mut Array<f32>, at: usize, #[comptime] width: u32) {
    let mask = comptime!((1u32 << width) - 1);
    #[unroll]
    for n in 0..8usize {
        let place = n as u32;
        let mut q = (nibbles >> (4u32 * place)) & 15u32;
        if comptime!(width > 0) {
            q |= ((upper >> (width * place)) & mask) << 4u32;
        }
        to[at + n] = f32::cast_from(q) * scale + minimum;
    }
}

#[cube]
fn q4(words: &Array<u32>, block: usize, chunk: usize, to: &mut Array<f32>, at: usize) {
    let base = block * 5;
    let (scale, minimum) = halves(words[base]);
    scaled(words[base + 1 + chunk], 0u32, scale, minimum, to, at, 0u32);
}

#[cube]
fn q5(words: &Array<u32>, block: usize, chunk: usize, to: &mut Array<f32>, at: usize) {
    let base = block * 6;
    let (scale, minimum) = halves(words[base]);
    let upper = words[base + 1] >> (8u32 * chunk as u32);
    scaled(words[base + 2 + chunk], upper, scale, minimum, to, at, 1u32);
}

#[cube]
fn q8(words: &Array<u32>, block: usize, chunk: usize, to: &mut Array<f32>, at: usize) {
    let base = block * 9;
    let (scale, _rest) = halves(words[base]);
    #[unroll]
    for half in 0..2usize {
        let word = words[base + 1 + chunk * 2 + half];
        #[unroll]
        for n in 0..4usize {
            to[at + half * 4 + n] = f32::cast_from(signed_byte(word, n as u32)) * scale;
        }
    }
}

/// The n-th byte of a word, from -128 to 127.
#[cube]
fn signed_byte(word: u32, n: u32) -> i32 {
    let byte = (word >> (8u32 * n)) & 255u32;
    // The upper bit counts -128 instead of 128.
    i32::cast_from(byte ^ 128u32) - 128i32
}

/// Scale and minimum of a chunk's group of 32 in blocks of 256.
#[cube]
fn group_scales(words: &Array<u32>, base: usize, chunk: usize) -> (f32, f32) {
    let (scale, minimum) = halves(words[base]);
    let group = chunk / 4;
    let pair = words[base + 1 + group / 2] >> (16u32 * (group % 2) as u32);
    (scale * f32::cast_from(pair & 255u32), -(minimum * f32::cast_from((pair >> 8u32) & 255u32)))
}

#[cube]
fn q4_k(words: &Array<u32>, block: usize, chunk: usize, to: &mut Array<f32>, at: usize) {
    let base = block * 37;
    let (scale, minimum) = group_scales(words, base, chunk);
    scaled(words[base + 5 + chunk], 0u32, scale, minimum, to, at, 0u32);
}

#[cube]
fn q5_k(words: &Array<u32>, block: usize, chunk: usize, to: &mut Array<f32>, at: usize) {
    let base = block * 45;
    let (scale, minimum) = group_scales(words, base, chunk);
    let upper = words[base + 5 + chunk / 4] >> (8u32 * (chunk % 4) as u32);
    scaled(words[base + 13 + chunk], upper, scale, minimum, to, at, 1u32);
}

#[cube]
fn q6_k(words: &Array<u32>, block: usize, chunk: usize, to: &mut Array<f32>, at: usize) {
    let base = block * 53;
    let (scale, _rest) = halves(words[base]);
    let group = chunk / 2;
    let factor = signed_byte(words[base + 1 + group / 4], (group % 4) as u32);
    let scale = scale * f32::cast_from(factor);
    let upper = words[base + 5 + chunk / 2] >> (16u32 * (chunk % 2) as u32);
    scaled(words[base + 21 + chunk], upper, scale, scale * f32::new(-32.0), to, at, 2u32);
}
