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
    /// From -127 to 127.
    pub(super) q: [i8; BLOCK],
}

impl Quantized {
    pub(super) const ZERO: Quantized = Quantized { scale: 0.0, sum: 0.0, q: [0; BLOCK] };
}

/// Quantizes whole blocks. What is not finite becomes a scale that is not finite, so it shows in the result.
#[inline(always)]
pub(super) fn quantize(values: &[f32], out: &mut [Quantized]) {
    for (block, out) in values.chunks_exact(BLOCK).zip(out) {
        let max = block.iter().fold(0.0f32, |m, x| if x.abs() > m { x.abs() } else { m });
        let finite = block.iter().all(|x| x.is_finite());
        let scale = if finite { max / 127.0 } else { f32::NAN };
        let inverse = if max > 0.0 { 127.0 / max } else { 0.0 };
        let mut sum = 0;
        for (q, x) in out.q.iter_mut().zip(block) {
            // Adding and taking away 1.5 * 2^23 rounds to the nearest whole number.
            let rounded = (x * inverse + 12_582_912.0) - 12_582_912.0;
            *q = rounded as i8;
            sum += i32::from(*q);
        }
        out.scale = scale;
        out.sum = scale * sum as f32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_within_half_a_step() {
        let values: Vec<f32> = (0..64).map(|i| (i as f32 * 1.7).sin() * 3.0).collect();
        let mut out = [Quantized::ZERO; 2];
        quantize(&values, &mut out);
        for (block, out) in values.chunks(BLOCK).zip(&out) {
            let back: Vec<f32> = out.q.iter().map(|q| out.scale * f32::from(*q)).collect();
            assert!(block.iter().zip(&back).all(|(x, y)| (x - y).abs() <= out.scale * 0.5001));
            assert!((back.iter().sum::<f32>() - out.sum).abs() < 1e-4);
        }
    }

    #[test]
    fn what_is_not_a_number_shows() {
        let mut out = [Quantized::ZERO];
        let mut values = [1.0; 32];
        values[5] = f32::NAN;
        quantize(&values, &mut out);
        assert!(out[0].scale.is_nan());
    }
}
