//! How long a source may bring nothing, or next to nothing, before that is the answer.

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

/// Bytes a second that a source has to bring on average: less is no download that anybody waits for. A slower limit of the
/// operator's own counts for half of itself.
const LEAST: u64 = 1024;

/// Runs anew each time that as much has come as the least rate brings within it: a byte now and then does not.
pub(super) struct Patience {
    limit: Duration,
    least: u64,
    since: Instant,
    /// Bytes since then.
    came: u64,
}

impl Patience {
    pub(super) fn new(limit: Duration, per_second: Option<NonZeroU64>, now: Instant) -> Self {
        let rate = per_second.map_or(LEAST, |most| LEAST.min(most.get() / 2));
        Patience { limit, least: (rate as f64 * limit.as_secs_f64()) as u64, since: now, came: 0 }
    }

    /// So many bytes more.
    pub(super) fn came(&mut self, bytes: usize, now: Instant) {
        self.came += bytes as u64;
        if self.came >= self.least {
            (self.since, self.came) = (now, 0);
        }
    }

    /// Whether it ends within `wait` from now.
    pub(super) fn ends(&self, wait: Duration, now: Instant) -> bool {
        now.saturating_duration_since(self.since) + wait > self.limit
    }

    /// Why it ended.
    pub(super) fn too_slow(&self) -> String {
        format!("it brought only {} bytes within {} s (--pull-patience)", self.came, self.limit.as_secs_f32())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trickle_ends_it_and_a_slow_link_does_not() {
        let second = Duration::from_secs(1);
        let lasts = |per_second: Option<u64>, bytes: usize, every: u32| {
            let began = Instant::now();
            let mut patience = Patience::new(120 * second, per_second.and_then(NonZeroU64::new), began);
            (1..100_000u32).step_by(every as usize).find(|n| {
                let now = began + *n * second;
                patience.came(bytes, now);
                patience.ends(Duration::ZERO, now)
            })
        };
        assert_eq!(lasts(None, 1, 19), Some(1 + 7 * 19), "a byte each 19 s");
        assert!(lasts(None, 500, 1).is_some_and(|n| n <= 122), "half of what is the least");
        assert_eq!(lasts(None, 1100, 1), None, "8.8 kbit/s");
        assert_eq!(lasts(None, 100_000, 60), None, "in bursts");
        assert_eq!(lasts(Some(100), 90, 1), None, "as slow as it was told to be");
        // Silence, and no patience at all.
        let now = Instant::now();
        assert!(Patience::new(second, None, now).ends(Duration::ZERO, now + 2 * second));
        assert!(Patience::new(Duration::ZERO, None, now).ends(second, now));
        assert!(!Patience::new(Duration::ZERO, None, now).ends(Duration::ZERO, now));
    }
}
