//! Activations in eight bits: blocks of 32 share a scale, as GGML's Q8_1.

/// Numbers of a block.
pub(super) const BLOCK: usize = 32;

/// 32 numbers.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Quantized {
    /// Each number is this times its `q`.
    pub(super) scale: f32,
    /// Sum of the 32 numbers, as quantized: what a weight's minimum is multiplied with.
    pub(super) sum: f32,
    /// Sum of the first 16, for weights with a scale to 16 columns.
    pub(super) half: f32,
    /// From -127 to 127.
    pub(super) q: [i8; BLOCK],
}

impl Quantized {
    pub(super) const ZERO: Quantized = Quantized { scale: 0.0, sum: 0.0, half: 0.0, q: [0; BLOCK] };
}

/// 1.5 * 2^23: adding it rounds to the nearest whole number, which then stands in the low bits.
const ROUND: f32 = 12_582_912.0;

/// Quantizes whole blocks. What is not finite becomes a scale that is not finite, so it shows in the result.
#[inline(always)]
pub(super) fn quantize(values: &[f32], out: &mut [Quantized]) {
    for (block, out) in values.chunks_exact(BLOCK).zip(out) {
        // Sizes compare as their bits do, and what is not finite is larger than all that is.
        let largest = block.iter().fold(0, |m: u32, x| m.max(x.to_bits() & 0x7fff_ffff));
        let max = f32::from_bits(largest);
        let finite = max.is_finite();
        // 127 over less than this is no number; such numbers become 0.
        let inverse = if finite && max > 1e-36 { 127.0 / max } else { 0.0 };
        let mut whole = [0i32; BLOCK];
        for (whole, x) in whole.iter_mut().zip(block) {
            *whole = (x * inverse + ROUND).to_bits().wrapping_sub(ROUND.to_bits()) as i32;
        }
        for (q, whole) in out.q.iter_mut().zip(&whole) {
            *q = *whole as i8;
        }
        let scale = if finite { max / 127.0 } else { f32::NAN };
        // Where something is not finite these are any numbers, and the scale says so.
        let sum = |whole: &[i32]| whole.iter().fold(0, |sum: i32, x| sum.wrapping_add(*x));
        let (half, rest) = (sum(&whole[..16]), sum(&whole[16..]));
        out.scale = scale;
        out.half = scale * half as f32;
        out.sum = scale * (half.wrapping_add(rest)) as f32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_within_half_a_step() {
        let mut values: Vec<f32> = (0..64).map(|i| (i as f32 * 1.7).sin() * 3.0).collect();
        values.extend([0.0; 32]);
        values.extend([3e37; 32]);
        let mut out = [Quantized::ZERO; 4];
        quantize(&values, &mut out);
        for (block, out) in values.chunks(BLOCK).zip(&out) {
            let back: Vec<f32> = out.q.iter().map(|q| out.scale * f32::from(*q)).collect();
            assert!(block.iter().zip(&back).all(|(x, y)| (x - y).abs() <= out.scale * 0.5001));
        }
        for out in &out[..3] {
            let back: Vec<f32> = out.q.iter().map(|q| out.scale * f32::from(*q)).collect();
            assert!((back.iter().sum::<f32>() - out.sum).abs() < 1e-4);
            assert!((back[..16].iter().sum::<f32>() - out.half).abs() < 1e-4);
        }
    }

    #[test]
    fn what_is_not_a_number_shows() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut out = [Quantized::ZERO];
            let mut values = [1.0; 32];
            values[5] = bad;
            quantize(&values, &mut out);
            assert!(out[0].scale.is_nan());
        }
    }
}
