//! Threads for one product at a time. A product takes tens of microseconds, so workers spin briefly for the next one
//! before they sleep, and whoever asks works too: if no worker wakes in time, the work is done all the same.
#![allow(
    unsafe_code,
    reason = "a job is lent to other threads; the gate below keeps it alive for as long as they use it"
)]

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering::*};
use std::sync::{Mutex, OnceLock};
use std::thread::Thread;

/// Turns of a waiting worker before it sleeps: some tens of microseconds, the gap between two products.
const SPINS: u32 = 4_000;
/// Bit of the gate that lets workers in; the rest counts those inside.
const OPEN: u32 = 1 << 31;

static THREADS: AtomicUsize = AtomicUsize::new(0);
static POOL: OnceLock<Pool> = OnceLock::new();

/// How many threads the kernels use, the caller's included. Counts only before the first product; by default the cores
/// that the container was granted.
pub fn set_threads(threads: usize) {
    THREADS.store(threads, Relaxed);
}

/// Runs `work` for every index below `count`, on several threads if `parallel`.
pub(super) fn for_each(count: usize, parallel: bool, work: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    let take = || {
        loop {
            let index = next.fetch_add(1, Relaxed);
            if index >= count {
                break;
            }
            work(index);
        }
    };
    if parallel && count > 1 { POOL.get_or_init(Pool::start).run(&take) } else { take() }
}

/// How many threads a product can count on.
pub(super) fn threads() -> usize {
    POOL.get_or_init(Pool::start).workers.len() + 1
}

/// A job as workers see it. The lifetime is hidden: see [`Pool::run`].
type Job = *const (dyn Fn() + Sync);

struct Pool {
    workers: Vec<Thread>,
    /// One product at a time; a second caller works alone.
    turn: Mutex<()>,
    shared: &'static Shared,
}

#[derive(Default)]
struct Shared {
    job: AtomicPtr<Job>,
    gate: AtomicU32,
    round: AtomicU32,
    panicked: AtomicBool,
}

impl Pool {
    fn start() -> Pool {
        let wanted = match THREADS.load(Relaxed) {
            0 => crate::device::granted_cores(),
            n => n,
        };
        // Lives as long as the process, as its workers do.
        let shared: &'static Shared = Box::leak(Box::default());
        let spawn = |index| {
            let name = format!("kernel-{index}");
            std::thread::Builder::new().name(name).spawn(move || work(shared)).ok().map(|t| t.thread().clone())
        };
        Pool { workers: (1..wanted).map_while(spawn).collect(), turn: Mutex::new(()), shared }
    }

    fn run(&self, job: &(dyn Fn() + Sync)) {
        let Ok(_turn) = self.turn.try_lock() else { return job() };
        if self.workers.is_empty() {
            return job();
        }
        // SAFETY: only the lifetime changes. Workers touch the job only while they are counted in the gate, and this
        // function does not return (nor unwind: `Closing`) before the gate is shut and the count is zero.
        let job_for_workers: Job = unsafe { std::mem::transmute(std::ptr::from_ref(job)) };
        self.shared.job.store(std::ptr::from_ref(&job_for_workers).cast_mut(), Relaxed);
        self.shared.gate.store(OPEN, Release);
        self.shared.round.fetch_add(1, Release);
        self.workers.iter().for_each(Thread::unpark);
        let closing = Closing(self.shared);
        job();
        drop(closing);
        assert!(!self.shared.panicked.load(Relaxed), "a kernel panicked on another thread; its message is above");
    }
}

/// Shuts the gate and waits until nobody is inside, also when the caller's own part panics.
struct Closing(&'static Shared);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.gate.fetch_and(!OPEN, AcqRel);
        let mut turns = 0u32;
        while self.0.gate.load(Acquire) != 0 {
            turns += 1;
            if turns < SPINS { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
    }
}

fn work(shared: &'static Shared) {
    let (mut seen, mut turns) = (0, 0);
    loop {
        let round = shared.round.load(Acquire);
        if round == seen {
            turns += 1;
            if turns < SPINS {
                std::hint::spin_loop()
            } else {
                std::thread::park()
            }
            continue;
        }
        (seen, turns) = (round, 0);
        let entered = shared.gate.fetch_update(AcqRel, Acquire, |gate| (gate & OPEN != 0).then_some(gate + 1));
        if entered.is_err() {
            continue;
        }
        let leaving = Leaving(shared);
        // SAFETY: counted in the gate while it was open, so the caller of `run` still holds both pointers' targets.
        unsafe { (**shared.job.load(Relaxed))() };
        drop(leaving);
    }
}

struct Leaving(&'static Shared);

impl Drop for Leaving {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.panicked.store(true, Relaxed);
        }
        self.0.gate.fetch_sub(1, AcqRel);
    }
}

/// A slice that several threads fill, each its own part.
pub(super) struct Parts<'a, T> {
    start: *mut T,
    len: usize,
    owner: std::marker::PhantomData<&'a mut [T]>,
}

// SAFETY: it only hands out parts by `part`, whose caller promises that no two overlap; T may move between threads.
unsafe impl<T: Send> Sync for Parts<'_, T> {}

impl<'a, T> Parts<'a, T> {
    pub(super) fn new(slice: &'a mut [T]) -> Self {
        Parts { start: slice.as_mut_ptr(), len: slice.len(), owner: std::marker::PhantomData }
    }

    /// Elements from `start` on.
    ///
    /// # Safety
    /// No other part that is in use may overlap this one.
    #[allow(clippy::mut_from_ref, reason = "that is its purpose; the caller keeps parts apart")]
    pub(super) unsafe fn part(&self, start: usize, len: usize) -> &mut [T] {
        assert!(start <= self.len && len <= self.len - start, "a part past the end");
        // SAFETY: inside the slice by the check above, and alone there by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(start), len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_index_is_done_once_however_many_ask() {
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for round in 0..300 {
                        let count = 1 + round % 37;
                        let done: Vec<AtomicU32> = (0..count).map(|_| AtomicU32::new(0)).collect();
                        for_each(count, true, |i| {
                            done[i].fetch_add(1, Relaxed);
                        });
                        assert!(done.iter().all(|d| d.load(Relaxed) == 1));
                    }
                });
            }
        });
    }
}
