//! DDSketch: quantiles with 1 % relative error that add up over replicas.
//!
//! Masson, Rim, Lee: "DDSketch: a fast and fully-mergeable quantile sketch with relative-error guarantees" (VLDB 2019).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Relative error.
const ALPHA: f64 = 0.01;

/// A sketch of non-negative integers (microseconds).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Sketch {
    /// Values below 1.
    pub zeros: u64,
    /// Count of values in `(gamma^(i-1), gamma^i]`.
    pub bins: BTreeMap<i32, u64>,
}

impl Sketch {
    fn gamma() -> f64 {
        (1.0 + ALPHA) / (1.0 - ALPHA)
    }

    /// Adds one value.
    pub fn add(&mut self, value: u64) {
        if value == 0 {
            self.zeros += 1;
        } else {
            let index = ((value as f64).ln() / Self::gamma().ln()).ceil() as i32;
            *self.bins.entry(index).or_default() += 1;
        }
    }

    /// Adds another sketch.
    pub fn merge(&mut self, other: &Sketch) {
        self.zeros += other.zeros;
        for (index, count) in &other.bins {
            *self.bins.entry(*index).or_default() += count;
        }
    }

    /// What was added since `earlier`, an older state of the same sketch; all of it if `earlier` is not one.
    pub fn since(&self, earlier: &Sketch) -> Sketch {
        let grown = self.zeros >= earlier.zeros
            && earlier.bins.iter().all(|(i, count)| self.bins.get(i).is_some_and(|now| now >= count));
        if !grown {
            return self.clone();
        }
        let bins = self
            .bins
            .iter()
            .map(|(i, count)| (*i, count - earlier.bins.get(i).copied().unwrap_or(0)))
            .filter(|(_, count)| *count > 0)
            .collect();
        Sketch { zeros: self.zeros - earlier.zeros, bins }
    }

    /// How many values it holds.
    pub fn count(&self) -> u64 {
        self.zeros + self.bins.values().sum::<u64>()
    }

    /// The value at quantile `q` in 0..=1, within 1 %; none when empty.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = (q.clamp(0.0, 1.0) * (count - 1) as f64) as u64;
        let mut seen = self.zeros;
        if rank < seen {
            return Some(0);
        }
        for (index, n) in &self.bins {
            seen += n;
            if rank < seen {
                return Some((2.0 * Self::gamma().powi(*index) / (Self::gamma() + 1.0)).round() as u64);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_one_percent_and_merging_adds() {
        let (mut left, mut right) = (Sketch::default(), Sketch::default());
        (1..=5_000u64).for_each(|v| left.add(v * 10));
        (5_001..=10_000u64).for_each(|v| right.add(v * 10));
        let first = left.clone();
        left.merge(&right);
        for q in [0.01, 0.5, 0.95, 0.99] {
            let (got, want) = (left.quantile(q).unwrap() as f64, q * 100_000.0);
            assert!((got - want).abs() / want < 0.02, "{q}: {got} {want}");
        }
        assert_eq!(left.since(&first), right);
    }
}
