//! When a second attempt is worth starting: an answer that has not begun after the time in which nearly all of its tier's
//! answers begin.
//!
//! The time is the tier's own: a percentile of the first tokens that came from it lately. A request whose forecast is
//! longer than that (a long prompt) is given its forecast. Until a tier has shown [`ENOUGH`] first tokens it is not hedged
//! at all: a guess would either double the load or never come.

use terrace_contract::policy::HedgeMode;
use terrace_contract::tier::{Backend, Tier};

/// First tokens that are remembered of a tier.
const REMEMBERED: usize = 128;
/// First tokens without which nothing is said.
pub const ENOUGH: usize = 20;
/// No hedge sooner than this, whatever the percentile: below it the second attempt costs more than it saves.
const SOONEST_US: u64 = 5_000;

/// The last first tokens of one tier. A plain value: its owner keeps it behind its own lock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FirstTokens {
    times_us: Vec<u64>,
    next: usize,
}

impl FirstTokens {
    /// One came after so long.
    pub fn observe(&mut self, us: u64) {
        if self.times_us.len() < REMEMBERED {
            self.times_us.push(us);
        } else {
            self.times_us[self.next] = us;
        }
        self.next = (self.next + 1) % REMEMBERED;
    }

    /// The time within which this percent of them came; none: too few are known.
    pub fn percentile(&self, percent: u8) -> Option<u64> {
        if self.times_us.len() < ENOUGH {
            return None;
        }
        let mut times = self.times_us.clone();
        let rank = (times.len() * usize::from(percent.min(100))).div_ceil(100).clamp(1, times.len()) - 1;
        Some(*times.select_nth_unstable(rank).1)
    }

    /// When a second attempt starts beside one that is forecast to begin after `forecast_us`, from its start.
    pub fn after(&self, percent: u8, forecast_us: f64) -> Option<u64> {
        self.percentile(percent).map(|usual| usual.max(forecast_us.max(0.0) as u64).max(SOONEST_US))
    }
}

/// Whether a second attempt may go to a tier. An agent's time is paid for whoever uses it; a tier with a price for tokens
/// is paid twice when two answer.
pub fn may(mode: HedgeMode, tier: &Tier) -> bool {
    match mode {
        HedgeMode::Disabled => false,
        HedgeMode::Any => true,
        HedgeMode::Free => {
            let cost = &tier.cost;
            let priced = cost.per_million_input_micros > 0 || cost.per_million_output_micros > 0;
            matches!(tier.backend, Backend::Fleet(_)) || !priced
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_said_of_a_tier_that_has_not_shown_enough() {
        let mut seen = FirstTokens::default();
        for us in 1..ENOUGH as u64 {
            seen.observe(us);
        }
        assert_eq!(seen.after(95, 0.0), None);
        seen.observe(20);
        assert_eq!((seen.percentile(95), seen.percentile(50), seen.percentile(100)), (Some(19), Some(10), Some(20)));
    }

    #[test]
    fn it_waits_for_the_percentile_or_the_forecast_and_forgets_what_is_old() {
        let mut seen = FirstTokens::default();
        (0..200).for_each(|_| seen.observe(900_000));
        assert_eq!(seen.after(95, 1_500_000.0), Some(1_500_000), "a long prompt is given its forecast");
        (0..REMEMBERED).for_each(|_| seen.observe(100_000));
        assert_eq!(seen.after(95, 0.0), Some(100_000));
        (0..REMEMBERED).for_each(|_| seen.observe(1));
        assert_eq!(seen.after(95, f64::NAN), Some(SOONEST_US));
    }
}
