//! The truth about one device: the agent's loop, as the router cannot see it.
//!
//! Each turn of the loop is one step: a token for each answer, and beside them as many prompt tokens as fit into the
//! step's time, shared by all prompts, as `edge-agent/src/engine/plan.rs` does it. With prefill rate P, decode step
//! a + c b and the limit L of a step, a turn takes
//!
//! ```text
//! q / P + (a + c b if b > 0)     while a prompt is waiting: q prompt tokens and one output token each
//! a + c b                        else: one output token each
//! q / P = L - (a + c b), at least a quarter of a + c b; 5 L with no answer beside it
//! ```
//!
//! An agent measures itself before it serves, so its rates are known from its first report on.
//!
//! Between two events (a prompt done, an answer done) the batch does not change, so the time to the next one is a
//! division, and a run costs a few operations a request rather than one a token.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use terrace_contract::load::{Load, STEPS_ALONE};

use crate::prefix::PrefixCache;
use crate::world::Device;

/// Weight of the newest measurement in the agent's moving mean of answer lengths.
const NEWEST: f64 = 0.2;
/// Tokens that an agent takes an answer to have before it has seen one.
const FIRST_GUESS: f64 = 64.0;
/// What is left of a sequence is counted in real numbers; less than this is nothing.
const NOTHING: f64 = 1e-6;
/// Of a decode step's time, what prompts get beside it at least.
const BESIDE: f64 = 0.25;
/// What the agent's forecast takes prompts to get of a step's time at least.
const LEAST_SHARE: f64 = 0.2;

/// One request at a device.
#[derive(Debug, Clone)]
pub struct Sequence {
    /// Its number.
    pub number: usize,
    /// Prompt tokens.
    pub prompt_tokens: u32,
    /// Tokens that its answer will have: only the simulation knows.
    pub output_tokens: u32,
    /// Most tokens that it may have.
    pub max_tokens: u32,
    /// When it is given up.
    pub deadline_us: u64,
    /// The prefix blocks of its prompt.
    pub blocks: Vec<u64>,
}

#[derive(Debug)]
struct Running {
    sequence: Sequence,
    prompt_left: f64,
    /// Whether its first token came.
    begun: bool,
    output_left: f64,
    expected: f64,
    cached: u32,
}

impl Running {
    /// Tokens that its answer is still taken to have: one that has outlived what was expected goes on for half of what it
    /// has.
    fn expected_left(&self) -> u64 {
        let made = if self.prompt_left > 0.0 { 0.0 } else { f64::from(self.sequence.output_tokens) - self.output_left };
        let more = if made < self.expected { self.expected - made } else { made / 2.0 };
        more.min(f64::from(self.sequence.max_tokens) - made).max(1.0) as u64
    }
}

/// What an engine did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Did {
    /// A first token; so many prompt tokens came from its cache.
    FirstToken {
        /// Which sequence.
        number: usize,
        /// Prompt tokens that were not fed again.
        cached: u32,
    },
    /// The last token.
    Ended {
        /// Which sequence.
        number: usize,
    },
    /// Its turn came too late: even alone it would miss its deadline.
    Refused {
        /// Which sequence.
        number: usize,
    },
}

/// Why a request is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// No place in its queue.
    Full,
    /// It would miss its deadline.
    Late,
}

/// One device at work.
#[derive(Debug)]
pub struct Engine {
    device: Device,
    speed: f64,
    at_us: f64,
    running: Vec<Running>,
    waiting: VecDeque<Sequence>,
    answer_tokens: f64,
    prefixes: PrefixCache,
    busy_us: f64,
}

impl Engine {
    /// An idle device.
    pub fn new(device: Device) -> Self {
        let prefixes = PrefixCache::of_tokens(device.prefix_cache_tokens);
        Self {
            device,
            speed: 1.0,
            at_us: 0.0,
            running: Vec::new(),
            waiting: VecDeque::new(),
            answer_tokens: FIRST_GUESS,
            prefixes,
            busy_us: 0.0,
        }
    }

    /// Its round trip.
    pub fn rtt_us(&self) -> u64 {
        self.device.rtt_us
    }

    /// Sequences that it has.
    pub fn in_flight(&self) -> usize {
        self.running.len() + self.waiting.len()
    }

