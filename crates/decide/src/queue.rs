//! Who waits when every permitted tier is full: a bounded queue, the earliest deadline first, Interactive before Batch.
//!
//! Whoever most likely cannot make it does not join: waiting would end in the same error, only later. What is predicted is
//! what [`crate::Plan::room`] says (when the best of the permitted tiers has room again, and how often it gets some) and
//! how many go before.
//!
//! A plain value that is told the time: its owner keeps it behind its own lock.

use std::collections::BTreeMap;

use terrace_contract::policy::{OnMiss, Priority};

use crate::plan::{Forecast, Room};
use crate::predict::feasible;
use crate::signals::Deadline;

/// The most that wait at one router, whatever its policy grants.
pub const MOST: usize = 256;
/// The longest that anyone waits for room: without a budget nothing says how long its caller would.
pub const LONGEST_US: u64 = 10_000_000;

/// How many may wait, of so many requests that may be in flight here: half, so that waiting never takes all places.
pub fn most(concurrency: u32) -> usize {
    (concurrency as usize / 2).clamp(1, MOST)
}

/// A place in the order: Interactive first, then by deadline, then by arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    batch: bool,
    until_us: u64,
    number: u64,
}

/// Why a request does not wait.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Refused {
    /// There are as many as may be.
    Full {
        /// When to come back, microseconds.
        retry_after_us: u64,
    },
    /// It would come too late.
    Late {
        /// What would come of it, from now.
        forecast: Forecast,
        /// When those before it have gone, microseconds.
        retry_after_us: u64,
    },
}

/// Those that wait.
#[derive(Debug)]
pub struct Queue<T> {
    waiting: BTreeMap<Place, T>,
    next: u64,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), next: 0 }
    }
}

