//! What a row of logits says as a distribution, in passes that the compiler turns into vector code.

/// Figures of one distribution, before any temperature.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Distribution {
    /// A logit less this is a log-probability.
    pub log_sum_exp: f32,
    /// In nats.
    pub entropy: f32,
    /// Difference between the two largest probabilities.
    pub margin: f32,
}

const LANES: usize = 16;

impl Distribution {
    /// None if the logits are empty or not all numbers.
    pub fn of(logits: &[f32]) -> Option<Distribution> {
        let max = largest(logits);
        let at = logits.iter().position(|x| *x == max)?;
        let second = largest(&logits[..at]).max(largest(&logits[at + 1..]));
        let (sum, weighted) = sums(logits, max);
        let log_sum = sum.ln();
        let distribution = Distribution {
            log_sum_exp: max + log_sum,
            entropy: (log_sum - weighted / sum).max(0.0),
            margin: (1.0 - exp(second - max)) / sum,
        };
        (distribution.log_sum_exp.is_finite() && distribution.entropy.is_finite()).then_some(distribution)
    }
}

fn largest(values: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let chunks = values.chunks_exact(LANES);
    let rest = chunks.remainder().iter().copied().fold(f32::NEG_INFINITY, f32::max);
    for chunk in chunks {
        lanes.iter_mut().zip(chunk).for_each(|(lane, x)| *lane = if *x > *lane { *x } else { *lane });
    }
    lanes.into_iter().fold(rest, f32::max)
}

/// Sum of e^(x - max), and of (x - max) e^(x - max).
fn sums(values: &[f32], max: f32) -> (f32, f32) {
    let (mut sum, mut weighted) = ([0.0f32; LANES], [0.0f32; LANES]);
    let chunks = values.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for lane in 0..LANES {
            let x = (chunk[lane] - max).max(LOWEST);
            let e = exp(x);
            sum[lane] += e;
            weighted[lane] += x * e;
        }
    }
    let rest = rest.iter().map(|x| (x - max).max(LOWEST)).fold((0.0, 0.0), |(s, w), x| (s + exp(x), w + x * exp(x)));
    // A NaN is dropped by `max` above; count it here so that the caller sees it.
    let spoiled = if values.iter().any(|x| x.is_nan()) { f32::NAN } else { 0.0 };
    (sum.iter().sum::<f32>() + rest.0 + spoiled, weighted.iter().sum::<f32>() + rest.1)
}

/// Below this, e^x is nothing beside 1, and still a normal number.
const LOWEST: f32 = -87.0;

/// e^x for x from -87 to 0, without branches: 2^n times a polynomial (Cephes). Within 2 units in the last place.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    // 1.5 * 2^23: what is added to it is rounded to a whole number, which then stands in the low bits.
    const ROUND: f32 = 12_582_912.0;
    let rounded = x * std::f32::consts::LOG2_E + ROUND;
    let n = rounded - ROUND;
    let r = x - n * 0.693_359_4 + n * 2.121_944_4e-4;
    let mut p = 1.987_569_1e-4f32;
    for c in [1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        p = p * r + c;
    }
    let p = p * r * r + r + 1.0;
    // Of the bits, not of `n`: a conversion that minds what is no number is done one by one.
    p * f32::from_bits(rounded.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127) << 23)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fast_exponential_is_the_exponential() {
        for i in 0..=87_000 {
            let x = -(i as f32) / 1000.0;
            let (fast, exact) = (exp(x), x.exp());
            assert!((fast - exact).abs() <= 4e-7 * exact, "{x}: {fast} {exact}");
        }
    }

    #[test]
    fn figures_are_those_of_the_definition() {
        let logits: Vec<f32> = (0..1003).map(|i| (i as f32 * 0.37).sin() * 6.0).collect();
        let exact: Vec<f64> = logits.iter().map(|x| f64::from(*x).exp()).collect();
        let total: f64 = exact.iter().sum();
        let entropy: f64 = exact.iter().map(|e| -(e / total) * (e / total).ln()).sum();
        let mut sorted = exact.clone();
        sorted.sort_by(|a, b| b.total_cmp(a));
        let d = Distribution::of(&logits).unwrap();
        assert!((f64::from(d.log_sum_exp) - total.ln()).abs() < 1e-5);
        assert!((f64::from(d.entropy) - entropy).abs() < 1e-4, "{} {entropy}", d.entropy);
        assert!((f64::from(d.margin) - (sorted[0] - sorted[1]) / total).abs() < 1e-6);
    }

    #[test]
    fn what_is_not_a_distribution_is_none() {
        assert_eq!(Distribution::of(&[]), None);
        assert_eq!(Distribution::of(&[f32::NAN; 3]), None);
        assert_eq!(Distribution::of(&[1.0, f32::NAN, 3.0]), None);
        assert_eq!(Distribution::of(&[1.0, f32::INFINITY]), None);
        assert_eq!(Distribution::of(&[f32::NEG_INFINITY; 20]), None);
        assert!(Distribution::of(&[0.0, f32::NEG_INFINITY]).is_some());
    }
}
