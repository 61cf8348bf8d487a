//! Requests that wait for room: who is woken when some comes.
//!
//! A place that is given back, or a load report, wakes the first of those that wait ([`terrace_decide::queue`] has the
//! order). It decides anew; if there is nothing for it, since what it may use is still full, the next is woken. Whoever
//! leaves, on whatever way, hands a turn that it did not use on. And each looks by itself now and then, since room also
//! comes by the mere passing of time: a pause ends, a minute's grant grows.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use terrace_decide::queue::{Place, Queue, Refused};
use terrace_decide::{Deadline, Room};
use tokio::sync::Notify;

/// How often one that is not woken looks by itself.
pub const EVERY: Duration = Duration::from_millis(250);
/// Turns that are handed on in a row by those that find nothing: with many of one kind waiting, the rest find nothing either.
const HANDED_ON: usize = 8;

/// Those that wait.
#[derive(Debug, Default)]
pub struct Waiters {
    queue: Mutex<Queue<Arc<Waiter>>>,
    /// Read at each place that is given back, which is far more often than anyone waits.
    waiting: AtomicUsize,
}

#[derive(Debug, Default)]
struct Waiter {
    turn: Notify,
    awake: AtomicBool,
    /// How many before it found nothing in the same turn.
    handed_on: AtomicUsize,
}

impl Waiter {
    /// Whether it slept, and has the turn now.
    fn wake(&self, handed_on: usize) -> bool {
        let slept = !self.awake.swap(true, Ordering::AcqRel);
        if slept {
            self.handed_on.store(handed_on, Ordering::Release);
            self.turn.notify_one();
        }
        slept
    }
}

impl Waiters {
    fn queue(&self) -> MutexGuard<'_, Queue<Arc<Waiter>>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// There may be room: the first that sleeps has a turn.
    pub fn wake(&self) {
        if !self.is_empty() {
            let queue = self.queue();
            let _ = queue.all().any(|waiter| waiter.wake(0));
        }
    }

    /// Waits from now on, as one of `most`.
    ///
    /// # Errors
    /// [`Refused`] at once: there are as many as may be, or it would come too late.
    pub fn join(
        self: &Arc<Self>,
        most: usize,
        room: Room,
        deadline: Option<&Deadline>,
        now_us: u64,
    ) -> Result<Waiting, Refused> {
        let mut queue = self.queue();
        let place = queue.admit(most, room, deadline, now_us)?;
        let waiter = Arc::<Waiter>::default();
        queue.join(place, Arc::clone(&waiter));
        self.waiting.store(queue.len(), Ordering::Release);
        drop(queue);
        Ok(Waiting { waiters: Arc::clone(self), place, waiter })
    }
}

/// One that waits; dropping it gives its place up.
#[derive(Debug)]
pub struct Waiting {
    waiters: Arc<Waiters>,
    place: Place,
    waiter: Arc<Waiter>,
}

impl Waiting {
    /// Until it has a turn, or so much time has passed.
    pub async fn turn(&self, at_most: Duration) {
        // That nobody woke it is as good a reason to look.
        let _ = tokio::time::timeout(at_most, self.waiter.turn.notified()).await;
    }

    /// How many go before it.
    pub fn ahead(&self) -> usize {
        self.waiters.queue().before(&self.place).count()
    }

    /// There was nothing for it: the next has the turn, if this one had any.
    pub fn pass(&self) {
        let handed_on = self.waiter.handed_on.load(Ordering::Acquire) + 1;
        if self.waiter.awake.swap(false, Ordering::AcqRel) && handed_on < HANDED_ON {
            let _ = self.waiters.queue().after(&self.place).any(|waiter| waiter.wake(handed_on));
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut queue = self.waiters.queue();
        queue.leave(&self.place);
        self.waiters.waiting.store(queue.len(), Ordering::Release);
        // It found room, and there may be more of it; or it went away with a turn that it never used.
        if self.waiter.awake.load(Ordering::Acquire) {
            let _ = queue.all().any(|waiter| waiter.wake(0));
        }
    }
}

/// Rings when a request's place is given back.
#[derive(Debug)]
pub struct Bell(pub Arc<Waiters>);

impl Drop for Bell {
    fn drop(&mut self) {
        self.0.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_contract::policy::{OnMiss, Priority};

    const ROOM: Room = Room { first_token_us: 1.0, finish_us: 2.0, until_us: 0.5, each_us: 1.0 };

    fn waiting(waiters: &Arc<Waiters>, total_ms: u64) -> Waiting {
        let total_us = total_ms * 1000;
        let deadline =
            Deadline { first_token_us: total_us, total_us, on_miss: OnMiss::Overflow, priority: Priority::Interactive };
        waiters.join(8, ROOM, Some(&deadline), 0).unwrap()
    }

    fn is_awake(waiting: &Waiting) -> bool {
        waiting.waiter.awake.load(Ordering::Acquire)
    }

    #[tokio::test(start_paused = true)]
    async fn the_earliest_deadline_has_the_first_turn_and_hands_it_on() {
        let waiters = Arc::new(Waiters::default());
        let (late, soon, last) = (waiting(&waiters, 900), waiting(&waiters, 100), waiting(&waiters, 5_000));
        waiters.wake();
        assert_eq!((is_awake(&soon), is_awake(&late)), (true, false));
        soon.turn(Duration::from_secs(3600)).await;
        soon.pass();
        assert_eq!((is_awake(&soon), is_awake(&late), is_awake(&last)), (false, true, false));
        // Two places at once wake two.
        waiters.wake();
        waiters.wake();
        assert_eq!([&soon, &late, &last].map(is_awake), [true, true, true]);
        assert_eq!((soon.ahead(), last.ahead(), waiters.len()), (0, 2, 3));
    }

    #[tokio::test(start_paused = true)]
    async fn who_goes_away_hands_its_turn_on_and_nothing_is_left() {
        let waiters = Arc::new(Waiters::default());
        let (first, second) = (waiting(&waiters, 100), waiting(&waiters, 200));
        drop(Bell(Arc::clone(&waiters)));
        assert!(is_awake(&first));
        drop(first);
        assert!(is_awake(&second), "the room is still there");
        drop(second);
        assert!(waiters.is_empty());
        waiters.wake();
        // Nobody wakes it, and it looks all the same.
        let alone = waiting(&waiters, 300);
        alone.turn(EVERY).await;
        alone.pass();
        assert!(!is_awake(&alone));
    }
}
