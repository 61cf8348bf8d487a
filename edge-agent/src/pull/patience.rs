//! How long a source may bring nothing, next to nothing, or only what came before, before that is the answer.

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

/// Bytes a second that a source has to bring on average: less is no download that anybody waits for. A slower limit of the
/// operator's own counts for half of itself.
const LEAST: u64 = 1024;

/// Runs out where a source brings too little, unless as much has come as the least rate brings within it: a byte now and
/// then does not count.
///
/// Within an answer all of its bytes count. Between attempts only those do that go further than any before: a source that
/// cuts and begins anew each time brings as many bytes as anybody likes, and never the file.
pub(super) struct Patience {
    limit: Duration,
    least: u64,
    flow: Window,
    gain: Window,
    /// The furthest byte that was ever held.
    furthest: u64,
}

/// Bytes since some time.
struct Window {
    since: Instant,
    came: u64,
}

impl Window {
    fn add(&mut self, bytes: u64, least: u64, now: Instant) {
        self.came += bytes;
        if self.came >= least {
            (self.since, self.came) = (now, 0);
        }
    }
}

impl Patience {
    /// With so many bytes of the file held already.
    pub(super) fn new(limit: Duration, per_second: Option<NonZeroU64>, held: u64, now: Instant) -> Self {
        let rate = per_second.map_or(LEAST, |most| LEAST.min(most.get() / 2));
        let window = || Window { since: now, came: 0 };
        let least = (rate as f64 * limit.as_secs_f64()) as u64;
        Patience { limit, least, flow: window(), gain: window(), furthest: held }
    }

    /// So many bytes more, of the file now those up to `held`.
    pub(super) fn came(&mut self, bytes: usize, held: u64, now: Instant) {
        self.flow.add(bytes as u64, self.least, now);
        if held > self.furthest {
            self.gain.add(held - self.furthest, self.least, now);
            self.furthest = held;
        }
    }

    /// The furthest byte that was ever held.
    pub(super) fn furthest(&self) -> u64 {
        self.furthest
    }

    /// Whether too little comes: an answer is not worth its end.
    pub(super) fn trickles(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.flow.since) > self.limit
    }

    /// Whether it ends within `wait` from now: another attempt is not worth it.
    pub(super) fn ends(&self, wait: Duration, now: Instant) -> bool {
        now.saturating_duration_since(self.flow.since.min(self.gain.since)) + wait > self.limit
    }

    /// Why an answer is given up.
    pub(super) fn too_slow(&self) -> String {
        format!("it brought only {} bytes within {} s (--pull-patience)", self.flow.came, self.limit.as_secs_f32())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_trickle_ends_it_and_a_slow_link_does_not() {
        let lasts = |per_second: Option<u64>, bytes: usize, every: u32| {
            let began = Instant::now();
            let mut patience = Patience::new(120 * SECOND, per_second.and_then(NonZeroU64::new), 0, began);
            let mut held = 0;
            (1..100_000u32).step_by(every as usize).find(|n| {
                let now = began + *n * SECOND;
                held += bytes as u64;
                patience.came(bytes, held, now);
                assert_eq!(patience.trickles(now), patience.ends(Duration::ZERO, now));
                patience.trickles(now)
            })
        };
        assert_eq!(lasts(None, 1, 19), Some(1 + 7 * 19), "a byte each 19 s");
        assert!(lasts(None, 500, 1).is_some_and(|n| n <= 122), "half of what is the least");
        assert_eq!(lasts(None, 1100, 1), None, "8.8 kbit/s");
        assert_eq!(lasts(None, 100_000, 60), None, "in bursts");
        assert_eq!(lasts(Some(100), 90, 1), None, "as slow as it was told to be");
        // Silence, and no patience at all.
        let now = Instant::now();
        assert!(Patience::new(SECOND, None, 0, now).ends(Duration::ZERO, now + 2 * SECOND));
        assert!(Patience::new(Duration::ZERO, None, 0, now).ends(SECOND, now));
        assert!(!Patience::new(Duration::ZERO, None, 0, now).ends(Duration::ZERO, now));
    }

    /// Attempts that each bring what the first one brought.
    #[test]
    fn bytes_that_came_before_keep_an_answer_alive_and_are_no_progress() {
        let began = Instant::now();
        let mut patience = Patience::new(120 * SECOND, None, 0, began);
        let ended = (0..100u32).find(|attempt| {
            let begins = began + 10 * *attempt * SECOND;
            for n in 1..10u32 {
                let now = begins + n * SECOND;
                patience.came(1_000_000, u64::from(n) * 1_000_000, now);
                assert!(!patience.trickles(now), "it is quick enough");
            }
            patience.ends(Duration::ZERO, begins + 10 * SECOND)
        });
        assert_eq!((ended, patience.furthest()), (Some(12), 9_000_000), "two minutes after the first");
        // One long answer from the beginning may take longer than the patience, and pass what came before.
        let mut patience = Patience::new(120 * SECOND, None, 900_000_000, began);
        for n in 1..1000u32 {
            let now = began + n * SECOND;
            patience.came(1_000_000, u64::from(n) * 1_000_000, now);
            assert!(!patience.trickles(now));
        }
        assert!(!patience.ends(Duration::ZERO, began + 1000 * SECOND));
    }
}
