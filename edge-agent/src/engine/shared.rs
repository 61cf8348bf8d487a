//! What the loop and its handles share: counters, each written by one side, never a lock.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use terrace_contract::load::Load;

/// Counters of one engine. `admitted` is claimed by handles before a request is queued and released by the loop when
/// it ends, so that a request is counted before it can be seen; all else is written by the loop.
pub(super) struct Shared {
    born: Instant,
    pub(super) slots: u32,
    pub(super) queue_limit: u32,
    pub(super) total_kv_blocks: u64,
    pub(super) draining: AtomicBool,
    pub(super) stopped: AtomicBool,
    pub(super) next_id: AtomicU64,
    admitted: AtomicU32,
    pub(super) running: AtomicU32,
    pub(super) pending_prefill: AtomicU64,
    pub(super) pending_decode: AtomicU64,
    pub(super) used_kv_blocks: AtomicU64,
    prefill_rate: AtomicU64,
    step_us: AtomicU64,
    answer_tokens: AtomicU64,
    steps: AtomicU64,
    moved_us: AtomicU64,
}

/// Tokens that an answer is taken to have before any was measured.
const FIRST_GUESS: f64 = 64.0;
/// Weight of the newest measurement in a moving mean.
const NEWEST: f64 = 0.2;

impl Shared {
    pub(super) fn new(slots: u32, queue_limit: u32, total_kv_blocks: u64) -> Self {
        Shared {
            born: Instant::now(),
            slots,
            queue_limit,
            total_kv_blocks,
            draining: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            next_id: AtomicU64::new(1),
            admitted: AtomicU32::new(0),
            running: AtomicU32::new(0),
            pending_prefill: AtomicU64::new(0),
            pending_decode: AtomicU64::new(0),
            used_kv_blocks: AtomicU64::new(0),
            prefill_rate: AtomicU64::new(0),
            step_us: AtomicU64::new(0),
            answer_tokens: AtomicU64::new(FIRST_GUESS.to_bits()),
            steps: AtomicU64::new(0),
            moved_us: AtomicU64::new(0),
        }
    }

    /// Takes one of the places that running and waiting requests share; false if there is none.
    pub(super) fn claim(&self) -> bool {
        let places = self.slots + self.queue_limit;
        self.admitted.fetch_update(Relaxed, Relaxed, |n| (n < places).then_some(n + 1)).is_ok()
    }

    /// Gives a claimed place back; how many are still taken.
    pub(super) fn release(&self) -> u32 {
        self.admitted.fetch_sub(1, Relaxed).saturating_sub(1)
    }

    pub(super) fn in_flight(&self) -> u32 {
        self.admitted.load(Relaxed)
    }

    /// The loop did something, or has nothing to do.
    pub(super) fn moved(&self) {
        self.steps.fetch_add(1, Relaxed);
        self.moved_us.store(self.born.elapsed().as_micros() as u64, Relaxed);
    }

    pub(super) fn steps(&self) -> u64 {
        self.steps.load(Relaxed)
    }

    pub(super) fn stalled_for(&self) -> Duration {
        self.born.elapsed().saturating_sub(Duration::from_micros(self.moved_us.load(Relaxed)))
    }

    pub(super) fn measured_prefill(&self, tokens: u32, took: Duration) {
        mean_in(&self.prefill_rate, f64::from(tokens) / took.as_secs_f64().max(1e-9));
    }

    pub(super) fn measured_step(&self, took: Duration) {
        mean_in(&self.step_us, took.as_secs_f64() * 1e6);
    }

    pub(super) fn measured_answer(&self, tokens: u32) {
        mean_in(&self.answer_tokens, f64::from(tokens));
    }

    /// How many tokens an answer bounded by `max_tokens` is expected to have.
    pub(super) fn expected_tokens(&self, max_tokens: u32) -> u64 {
        f64::from_bits(self.answer_tokens.load(Relaxed)).ceil().min(f64::from(max_tokens)).max(1.0) as u64
    }

    /// Time for what is pending, and for one more request of this size after it. Zero until rates are measured: an
    /// engine that has not worked yet refuses nothing.
    pub(super) fn predict(&self, prompt: u64, answer: u64) -> (Duration, Duration) {
        let rate = f64::from_bits(self.prefill_rate.load(Relaxed));
        let step = f64::from_bits(self.step_us.load(Relaxed)) / 1e6;
        let time = |prompt: u64, answer: u64| {
            let prefill = if rate > 0.0 { prompt as f64 / rate } else { 0.0 };
            Duration::from_secs_f64((prefill + answer as f64 * step).clamp(0.0, 1e9))
        };
        let waiting = self.in_flight() >= self.slots;
        let queue = if waiting {
            time(self.pending_prefill.load(Relaxed), self.pending_decode.load(Relaxed)) / self.slots.max(1)
        } else {
            Duration::ZERO
        };
        (queue, time(prompt, answer))
    }

    pub(super) fn load(&self) -> Load {
        let running = self.running.load(Relaxed);
        Load {
            running,
            queued: self.in_flight().saturating_sub(running),
            slots: self.slots,
            queue_limit: self.queue_limit,
            queued_prefill_tokens: self.pending_prefill.load(Relaxed),
            free_kv_blocks: self.total_kv_blocks.saturating_sub(self.used_kv_blocks.load(Relaxed)),
            total_kv_blocks: self.total_kv_blocks,
            prefill_rate: f64::from_bits(self.prefill_rate.load(Relaxed)),
            step_base_us: f64::from_bits(self.step_us.load(Relaxed)),
            step_per_sequence_us: 0.0,
        }
    }
}

/// Moves a mean towards a measurement. Only the loop writes, so load and store need not be one step.
fn mean_in(mean: &AtomicU64, value: f64) {
    let old = f64::from_bits(mean.load(Relaxed));
    let new = if old == 0.0 { value } else { old + NEWEST * (value - old) };
    mean.store(new.to_bits(), Relaxed);
}

/// Takes from a counter that never goes below zero.
pub(super) fn take(counter: &AtomicU64, amount: u64) {
    let _ = counter.fetch_update(Relaxed, Relaxed, |n| Some(n.saturating_sub(amount)));
}
