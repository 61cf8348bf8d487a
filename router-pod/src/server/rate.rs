//! Rates a minute and requests at once. Each replica takes its part of what all of them share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

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

/// Buckets by caller.
#[derive(Debug, Default)]
pub struct Rates(Mutex<HashMap<String, Bucket>>);

impl Rates {
    /// Counts one request of a caller, or says in how many microseconds the next one may come.
    pub fn take(&self, caller: &str, per_minute: u32, now_us: u64) -> Result<(), u64> {
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !buckets.contains_key(caller) {
            buckets.insert(caller.to_owned(), Bucket::default());
        }
        match buckets.get_mut(caller) {
            Some(bucket) => bucket.take(1, u64::from(per_minute), now_us),
            None => Ok(()),
        }
    }
}

/// Requests in flight in this replica.
#[derive(Debug, Default, Clone)]
pub struct Concurrency(Arc<AtomicU32>);

/// One request in flight; ends when dropped.
#[derive(Debug)]
pub struct Permit(Arc<AtomicU32>);

impl Concurrency {
    /// Counts one more, unless there are `limit` already.
    pub fn enter(&self, limit: u32) -> Option<Permit> {
        let entered = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| (n < limit).then_some(n + 1));
        entered.ok().map(|_| Permit(Arc::clone(&self.0)))
    }

    /// How many there are.
    pub fn now(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minutes_worth_passes_at_once_and_then_one_at_a_time() {
        let rates = Rates::default();
        for _ in 0..60 {
            assert_eq!(rates.take("ci", 60, 1_000_000_000), Ok(()));
        }
        assert_eq!(rates.take("ci", 60, 1_000_000_000), Err(1_000_000));
        assert_eq!(rates.take("other", 60, 1_000_000_000), Ok(()));
        assert_eq!(rates.take("ci", 60, 1_001_000_000), Ok(()));
        assert!(rates.take("ci", 60, 1_001_000_000).is_err());
    }

    #[test]
    fn what_is_larger_than_a_minute_passes_only_when_nothing_else_is_there() {
        let mut bucket = Bucket::default();
        assert_eq!(bucket.take(500, 100, MINUTE_US), Ok(()));
        assert!(bucket.take(1, 100, MINUTE_US).is_err());
        assert_eq!((bucket.left(100, MINUTE_US), bucket.left(100, 2 * MINUTE_US)), (0, 100));
    }

    #[test]
    fn permits_return_when_dropped() {
        let concurrency = Concurrency::default();
        let first = concurrency.enter(1);
        assert!(first.is_some() && concurrency.enter(1).is_none());
        drop(first);
        assert!(concurrency.enter(1).is_some());
        assert_eq!(concurrency.now(), 0);
    }

    #[test]
    fn a_part_is_never_nothing() {
        assert_eq!((part(60, 2), part(1, 3), part(7, 0)), (30, 1, 7));
    }
}