    /// Time in which it had something to do.
    pub fn busy_us(&self) -> f64 {
        self.busy_us
    }

    /// From now on it is this many times as fast as rated. Call [`Engine::advance`] first.
    pub fn set_speed(&mut self, speed: f64) {
        self.speed = speed;
    }

    fn decoding(&self) -> usize {
        self.running.iter().filter(|r| r.prompt_left <= 0.0).count()
    }

    fn step_us(&self, batch: usize) -> f64 {
        if batch == 0 {
            return 0.0;
        }
        (self.device.step_base_us + self.device.step_per_sequence_us * batch as f64) / self.speed
    }

    /// One turn: how long it takes, and how many tokens it feeds of each prompt.
    fn turn(&self) -> (f64, f64) {
        let step = self.step_us(self.decoding());
        let prompts = self.running.len() - self.decoding();
        if prompts == 0 {
            return (step, 0.0);
        }
        let limit = self.device.step_limit_us as f64;
        let time = if step > 0.0 { (limit - step).max(BESIDE * step) } else { f64::from(STEPS_ALONE) * limit };
        let most = f64::from(self.device.prefill_chunk.max(1));
        let fed = (time / self.prefill_us(1.0)).clamp(1.0, most);
        (self.prefill_us(fed) + step, fed / prompts as f64)
    }

    /// Prompt tokens alone.
    fn prefill_us(&self, tokens: f64) -> f64 {
        tokens / (self.device.prefill_rate * self.speed) * 1e6
    }

    /// When the batch changes next; none: it is idle.
    pub fn next_us(&self) -> Option<f64> {
        let (turn_us, each) = self.turn();
        let turns = |r: &Running| if r.prompt_left > 0.0 { r.prompt_left / each } else { r.output_left };
        let turns = self.running.iter().map(turns).min_by(f64::total_cmp)?;
        Some(self.at_us + turns.max(0.0) * turn_us)
    }

    /// Works until `now_us`; what it did, each with its instant.
    pub fn advance(&mut self, now_us: u64, did: &mut Vec<(u64, Did)>) {
        let now = now_us as f64;
        while let Some(next) = self.next_us().filter(|next| *next <= now) {
            self.work(next - self.at_us);
            self.settle(did);
        }
        self.work(now - self.at_us);
    }

    fn work(&mut self, us: f64) {
        self.at_us += us;
        let (turn_us, each) = self.turn();
        if turn_us <= 0.0 || us <= 0.0 {
            return;
        }
        self.busy_us += us;
        let turns = us / turn_us;
        for running in &mut self.running {
            if running.prompt_left > 0.0 {
                running.prompt_left -= each * turns;
            } else {
                running.output_left -= turns;
            }
        }
    }

    /// First tokens of prompts that are done, ends of answers that are, and the next ones in.
    fn settle(&mut self, did: &mut Vec<(u64, Did)>) {
        let at = self.at_us.ceil() as u64;
        for running in &mut self.running {
            let number = running.sequence.number;
            if !running.begun && running.prompt_left <= NOTHING {
                (running.prompt_left, running.begun) = (0.0, true);
                running.output_left -= 1.0;
                self.prefixes.insert(&running.sequence.blocks);
                did.push((at, Did::FirstToken { number, cached: running.cached }));
            }
        }
        let (mean, mut lengths) = (&mut self.answer_tokens, Vec::new());
        self.running.retain(|running| {
            let ended = running.begun && running.output_left <= NOTHING;
            if ended {
                lengths.push(f64::from(running.sequence.output_tokens));
                did.push((at, Did::Ended { number: running.sequence.number }));
            }
            !ended
        });
        lengths.into_iter().for_each(|length| *mean += NEWEST * (length - *mean));
        self.admit(did);
    }

    fn admit(&mut self, did: &mut Vec<(u64, Did)>) {
        while self.running.len() < self.device.slots as usize {
            let Some(sequence) = self.waiting.pop_front() else { return };
            if self.at_us + self.own_us(&sequence, 0) > sequence.deadline_us as f64 {
                did.push((self.at_us.ceil() as u64, Did::Refused { number: sequence.number }));
                continue;
            }
            let cached = self.prefixes.hit(&sequence.blocks, sequence.prompt_tokens);
            self.running.push(Running {
                begun: false,
                prompt_left: f64::from((sequence.prompt_tokens - cached).max(1)),
                output_left: f64::from(sequence.output_tokens.max(1)),
                expected: self.expected(&sequence),
                cached,
                sequence,
            });
        }
    }

