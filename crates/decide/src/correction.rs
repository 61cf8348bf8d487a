//! Keeps forecasts honest: a factor per device, moved so that 80 % of the actual times lie under the forecast.
//!
//! Stochastic quantile tracking: an actual above the forecast stretches the factor by `STEP * 0.8`, one below shrinks
//! it by `STEP * 0.2`; the two balance where one in five is above.

use serde::{Deserialize, Serialize};

/// Share of actual times that should lie under the forecast.
pub const QUANTILE: f64 = 0.8;
const STEP: f64 = 0.05;

/// By how much a device's forecasts are stretched.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Correction(f64);

impl Default for Correction {
    fn default() -> Self {
        Self(1.0)
    }
}

impl Correction {
    /// The factor.
    pub fn factor(self) -> f64 {
        self.0
    }

    /// The correction after one more request, whose forecast already contained [`Correction::factor`].
    #[must_use]
    pub fn observe(self, forecast_us: f64, actual_us: f64) -> Self {
        if !(forecast_us > 0.0 && actual_us > 0.0) {
            return self;
        }
        let step = if actual_us > forecast_us { STEP * QUANTILE } else { -STEP * (1.0 - QUANTILE) };
        Self((self.0 * step.exp()).clamp(0.1, 10.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_of_five_actuals_end_up_under_the_forecast() {
        // Actual times are 50..=149 for a raw forecast of 50, in a fixed scrambled order.
        let actual = |i: u64| 50.0 + ((i * 37) % 100) as f64;
        let mut correction = Correction::default();
        let mut under = 0;
        for i in 0..4000 {
            let forecast = 50.0 * correction.factor();
            if i >= 2000 && actual(i) <= forecast {
                under += 1;
            }
            correction = correction.observe(forecast, actual(i));
        }
        assert!((1500..=1700).contains(&under), "{under} of 2000");
    }

    #[test]
    fn nonsense_changes_nothing() {
        let one = Correction::default();
        assert_eq!(one.observe(0.0, 5.0), one);
        assert_eq!(one.observe(f64::NAN, 5.0), one);
    }
}
