//! Keeps forecasts honest: a factor per device, moved so that a share q of the actual times lie under the forecast:
//! 80 % under the one that is shown and compared, 98 % under the one that must keep the budget.
//!
//! Stochastic quantile tracking: an actual above the forecast stretches the factor by `STEP * q`, one below shrinks it
//! by `STEP * (1 - q)`; the two balance where one in 1 / (1 - q) is above.
//!
//! A factor that nothing confirms goes back towards 1. Without that a device whose luck was bad once is forecast too
//! late to be chosen, is not chosen, and so never shows that it has become better.

use serde::{Deserialize, Serialize};

/// Share of actual times that should lie under the forecast.
pub const QUANTILE: f64 = 0.8;
/// Share of actual times that should lie under the forecast that must keep the budget.
pub const TAIL: f64 = 0.98;
const STEP: f64 = 0.05;
/// The time after which half of an unconfirmed factor (its logarithm) is left.
const HALF_LIFE_US: f64 = 300e6;

/// By how much a device's forecasts are stretched.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Correction {
    factor: f64,
    quantile: f64,
    at_us: u64,
}

impl Default for Correction {
    fn default() -> Self {
        Self::of(QUANTILE)
    }
}

impl Correction {
    /// One that keeps this share of the actual times under the forecast.
    pub fn of(quantile: f64) -> Self {
        Self { factor: 1.0, quantile, at_us: 0 }
    }

    /// The factor, as it was when the correction was last observed or relaxed.
    pub fn factor(self) -> f64 {
        self.factor
    }

    /// The correction at `now_us`, nearer to 1 by the time that has passed.
    #[must_use]
    pub fn relaxed(self, now_us: u64) -> Self {
        let age = now_us.saturating_sub(self.at_us) as f64;
        Self { factor: self.factor.powf((-age / HALF_LIFE_US).exp2()), at_us: self.at_us.max(now_us), ..self }
    }

    /// The correction after one more request, whose forecast already contained [`Correction::factor`].
    #[must_use]
    pub fn observe(self, forecast_us: f64, actual_us: f64, now_us: u64) -> Self {
        if !(forecast_us > 0.0 && actual_us > 0.0) {
            return self;
        }
        let step = if actual_us > forecast_us { STEP * self.quantile } else { -STEP * (1.0 - self.quantile) };
        let relaxed = self.relaxed(now_us);
        Self { factor: (relaxed.factor * step.exp()).clamp(0.1, 10.0), ..relaxed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_that_was_asked_for_ends_up_under_the_forecast() {
        // Actual times are 50..=149 for a raw forecast of 50, in a fixed scrambled order, one a second.
        let actual = |i: u64| 50.0 + ((i * 37) % 100) as f64;
        for (quantile, expected) in [(QUANTILE, 1450..=1700), (TAIL, 1800..=1960)] {
            let mut correction = Correction::of(quantile);
            let mut under = 0;
            for i in 0..4000 {
                let now = i * 1_000_000;
                let forecast = 50.0 * correction.relaxed(now).factor();
                if i >= 2000 && actual(i) <= forecast {
                    under += 1;
                }
                correction = correction.observe(forecast, actual(i), now);
            }
            assert!(expected.contains(&under), "{under} of 2000");
        }
    }

    #[test]
    fn nonsense_changes_nothing() {
        let one = Correction::default();
        assert_eq!(one.observe(0.0, 5.0, 1), one);
        assert_eq!(one.observe(f64::NAN, 5.0, 1), one);
    }

    #[test]
    fn bad_luck_that_nothing_confirms_is_forgotten() {
        let unlucky = (0..40).fold(Correction::default(), |c, _| c.observe(1.0, 100.0, 0));
        let at = |minutes: f64| unlucky.relaxed((minutes * 60e6) as u64).factor();
        assert!(at(0.0) > 4.0, "{}", at(0.0));
        assert!((at(5.0) - at(0.0).sqrt()).abs() < 1e-9);
        assert!(at(60.0) < 1.01, "{}", at(60.0));
    }
}
