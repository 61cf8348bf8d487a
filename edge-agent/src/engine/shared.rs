//! What the loop and its handles share: counters, each written by one side, never a lock that anyone waits for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use terrace_contract::load::Load;
use tokio::sync::watch;

use super::Refused;
use super::forecast::Forecast;
use super::rates::Rates;

/// Tokens that an answer is taken to have before any was measured.
const FIRST_GUESS: f64 = 64.0;
/// Weight of the newest answer in their mean length.
const NEWEST: f64 = 0.2;
/// The size of a chunk, and the depth, at which rates are published.
pub(super) const TYPICAL: (usize, usize) = (64, 256);

/// Counters of one engine. Claims, arrivals and the flags are written by handles, all else by the loop.
pub(super) struct Shared {
    born: Instant,
    pub(super) slots: u32,
    pub(super) queue_limit: u32,
    total_kv_blocks: u64,
    pub(super) draining: AtomicBool,
    /// Whether the rates have kept somebody out since a step last measured them.
    pub(super) doubted: AtomicBool,
    pub(super) stopped: AtomicBool,
    pub(super) next_id: AtomicU64,
    /// Choices that were taken and have not ended.
    claimed: AtomicU32,
    /// Of those, the ones that left the queue.
    started: AtomicU32,
    pub(super) in_flight: watch::Sender<u32>,
    arriving_prefill: AtomicU64,
    running: AtomicU32,
    pending_prefill: AtomicU64,
    slot_free_us: AtomicU64,
    free_kv_blocks: AtomicU64,
    prefill_rate: AtomicU64,
    step_base: AtomicU64,
    step_per_sequence: AtomicU64,
    answer_tokens: AtomicU64,
    preemptions: AtomicU64,
    evictions: AtomicU64,
    steps: AtomicU64,
    moved_us: AtomicU64,
}

/// What happened in an engine so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EngineStats {
    /// Sequences that had to give their blocks of the KV cache back for a while.
    pub preemptions: u64,
    /// Blocks whose content was forgotten to make room.
    pub evictions: u64,
}

/// What the loop says of itself after each turn.
pub(super) struct Published<'a> {
    pub(super) running: usize,
    pub(super) pending_prefill: usize,
    /// When the most urgent request could begin.
    pub(super) slot_free: Duration,
    pub(super) free_kv_blocks: usize,
    pub(super) evictions: u64,
    pub(super) rates: &'a Rates,
}

impl Shared {
    pub(super) fn new(slots: u32, queue_limit: u32, total_kv_blocks: u64) -> Self {
        Shared {
            born: Instant::now(),
            slots,
            queue_limit,
            total_kv_blocks,
            draining: AtomicBool::new(false),
            doubted: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            next_id: AtomicU64::new(1),
            claimed: AtomicU32::new(0),
            started: AtomicU32::new(0),
            in_flight: watch::Sender::new(0),
            arriving_prefill: AtomicU64::new(0),
            running: AtomicU32::new(0),
            pending_prefill: AtomicU64::new(0),
            slot_free_us: AtomicU64::new(0),
            free_kv_blocks: AtomicU64::new(total_kv_blocks),
            prefill_rate: AtomicU64::new(0),
            step_base: AtomicU64::new(0),
            step_per_sequence: AtomicU64::new(0),
            answer_tokens: AtomicU64::new(FIRST_GUESS.to_bits()),
            preemptions: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
            steps: AtomicU64::new(0),
            moved_us: AtomicU64::new(0),
        }
    }

    /// Choices that can run and wait together.
    pub(super) fn places(&self) -> u32 {
        self.slots.saturating_add(self.queue_limit)
    }

    /// Takes as many places as choices are asked for; none if there are not so many.
    pub(super) fn claim(self: &Arc<Self>, choices: u32) -> Option<Vec<Place>> {
        let claim = |n: u32| n.checked_add(choices).filter(|n| *n <= self.places());
        self.claimed.fetch_update(Relaxed, Relaxed, claim).ok()?;
        Some((0..choices).map(|_| Place { shared: self.clone(), started: false }).collect())
    }

    pub(super) fn in_flight(&self) -> u32 {
        self.claimed.load(Relaxed)
    }

    /// A prompt of so many tokens is on its way to the loop.
    pub(super) fn arriving(&self, prompt: usize) {
        self.arriving_prefill.fetch_add(prompt as u64, Relaxed);
    }