    /// Takes a request, or refuses it as the agent does. Call [`Engine::advance`] first.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn offer(&mut self, sequence: Sequence) -> Result<(), Refused> {
        if self.in_flight() >= (self.device.slots + self.device.queue_limit) as usize {
            return Err(Refused::Full);
        }
        if self.at_us + self.predict(&sequence) > sequence.deadline_us as f64 {
            return Err(Refused::Late);
        }
        self.waiting.push_back(sequence);
        // Only if nobody else waits there is a place for it, and it was weighed just now: nobody can be refused here.
        self.admit(&mut Vec::new());
        Ok(())
    }

    /// The agent's own forecast, from rates and its mean answer (`edge-agent/src/engine/forecast.rs`).
    fn predict(&self, sequence: &Sequence) -> f64 {
        let slots = self.device.slots as usize;
        let idle = std::iter::repeat_n(0, slots.saturating_sub(self.running.len()));
        let mut free: BinaryHeap<Reverse<u64>> =
            self.running.iter().map(Running::expected_left).chain(idle).map(Reverse).collect();
        for waiting in &self.waiting {
            if let Some(Reverse(at)) = free.pop() {
                free.push(Reverse(at + self.expected(waiting) as u64));
            }
        }
        let slot = free.peek().map_or(0.0, |at| at.0 as f64) * self.step_us(slots);
        slot + self.shared_prefill_us(self.prompt_left()) + self.own_us(sequence, self.waiting.len())
    }

    /// Prompt and answer, from when its turn comes, behind so many that wait.
    fn own_us(&self, sequence: &Sequence, ahead: usize) -> f64 {
        let beside = (self.running.len() + ahead + 1).min(self.device.slots as usize);
        self.shared_prefill_us(f64::from(sequence.prompt_tokens)) + self.expected(sequence) * self.step_us(beside)
    }

    /// While others decode, their step is taken out of the step's time.
    fn shared_prefill_us(&self, tokens: f64) -> f64 {
        let decoding = self.step_us(self.running.len()) / (self.device.step_limit_us as f64).max(1.0);
        let share = if self.running.is_empty() { 1.0 } else { (1.0 - decoding).max(LEAST_SHARE) };
        self.prefill_us(tokens) / share
    }

    fn expected(&self, sequence: &Sequence) -> f64 {
        self.answer_tokens.ceil().min(f64::from(sequence.max_tokens)).max(1.0)
    }

    fn prompt_left(&self) -> f64 {
        let waiting: f64 = self.waiting.iter().map(|s| f64::from(s.prompt_tokens)).sum();
        self.running.iter().map(|r| r.prompt_left.max(0.0)).sum::<f64>() + waiting
    }

    /// Drops a sequence that nobody waits for. Call [`Engine::advance`] first.
    pub fn cancel(&mut self, number: usize, did: &mut Vec<(u64, Did)>) {
        self.running.retain(|running| running.sequence.number != number);
        self.waiting.retain(|sequence| sequence.number != number);
        self.admit(did);
    }

    /// Loses all that it has; who had something there.
    pub fn crash(&mut self) -> Vec<usize> {
        let running = self.running.drain(..).map(|r| r.sequence.number);
        let lost = running.chain(self.waiting.drain(..).map(|s| s.number)).collect();
        self.prefixes = PrefixCache::of_tokens(self.device.prefix_cache_tokens);
        lost
    }

    /// Its load line. Call [`Engine::advance`] first.
    pub fn load(&self) -> Load {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Load {
            running: count(self.running.len()),
            queued: count(self.waiting.len()),
            slots: self.device.slots,
            queue_limit: self.device.queue_limit,
            queued_prefill_tokens: self.prompt_left().ceil() as u64,
            free_kv_blocks: 0,
            total_kv_blocks: 0,
            prefill_rate: self.device.prefill_rate,
            step_base_us: self.device.step_base_us,
            step_per_sequence_us: self.device.step_per_sequence_us,
        }
    }
}
