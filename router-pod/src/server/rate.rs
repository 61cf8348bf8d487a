//! Rates a minute and requests at once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use terrace_decide::bucket::Bucket;

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
    fn permits_return_when_dropped() {
        let concurrency = Concurrency::default();
        let first = concurrency.enter(1);
        assert!(first.is_some() && concurrency.enter(1).is_none());
        drop(first);
        assert!(concurrency.enter(1).is_some());
        assert_eq!(concurrency.now(), 0);
    }
}
