//! The truth about one device: the agent's loop, as the router cannot see it.
//!
//! Each turn of the loop feeds one chunk of the oldest prompt and one decode step for all that decode, as
//! `edge-agent/src/engine/run.rs` does. With q tokens a chunk, prefill rate P and decode step a + c b, a turn takes
//!
//! ```text
//! q / P + (a + c b if b > 0)     while a prompt is waiting: q prompt tokens and one output token each
//! a + c b                        else: one output token each
//! ```
//!
//! Between two events (a prompt done, an answer done) the batch does not change, so the time to the next one is a
//! division, and a run costs a few operations a request rather than one a token.

use std::collections::VecDeque;

use terrace_contract::load::Load;

use crate::prefix::PrefixCache;
use crate::world::Device;

/// Weight of the newest measurement in the agent's moving mean of answer lengths.
const NEWEST: f64 = 0.2;
/// Tokens that an agent takes an answer to have before it has seen one.
const FIRST_GUESS: f64 = 64.0;
/// What is left of a sequence is counted in real numbers; less than this is nothing.
const NOTHING: f64 = 1e-6;

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
    output_left: f64,
    expected: f64,
    cached: u32,
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
    measured: bool,
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
            measured: false,
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

    /// One turn: how long it takes, and how many prompt tokens it feeds.
    fn turn(&self) -> (f64, f64) {
        let chunk = f64::from(self.device.prefill_chunk.max(1));
        let step = self.step_us(self.decoding());
        if self.running.iter().any(|r| r.prompt_left > 0.0) {
            (chunk / (self.device.prefill_rate * self.speed) * 1e6 + step, chunk)
        } else {
            (step, 0.0)
        }
    }

    /// When the batch changes next; none: it is idle.
    pub fn next_us(&self) -> Option<f64> {
        let (turn_us, chunk) = self.turn();
        let head = self.running.iter().find(|r| r.prompt_left > 0.0).map(|r| r.prompt_left / chunk);
        let decoded = self.running.iter().filter(|r| r.prompt_left <= 0.0).map(|r| r.output_left);
        let turns = head.into_iter().chain(decoded).min_by(f64::total_cmp)?;
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
        let (turn_us, chunk) = self.turn();
        if turn_us <= 0.0 || us <= 0.0 {
            return;
        }
        self.busy_us += us;
        let turns = us / turn_us;
        let mut prompt = chunk * turns;
        for running in &mut self.running {
            if running.prompt_left > 0.0 {
                // Only the oldest prompt is fed; between two events it is one and the same.
                running.prompt_left -= std::mem::take(&mut prompt);
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
            if running.prompt_left != 0.0 && running.prompt_left <= NOTHING {
                running.prompt_left = 0.0;
                running.output_left -= 1.0;
                self.measured = true;
                self.prefixes.insert(&running.sequence.blocks);
                did.push((at, Did::FirstToken { number, cached: running.cached }));
            }
        }
        let (mean, mut lengths) = (&mut self.answer_tokens, Vec::new());
        self.running.retain(|running| {
            let ended = running.prompt_left <= 0.0 && running.output_left <= NOTHING;
            if ended {
                lengths.push(f64::from(running.sequence.output_tokens));
                did.push((at, Did::Ended { number: running.sequence.number }));
            }
            !ended
        });
        lengths.into_iter().for_each(|length| *mean += NEWEST * (length - *mean));
        self.admit();
    }

    fn admit(&mut self) {
        while self.running.len() < self.device.slots as usize {
            let Some(sequence) = self.waiting.pop_front() else { return };
            let cached = self.prefixes.hit(&sequence.blocks, sequence.prompt_tokens);
            self.running.push(Running {
                prompt_left: f64::from((sequence.prompt_tokens - cached).max(1)),
                output_left: f64::from(sequence.output_tokens.max(1)),
                expected: self.answer_tokens.min(f64::from(sequence.max_tokens)).max(1.0),
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
        if self.measured && self.at_us + self.predict(&sequence) > sequence.deadline_us as f64 {
            return Err(Refused::Late);
        }
        self.waiting.push_back(sequence);
        self.admit();
        Ok(())
    }

    /// The agent's own forecast, from rates and its mean answer (`edge-agent/src/engine/shared.rs`).
    fn predict(&self, sequence: &Sequence) -> f64 {
        let step = self.step_us(self.decoding().max(1));
        let time = |prompt: f64, output: f64| prompt / (self.device.prefill_rate * self.speed) * 1e6 + output * step;
        let expected = self.answer_tokens.min(f64::from(sequence.max_tokens)).max(1.0);
        let wait = if self.in_flight() < self.device.slots as usize {
            0.0
        } else {
            let done = |r: &Running| f64::from(r.sequence.output_tokens) - r.output_left;
            let output: f64 = self.running.iter().map(|r| (r.expected - done(r)).max(0.0)).sum();
            time(self.prompt_left(), output + expected * self.waiting.len() as f64) / f64::from(self.device.slots)
        };
        wait + time(f64::from(sequence.prompt_tokens), expected)
    }

    fn prompt_left(&self) -> f64 {
        let waiting: f64 = self.waiting.iter().map(|s| f64::from(s.prompt_tokens)).sum();
        self.running.iter().map(|r| r.prompt_left.max(0.0)).sum::<f64>() + waiting
    }

    /// Drops a sequence that nobody waits for. Call [`Engine::advance`] first.
    pub fn cancel(&mut self, number: usize) {
        self.running.retain(|running| running.sequence.number != number);
        self.waiting.retain(|sequence| sequence.number != number);
        self.admit();
    }

    /// Loses all that it has; who had something there.
    pub fn crash(&mut self) -> Vec<usize> {
        let running = self.running.drain(..).map(|r| r.sequence.number);
        let lost = running.chain(self.waiting.drain(..).map(|s| s.number)).collect();
        self.prefixes = PrefixCache::of_tokens(self.device.prefix_cache_tokens);
        self.measured = false;
        lost
    }

    /// Its load line. Call [`Engine::advance`] first.
    pub fn load(&self) -> Load {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let rate = |value: f64| if self.measured { value } else { 0.0 };
        Load {
            running: count(self.running.len()),
            queued: count(self.waiting.len()),
            slots: self.device.slots,
            queue_limit: self.device.queue_limit,
            queued_prefill_tokens: self.prompt_left().ceil() as u64,
            free_kv_blocks: 0,
            total_kv_blocks: 0,
            prefill_rate: rate(self.device.prefill_rate),
            step_base_us: rate(self.device.step_base_us),
            step_per_sequence_us: rate(self.device.step_per_sequence_us),
        }
    }
}