impl<T> Queue<T> {
    /// Whether one more may wait, and would be in time.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn admit(&self, most: usize, room: Room, deadline: Option<&Deadline>, now_us: u64) -> Result<Place, Refused> {
        let place = self.place(deadline, now_us);
        let ahead = self.waiting.range(..place).count();
        if self.waiting.len() >= most {
            return Err(Refused::Full { retry_after_us: room.after(self.waiting.len()).first_token_us as u64 });
        }
        let forecast = room.after(ahead);
        if in_time(forecast, deadline) { Ok(place) } else { Err(late(room, ahead)) }
    }

    /// Where a request would stand that comes now.
    pub fn place(&self, deadline: Option<&Deadline>, now_us: u64) -> Place {
        let total = deadline.map_or(LONGEST_US, |deadline| deadline.total_us);
        let batch = deadline.is_some_and(|deadline| deadline.priority == Priority::Batch);
        Place { batch, until_us: now_us.saturating_add(total), number: self.next }
    }

    /// It waits, at the place that [`Queue::admit`] gave it.
    pub fn join(&mut self, place: Place, who: T) {
        self.next += 1;
        self.waiting.insert(place, who);
    }

    /// It waits no longer.
    pub fn leave(&mut self, place: &Place) -> Option<T> {
        self.waiting.remove(place)
    }

    /// All of them, in order.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        self.waiting.values()
    }

    /// Those after a place, in order.
    pub fn after(&self, place: &Place) -> impl Iterator<Item = &T> {
        use std::ops::Bound::{Excluded, Unbounded};
        self.waiting.range((Excluded(place), Unbounded)).map(|(_, who)| who)
    }

    /// Those before a place, in order.
    pub fn before(&self, place: &Place) -> impl Iterator<Item = &T> {
        self.waiting.range(..place).map(|(_, who)| who)
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// Whether what is forecast keeps the budget; `Degrade` rather comes late than not at all, and waits as long as anyone may.
fn in_time(forecast: Forecast, deadline: Option<&Deadline>) -> bool {
    let bounded = forecast.first_token_us <= LONGEST_US as f64;
    let strict = deadline.filter(|deadline| deadline.on_miss != OnMiss::Degrade);
    bounded && feasible(forecast, strict)
}

/// Whether one that has waited is still worth its place, with so many before it.
///
/// # Errors
/// [`Refused::Late`].
pub fn still(room: Room, ahead: usize, deadline: Option<&Deadline>) -> Result<(), Refused> {
    if in_time(room.after(ahead), deadline) { Ok(()) } else { Err(late(room, ahead)) }
}

fn late(room: Room, ahead: usize) -> Refused {
    // Nobody waits for it any more then: when those before it have gone there is room.
    let retry_after_us = (room.until_us + room.each_us * ahead as f64) as u64;
    Refused::Late { forecast: room.after(ahead), retry_after_us }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: Room =
        Room { first_token_us: 200_000.0, finish_us: 500_000.0, until_us: 150_000.0, each_us: 100_000.0 };

    fn deadline(total_ms: u64, priority: Priority) -> Deadline {
        let total_us = total_ms * 1000;
        Deadline { first_token_us: total_us, total_us, on_miss: OnMiss::Overflow, priority }
    }

    fn join(queue: &mut Queue<&'static str>, name: &'static str, deadline: Option<Deadline>) -> bool {
        match queue.admit(8, ROOM, deadline.as_ref(), 0) {
            Ok(place) => {
                queue.join(place, name);
                true
            }
            Err(_) => false,
        }
    }

    #[test]
    fn the_earliest_deadline_goes_first_and_batch_after_everyone() {
        let mut queue = Queue::default();
        assert!(join(&mut queue, "batch", Some(deadline(2_000, Priority::Batch))));
        assert!(join(&mut queue, "none", None));
        assert!(join(&mut queue, "late", Some(deadline(9_000, Priority::Interactive))));
        assert!(join(&mut queue, "soon", Some(deadline(3_000, Priority::Interactive))));
        assert!(join(&mut queue, "soon too", Some(deadline(3_000, Priority::Interactive))));
        let order: Vec<_> = queue.before(&queue.place(Some(&deadline(60_000, Priority::Batch)), 0)).copied().collect();
        assert_eq!(order, ["soon", "soon too", "late", "none", "batch"]);
        assert_eq!(queue.all().next(), Some(&"soon"));
    }

    #[test]
    fn who_cannot_make_it_does_not_wait() {
        let mut queue = Queue::default();
        let tight = deadline(600, Priority::Interactive);
        assert!(join(&mut queue, "first", Some(tight)), "500 ms of 600");
        let Err(Refused::Late { forecast, retry_after_us }) = queue.admit(8, ROOM, Some(&tight), 0) else { panic!() };
        assert_eq!((forecast.finish_us as u64, retry_after_us), (600_000, 250_000), "one goes before it");
        assert!(still(ROOM, 0, Some(&tight)).is_ok() && still(ROOM, 0, Some(&tight.later(100_000))).is_err());
        // One that may be late waits all the same, but not for ever.
        let degrade = Deadline { on_miss: OnMiss::Degrade, ..tight };
        assert!(queue.admit(8, ROOM, Some(&degrade), 0).is_ok());
        let closed = Room { first_token_us: 2.0 * LONGEST_US as f64, ..ROOM };
        for deadline in [None, Some(&degrade)] {
            assert!(matches!(queue.admit(8, closed, deadline, 0), Err(Refused::Late { .. })));
        }
    }

    #[test]
    fn it_is_bounded_and_a_place_is_given_back() {
        let mut queue = Queue::default();
        let place = queue.admit(1, ROOM, None, 0).unwrap();
        queue.join(place, "one");
        assert_eq!(queue.admit(1, ROOM, None, 0), Err(Refused::Full { retry_after_us: 300_000 }));
        assert_eq!(queue.leave(&place), Some("one"));
        assert_eq!(queue.leave(&place), None);
        assert!(queue.is_empty() && queue.admit(1, ROOM, None, 0).is_ok());
        assert_eq!((most(1), most(64), most(1_000_000)), (1, 32, MOST));
    }
}
