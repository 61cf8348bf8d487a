//! Everything that a seed decides is thrown here.

use std::time::Duration;

use terrace_router::random::Random;

/// Throws that follow from a seed.
#[derive(Debug)]
pub struct Dice(Random);

impl Dice {
    /// The throws of one part of a seed's world: each part has its own, so that more of one does not change another.
    pub fn of(seed: u64, part: &str) -> Self {
        let part =
            part.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
        Self(Random::seeded(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ part))
    }

    pub fn below(&self, n: u64) -> u64 {
        (self.0.draw() * n as f64) as u64
    }

    /// From `least` to `most`, both included.
    pub fn between(&self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    pub fn millis(&self, least: u64, most: u64) -> Duration {
        Duration::from_millis(self.between(least, most))
    }

    pub fn percent(&self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn pick<T: Copy>(&self, from: &[T]) -> T {
        from[usize::try_from(self.below(from.len() as u64)).unwrap()]
    }

    /// One of these, each as likely as its weight.
    pub fn weighed<T: Copy>(&self, from: &[(u64, T)]) -> T {
        let mut left = self.below(from.iter().map(|(weight, _)| weight).sum());
        for (weight, value) in from {
            if left < *weight {
                return *value;
            }
            left -= weight;
        }
        unreachable!("the weights are what was summed")
    }
}
