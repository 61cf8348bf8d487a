//! Numbers from a seed: the only randomness of a simulation, so that a run can be repeated.
//!
//! SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): 64 bits of state, passes BigCrush, and streams of different seeds are
//! unrelated. Statistics need no more, and the generators of crates come with a way to the system's entropy.

/// A stream of numbers.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The stream of one thing under a seed: each thing has its own, so that adding one does not move the others.
    pub fn of(seed: u64, thing: u64) -> Self {
        Self(Self(seed ^ thing.wrapping_mul(0xd134_2543_de82_ef95)).bits())
    }

    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `0..1`.
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Standard normal (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Exponential with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.uniform()).ln()
    }

    /// Log-normal around 1: `exp(sigma N - sigma^2 / 2)`, whose mean is 1.
    pub fn around_one(&mut self, sigma: f64) -> f64 {
        if sigma == 0.0 { 1.0 } else { (sigma * self.normal() - sigma * sigma / 2.0).exp() }
    }

    /// One of the values, by weight; none if no weight is positive.
    pub fn pick<'a, T>(&mut self, values: &'a [(T, u32)]) -> Option<&'a T> {
        let all: u64 = values.iter().map(|(_, weight)| u64::from(*weight)).sum();
        let mut at = (self.uniform() * all as f64) as u64;
        values.iter().find_map(|(value, weight)| {
            let here = at < u64::from(*weight);
            at = at.saturating_sub(u64::from(*weight));
            here.then_some(value)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_what_they_should_be_and_a_seed_repeats() {
        let mut random = Random::new(7);
        let n = 100_000;
        let mut sums = [0.0; 4];
        for _ in 0..n {
            let values = [random.uniform(), random.normal().powi(2), random.exponential(3.0), random.around_one(0.3)];
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        }
        for (sum, mean) in sums.into_iter().zip([0.5, 1.0, 3.0, 1.0]) {
            assert!((sum / f64::from(n) - mean).abs() < 0.03 * mean, "{sums:?}");
        }
        assert_eq!(Random::of(1, 2).uniform(), Random::of(1, 2).uniform());
        assert_ne!(Random::of(1, 2).uniform(), Random::of(1, 3).uniform());
    }

    #[test]
    fn weights_are_shares() {
        let mut random = Random::new(1);
        let values = [('a', 70), ('b', 0), ('c', 30)];
        let a = (0..10_000).filter(|_| random.pick(&values) == Some(&'a')).count();
        assert!((6_800..7_200).contains(&a), "{a}");
        assert_eq!(random.pick::<char>(&[('x', 0)]), None);
    }
}
