//! How fast a download may read.

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

/// Keeps the average at or under a number of bytes a second. Time that was not used is not saved up, so a link never
/// carries more than that for long.
pub(super) struct Pace {
    per_second: Option<NonZeroU64>,
    /// When what was read so far is paid for.
    due: Option<Instant>,
}

impl Pace {
    pub(super) fn new(per_second: Option<NonZeroU64>) -> Self {
        Self { per_second, due: None }
    }

    /// How long to wait after so many bytes before more are read. Nothing is read meanwhile, so TCP slows the sender.
    pub(super) fn wait(&mut self, bytes: usize, now: Instant) -> Duration {
        let Some(rate) = self.per_second else { return Duration::ZERO };
        let due = self.due.map_or(now, |due| due.max(now)) + Duration::from_secs_f64(bytes as f64 / rate.get() as f64);
        self.due = Some(due);
        due.duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_is_the_rate_and_idle_time_is_not_saved_up() {
        let (mut now, mut pace) = (Instant::now(), Pace::new(NonZeroU64::new(1000)));
        let began = now;
        for _ in 0..10 {
            now += pace.wait(500, now);
        }
        assert_eq!((now - began).as_millis(), 5000);
        now += Duration::from_secs(100);
        assert_eq!(pace.wait(1000, now).as_millis(), 1000);
        // Who does not wait pays later.
        assert_eq!(pace.wait(1000, now).as_millis(), 2000);
        assert_eq!(Pace::new(None).wait(usize::MAX, now), Duration::ZERO);
    }
}
