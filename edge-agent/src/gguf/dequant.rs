//! Stored numbers to `f32`: the reference that every kernel is compared with, and the path of formats without one.

use half::{bf16, f16};

use super::GgmlType;

/// Writes the numbers of whole blocks. `bytes` holds exactly the blocks that `out` has room for: callers slice both
/// from a tensor whose size was checked when the file was opened.
pub fn dequantize(kind: GgmlType, bytes: &[u8], out: &mut [f32]) {
    debug_assert_eq!(bytes.len() / kind.block_bytes() * kind.block_len(), out.len());
    let blocks = bytes.chunks_exact(kind.block_bytes()).zip(out.chunks_exact_mut(kind.block_len()));
    match kind {
        GgmlType::F32 => blocks.for_each(|(b, y)| y[0] = f32::from_le_bytes([b[0], b[1], b[2], b[3]])),
        GgmlType::F16 => blocks.for_each(|(b, y)| y[0] = half(b)),
        GgmlType::BF16 => blocks.for_each(|(b, y)| y[0] = bf16::from_le_bytes([b[0], b[1]]).to_f32()),
        GgmlType::Q4_0 => blocks.for_each(|(b, y)| q4(y, half(b), -8.0 * half(b), &b[2..])),
        GgmlType::Q4_1 => blocks.for_each(|(b, y)| q4(y, half(b), half(&b[2..]), &b[4..])),
        GgmlType::Q5_0 => blocks.for_each(|(b, y)| q5(y, half(b), -16.0 * half(b), &b[2..6], &b[6..])),
        GgmlType::Q5_1 => blocks.for_each(|(b, y)| q5(y, half(b), half(&b[2..]), &b[4..8], &b[8..])),
        GgmlType::Q8_0 => blocks.for_each(|(b, y)| {
            let scale = half(b);
            y.iter_mut().zip(&b[2..]).for_each(|(y, &q)| *y = scale * f32::from(q as i8));
        }),
        GgmlType::Q4_K => blocks.for_each(|(b, y)| q4_k(b, y)),
        GgmlType::Q5_K => blocks.for_each(|(b, y)| q5_k(b, y)),
        GgmlType::Q6_K => blocks.for_each(|(b, y)| q6_k(b, y)),
    }
}

fn half(bytes: &[u8]) -> f32 {
    f16::from_le_bytes([bytes[0], bytes[1]]).to_f32()
}

/// 32 numbers: the low nibbles are the first half, the high ones the second.
fn q4(y: &mut [f32], scale: f32, min: f32, nibbles: &[u8]) {
    for i in 0..16 {
        y[i] = scale * f32::from(nibbles[i] & 15) + min;
        y[i + 16] = scale * f32::from(nibbles[i] >> 4) + min;
    }
}

/// As [`q4`], with the fifth bit of each number in `high`.
fn q5(y: &mut [f32], scale: f32, min: f32, high: &[u8], nibbles: &[u8]) {
    let high = u32::from_le_bytes([high[0], high[1], high[2], high[3]]);
    for i in 0..16 {
        let low_half = nibbles[i] & 15 | ((high >> i & 1) as u8) << 4;
        let high_half = nibbles[i] >> 4 | ((high >> (i + 16) & 1) as u8) << 4;
        y[i] = scale * f32::from(low_half) + min;
        y[i + 16] = scale * f32::from(high_half) + min;
    }
}

/// Scale and minimum of the `j`-th of eight groups, six bits each, packed in 12 bytes.
fn scale_min(j: usize, packed: &[u8]) -> (f32, f32) {
    let (scale, min) = if j < 4 {
        (packed[j] & 63, packed[j + 4] & 63)
    } else {
        (packed[j + 4] & 15 | packed[j - 4] >> 6 << 4, packed[j + 4] >> 4 | packed[j] >> 6 << 4)
    };
    (f32::from(scale), f32::from(min))
}

fn q4_k(b: &[u8], y: &mut [f32]) {
    let (d, dmin, scales, quants) = (half(b), half(&b[2..]), &b[4..16], &b[16..144]);
    for (pair, (y, q)) in y.chunks_exact_mut(64).zip(quants.chunks_exact(32)).enumerate() {
        let (low, low_min) = scale_min(2 * pair, scales);
        let (high, high_min) = scale_min(2 * pair + 1, scales);
        for i in 0..32 {
            y[i] = d * low * f32::from(q[i] & 15) - dmin * low_min;
            y[i + 32] = d * high * f32::from(q[i] >> 4) - dmin * high_min;
        }
    }
}

fn q5_k(b: &[u8], y: &mut [f32]) {
    let (d, dmin, scales, bits, quants) = (half(b), half(&b[2..]), &b[4..16], &b[16..48], &b[48..176]);
    for (pair, (y, q)) in y.chunks_exact_mut(64).zip(quants.chunks_exact(32)).enumerate() {
        let (low, low_min) = scale_min(2 * pair, scales);
        let (high, high_min) = scale_min(2 * pair + 1, scales);
        for i in 0..32 {
            let fifth = |bit: usize| (bits[i] >> bit & 1) << 4;
            y[i] = d * low * f32::from(q[i] & 15 | fifth(2 * pair)) - dmin * low_min;
            y[i + 32] = d * high * f32::from(q[i] >> 4 | fifth(2 * pair + 1)) - dmin * high_min;
        }
    }
}

fn q6_k(b: &[u8], y: &mut [f32]) {
    let (low, high, scales, d) = (&b[..128], &b[128..192], &b[192..208], half(&b[208..]));
    for part in 0..2 {
        let (low, high) = (&low[part * 64..], &high[part * 32..]);
        let (scales, y) = (&scales[part * 8..], &mut y[part * 128..(part + 1) * 128]);
        for i in 0..32 {
            let group = i / 16;
            let quads = [
                low[i] & 15 | (high[i] & 3) << 4,
                low[i + 32] & 15 | (high[i] >> 2 & 3) << 4,
                low[i] >> 4 | (high[i] >> 4 & 3) << 4,
                low[i + 32] >> 4 | (high[i] >> 6) << 4,
            ];
            for (k, q) in quads.into_iter().enumerate() {
                y[i + 32 * k] = d * f32::from(scales[group + 2 * k] as i8) * (f32::from(q) - 32.0);
            }
        }
    }
}