    /// It is there.
    pub(super) fn arrived(&self, prompt: usize) {
        self.arriving_prefill.fetch_sub(prompt as u64, Relaxed);
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

    /// An answer has ended by itself.
    pub(super) fn measured_answer(&self, tokens: u32) {
        let old = f64::from_bits(self.answer_tokens.load(Relaxed));
        store(&self.answer_tokens, old + NEWEST * (f64::from(tokens) - old));
    }

    pub(super) fn preempted(&self) {
        self.preemptions.fetch_add(1, Relaxed);
    }

    pub(super) fn publish(&self, now: &Published<'_>) {
        self.running.store(now.running as u32, Relaxed);
        self.pending_prefill.store(now.pending_prefill as u64, Relaxed);
        self.slot_free_us.store(now.slot_free.as_micros() as u64, Relaxed);
        self.free_kv_blocks.store(now.free_kv_blocks as u64, Relaxed);
        self.evictions.store(now.evictions, Relaxed);
        let (chunk, depth) = TYPICAL;
        let (base, each) = now.rates.step(depth);
        store(&self.prefill_rate, now.rates.prefill_rate(chunk, depth));
        store(&self.step_base, base);
        store(&self.step_per_sequence, each);
    }

    /// How many tokens an answer bounded by `max_tokens` is expected to have.
    pub(super) fn expected_tokens(&self, max_tokens: u32) -> u64 {
        load(&self.answer_tokens).ceil().min(f64::from(max_tokens)).max(1.0) as u64
    }

    /// What would be late by the measured rates is refused, and the rates are in doubt until they are measured anew:
    /// there is no other way to refuse it.
    pub(super) fn late(&self, predicted: Duration, retry_after: Duration) -> Refused {
        self.doubted.store(true, Relaxed);
        Refused::DeadlineUnmeetable { predicted, retry_after }
    }

    /// How long prompts of so many tokens take to read at best: those ahead of them, and they themselves. Zero until rates
    /// are measured.
    pub(super) fn reading(&self, tokens: usize) -> Forecast {
        let load = self.load();
        let seconds = |tokens: f64| Duration::from_secs_f64((tokens / load.prefill_rate).min(1e6));
        if load.prefill_rate > 0.0 {
            Forecast { wait: seconds(load.queued_prefill_tokens as f64), own: seconds(tokens as f64) }
        } else {
            Forecast { wait: Duration::ZERO, own: Duration::ZERO }
        }
    }

    /// When an answer of so many tokens could be complete at best: were it the most urgent, and all of its prompt in the
    /// cache. Zero until rates are measured: an engine that has not worked yet refuses nothing. The loop looks closer.
    pub(super) fn at_best(&self, answer: u64) -> Forecast {
        let beside = f64::from((self.in_flight() + 1).min(self.slots));
        let step = load(&self.step_base) + load(&self.step_per_sequence) * beside;
        let own = Duration::from_secs_f64((answer as f64 * step).clamp(0.0, 1e6));
        Forecast { wait: Duration::from_micros(self.slot_free_us.load(Relaxed)), own }
    }

    pub(super) fn load(&self) -> Load {
        Load {
            running: self.running.load(Relaxed),
            queued: self.in_flight().saturating_sub(self.started.load(Relaxed)),
            slots: self.slots,
            queue_limit: self.queue_limit,
            queued_prefill_tokens: self.pending_prefill.load(Relaxed) + self.arriving_prefill.load(Relaxed),
            free_kv_blocks: self.free_kv_blocks.load(Relaxed),
            total_kv_blocks: self.total_kv_blocks,
            prefill_rate: load(&self.prefill_rate),
            step_base_us: load(&self.step_base) * 1e6,
            step_per_sequence_us: load(&self.step_per_sequence) * 1e6,
        }
    }

    pub(super) fn stats(&self) -> EngineStats {
        EngineStats { preemptions: self.preemptions.load(Relaxed), evictions: self.evictions.load(Relaxed) }
    }
}

/// A choice's place among those that run and wait. Given back when it is dropped: after the last event went out, so
/// that whoever waits for an empty engine may then end the process.
pub(super) struct Place {
    shared: Arc<Shared>,
    started: bool,
}

impl Place {
    /// It leaves the queue.
    pub(super) fn start(&mut self) {
        if !std::mem::replace(&mut self.started, true) {
            self.shared.started.fetch_add(1, Relaxed);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.started {
            self.shared.started.fetch_sub(1, Relaxed);
        }
        let left = self.shared.claimed.fetch_sub(1, Relaxed).saturating_sub(1);
        self.shared.in_flight.send_replace(left);
    }
}

fn store(cell: &AtomicU64, value: f64) {
    cell.store(value.to_bits(), Relaxed);
}

fn load(cell: &AtomicU64) -> f64 {
    f64::from_bits(cell.load(Relaxed))
}
