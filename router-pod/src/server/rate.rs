//! What each caller used of its minute, and requests at once.
//!
//! Tokens are known only when an answer has ended. So what a request will likely use is taken when it is admitted, and
//! what it really used is settled when it ends: many requests at once cannot all pass on the same remainder.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use terrace_decide::bucket::Bucket;

/// What callers used, by name. Names are those of known keys: there are no more of them than keys.
#[derive(Debug, Default)]
pub struct Rates(Mutex<HashMap<String, Used>>);

/// What one caller used.
#[derive(Debug, Default)]
struct Used {
    requests: Bucket,
    tokens: Bucket,
}

impl Rates {
    /// Counts one request of a caller.
    ///
    /// # Errors
    /// In how many microseconds the next one may come.
    pub fn request(&self, caller: &str, per_minute: u32, now_us: u64) -> Result<(), u64> {
        self.of(caller, |used| used.requests.take(1, u64::from(per_minute), now_us))
    }

    /// Takes the tokens that a request of a caller will likely use: all that a minute has, for one that needs more.
    ///
    /// # Errors
    /// In how many microseconds they will be there.
    pub fn tokens(&self, caller: &str, tokens: u64, per_minute: u32, now_us: u64) -> Result<Taken, u64> {
        let tokens = tokens.min(u64::from(per_minute));
        self.of(caller, |used| used.tokens.take(tokens, u64::from(per_minute), now_us))?;
        Ok(Taken { caller: caller.to_owned(), tokens })
    }

    /// A request ended, and used so many tokens instead of those taken.
    pub fn settle(&self, taken: &Taken, used: u64) {
        self.of(&taken.caller, |of| {
            if used > taken.tokens { of.tokens.add(used - taken.tokens) } else { of.tokens.back(taken.tokens - used) }
        });
    }

    fn of<T>(&self, caller: &str, change: impl FnOnce(&mut Used) -> T) -> T {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match all.get_mut(caller) {
            Some(used) => change(used),
            None => change(all.entry(caller.to_owned()).or_default()),
        }
    }
}

/// Tokens that were taken of a caller's minute for one request.
#[derive(Debug)]
pub struct Taken {
    caller: String,
    tokens: u64,
}

impl Taken {
    /// The larger of what was taken and what was used.
    pub fn at_least(&self, used: u64) -> u64 {
        used.max(self.tokens)
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

/// Bodies on their way to this replica, by caller: one caller's slow bodies hold up no other's.
#[derive(Debug, Default, Clone)]
pub struct Arrivals(Arc<Mutex<HashMap<String, u32>>>);

/// One body on its way; ends when dropped.
#[derive(Debug)]
pub struct Arriving {
    all: Arrivals,
    caller: String,
}

impl Arrivals {
    /// Counts one more of a caller, unless it has `limit` already.
    pub fn enter(&self, caller: &str, limit: u32) -> Option<Arriving> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = all.entry(caller.to_owned()).or_default();
        if *number >= limit {
            return None;
        }
        *number += 1;
        drop(all);
        Some(Arriving { all: self.clone(), caller: caller.to_owned() })
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        let mut all = self.all.0.lock().unwrap_or_else(PoisonError::into_inner);
        match all.get_mut(&self.caller) {
            Some(number) if *number > 1 => *number -= 1,
            _ => drop(all.remove(&self.caller)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minutes_worth_passes_at_once_and_then_one_at_a_time() {
        let rates = Rates::default();
        for _ in 0..60 {
            assert_eq!(rates.request("ci", 60, 1_000_000_000), Ok(()));
        }
        assert_eq!(rates.request("ci", 60, 1_000_000_000), Err(1_000_000));
        assert_eq!(rates.request("other", 60, 1_000_000_000), Ok(()));
        assert_eq!(rates.request("ci", 60, 1_001_000_000), Ok(()));
        assert!(rates.request("ci", 60, 1_001_000_000).is_err());
    }

    #[test]
    fn tokens_are_taken_before_and_settled_after() {
        let rates = Rates::default();
        let now = 1_000_000_000;
        let first = rates.tokens("ci", 600, 1_000, now).unwrap();
        assert_eq!(rates.tokens("ci", 600, 1_000, now).err(), Some(12_000_000), "200 are missing: 12 seconds");
        rates.settle(&first, 100);
        let second = rates.tokens("ci", 900, 1_000, now).unwrap();
        rates.settle(&second, 1_900);
        assert!(rates.tokens("ci", 1, 1_000, now + 60_000_000).is_err(), "what was used beyond is owed");
        assert!(rates.tokens("ci", 1, 1_000, now + 62_000_000).is_ok());
        assert!(rates.tokens("other", 5_000, 1_000, now).is_ok(), "more than a minute's worth passes on an idle key");
    }

    #[test]
    fn bodies_on_their_way_count_by_caller_and_leave_nothing_behind() {
        let arrivals = Arrivals::default();
        let held = [arrivals.enter("a", 2), arrivals.enter("a", 2)];
        assert!(held.iter().all(Option::is_some) && arrivals.enter("a", 2).is_none());
        assert!(arrivals.enter("b", 2).is_some());
        drop(held);
        assert!(arrivals.0.lock().unwrap().is_empty());
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
