//! A rate a minute, as a token bucket that is told the time. Each replica takes its part of what all of them share.

const MINUTE_US: u64 = 60_000_000;

/// A token bucket that holds a minute's worth. It knows no clock.
#[derive(Debug, Clone, Default)]
pub struct Bucket {
    /// Units in use, times the microseconds of a minute, to stay in integers.
    level: u128,
    at_us: u64,
}

impl Bucket {
    /// Takes `units` of `per_minute`, or says in how many microseconds they will be there.
    pub fn take(&mut self, units: u64, per_minute: u64, now_us: u64) -> Result<(), u64> {
        let per_minute = per_minute.max(1);
        self.leak(per_minute, now_us);
        let full = u128::from(per_minute) * u128::from(MINUTE_US);
        // What is larger than a whole minute's allowance passes once the bucket is empty, else it never could.
        let wanted = (u128::from(units) * u128::from(MINUTE_US)).min(full);
        if self.level + wanted <= full {
            self.level += wanted;
            return Ok(());
        }
        let over = self.level + wanted - full;
        Err(u64::try_from(over / u128::from(per_minute)).unwrap_or(u64::MAX).max(1))
    }

    /// What is left of `per_minute` now.
    pub fn left(&self, per_minute: u64, now_us: u64) -> u64 {
        let mut then = self.clone();
        then.leak(per_minute.max(1), now_us);
        let full = u128::from(per_minute) * u128::from(MINUTE_US);
        u64::try_from(full.saturating_sub(then.level) / u128::from(MINUTE_US)).unwrap_or(u64::MAX)
    }

    /// Adds what turned out to be used beyond what was taken.
    pub fn add(&mut self, units: u64) {
        self.level += u128::from(units) * u128::from(MINUTE_US);
    }

    /// Gives back what was taken and turned out not to be used.
    pub fn back(&mut self, units: u64) {
        self.level = self.level.saturating_sub(u128::from(units) * u128::from(MINUTE_US));
    }

    fn leak(&mut self, per_minute: u64, now_us: u64) {
        let elapsed = now_us.saturating_sub(self.at_us);
        self.level = self.level.saturating_sub(u128::from(elapsed) * u128::from(per_minute));
        self.at_us = now_us;
    }
}

/// This replica's part of a limit that `replicas` share; never nothing.
pub fn part(limit: u32, replicas: u32) -> u32 {
    limit.div_ceil(replicas.max(1)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_larger_than_a_minute_passes_only_when_nothing_else_is_there() {
        let mut bucket = Bucket::default();
        assert_eq!(bucket.take(500, 100, MINUTE_US), Ok(()));
        assert!(bucket.take(1, 100, MINUTE_US).is_err());
        assert_eq!((bucket.left(100, MINUTE_US), bucket.left(100, 2 * MINUTE_US)), (0, 100));
    }

    #[test]
    fn what_was_not_used_can_be_taken_again_and_what_was_used_beyond_is_owed() {
        let mut bucket = Bucket::default();
        assert_eq!(bucket.take(80, 100, MINUTE_US), Ok(()));
        bucket.back(60);
        assert_eq!(bucket.left(100, MINUTE_US), 80);
        bucket.add(120);
        assert_eq!(bucket.left(100, MINUTE_US), 0);
        assert_eq!(bucket.take(10, 100, MINUTE_US), Err(30_000_000), "40 owed, 10 wanted: half a minute");
        bucket.back(1_000);
        assert_eq!(bucket.left(100, MINUTE_US), 100, "never more than a minute's worth");
    }

    #[test]
    fn a_part_is_never_nothing() {
        assert_eq!((part(60, 2), part(1, 3), part(7, 0)), (30, 1, 7));
    }
}
