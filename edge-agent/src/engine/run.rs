//! The loop. Each turn: take in what came, drop what nobody waits for, admit, prefill one chunk, decode one token for
//! every running sequence. Nothing in it waits for a caller.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel};
use std::time::Instant;

use tokio::sync::watch;

use super::handle::{EngineHandle, StartError, Submission};
use super::sequence::{Sequence, Turn};
use super::shared::{Shared, take};
use super::{EngineConfig, Event, Failure};
use crate::gguf::Tokenizer;
use crate::model::{BLOCK_TOKENS, Feed, LoadedModel, Network, Wanted};

/// The engine's side that runs on its own thread. Start it and keep the [`EngineHandle`].
pub struct Engine {
    network: Box<dyn Network>,
    tokenizer: Arc<Tokenizer>,
    prefill_chunk: usize,
    idle_tick: std::time::Duration,
    shared: Arc<Shared>,
    queue: Receiver<Submission>,
    in_flight: watch::Sender<u32>,
    waiting: VecDeque<Submission>,
    running: Vec<Sequence>,
    free_tables: Vec<Vec<u32>>,
}

impl Engine {
    /// Moves a model onto a thread of its own and returns the way to reach it. The thread ends when every handle is
    /// gone and what was taken is finished.
    ///
    /// # Errors
    /// When the thread cannot be made.
    pub fn start(model: LoadedModel, config: EngineConfig) -> Result<EngineHandle, StartError> {
        let LoadedModel { network, info, tokenizer, template } = model;
        let each = (info.context_tokens as usize).div_ceil(BLOCK_TOKENS);
        let tables: Vec<Vec<u32>> = (0..network.blocks() / each)
            .take(config.max_sequences.max(1) as usize)
            .map(|slot| (slot * each..(slot + 1) * each).map(|block| block as u32).collect())
            .collect();
        let slots = tables.len() as u32;
        let shared = Arc::new(Shared::new(slots, config.queue_limit, network.blocks() as u64));
        let (sender, queue) = sync_channel((slots + config.queue_limit) as usize);
        let (in_flight, watcher) = watch::channel(0);
        let tokenizer = Arc::new(tokenizer);
        let engine = Engine {
            network,
            tokenizer: tokenizer.clone(),
            prefill_chunk: config.prefill_chunk.max(1) as usize,
            idle_tick: config.idle_tick,
            shared: shared.clone(),
            queue,
            in_flight,
            waiting: VecDeque::new(),
            running: Vec::new(),
            free_tables: tables,
        };
        std::thread::Builder::new().name("engine".into()).spawn(move || engine.run()).map_err(StartError)?;
        Ok(EngineHandle {
            shared,
            queue: sender,
            in_flight: watcher,
            info: Arc::new(info),
            tokenizer,
            template: template.map(Arc::new),
        })
    }

    fn run(mut self) {
        while self.receive() {
            self.shared.moved();
            self.sweep();
            self.admit();
            self.prefill();
            self.decode();
            self.publish();
        }
    }

    /// Takes in what came; with nothing to do, waits for it, but never longer than the tick. False: everyone is gone.
    fn receive(&mut self) -> bool {
        if self.running.is_empty() && self.waiting.is_empty() {
            return match self.queue.recv_timeout(self.idle_tick) {
                Ok(submission) => {
                    self.waiting.push_back(submission);
                    true
                }
                Err(RecvTimeoutError::Timeout) => true,
                Err(RecvTimeoutError::Disconnected) => false,
            };
        }
        loop {
            match self.queue.try_recv() {
                Ok(submission) => self.waiting.push_back(submission),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return true,
            }
        }
    }

    /// Ends what nobody waits for, what is late, and everything once told to stop.
    fn sweep(&mut self) {
        let (now, stopped) = (Instant::now(), self.shared.stopped.load(Relaxed));
        let verdict = |events: &tokio::sync::mpsc::Sender<Event>, deadline: Option<Instant>| {
            if events.is_closed() {
                Verdict::Cancelled
            } else if stopped {
                Verdict::Failed(Failure::Stopped)
            } else if deadline.is_some_and(|d| d <= now) {
                Verdict::Failed(Failure::DeadlineExceeded)
            } else {
                Verdict::Fine
            }
        };
        for index in (0..self.waiting.len()).rev() {
            let submission = &self.waiting[index];
            let verdict = verdict(&submission.events, submission.request.deadline);
            if matches!(verdict, Verdict::Fine) {
                continue;
            }
            if let Some(submission) = self.waiting.remove(index) {
                verdict.tell(&submission.events);
                self.forget(submission.request.prompt.len() as u64, submission.expected);
            }
        }
        for index in (0..self.running.len()).rev() {
            let verdict = verdict(&self.running[index].events, self.running[index].request.deadline);
            if !matches!(verdict, Verdict::Fine) {
                self.retire(index, |sequence| verdict.tell(&sequence.events));
            }
        }
    }

    fn admit(&mut self) {
        while !self.waiting.is_empty() {
            let Some(blocks) = self.free_tables.pop() else { return };
            let Some(submission) = self.waiting.pop_front() else { return };
            self.running.push(Sequence::begin(submission, blocks));
        }
        self.publish();
    }

    /// One chunk of the oldest prompt that is not in the cache yet.
    fn prefill(&mut self) {
        let Some(index) = self.running.iter().position(|s| s.prompt_left() > 0) else { return };
        let sequence = &mut self.running[index];
        let from = sequence.position;
        let to = sequence.request.prompt.len().min(from + self.prefill_chunk);
        let last = to == sequence.request.prompt.len();
        let began = Instant::now();
        let tokens = &sequence.request.prompt[from..to];
        let wanted = if last { Wanted::NEXT } else { Wanted::default() };
        let outputs = self.network.step(&[Feed { blocks: &sequence.blocks, tokens, position: from, wanted }]);
        let fed = (to - from) as u32;
        self.shared.measured_prefill(fed, began.elapsed());
        take(&self.shared.pending_prefill, u64::from(fed));
        sequence.position = to;
        if let Some(logits) = outputs.into_iter().flat_map(|output| output.logits).next() {
            self.turn(index, logits);
        }
    }

    /// One token for every sequence that has one to continue from.
    fn decode(&mut self) {
        let ready: Vec<usize> = (0..self.running.len()).filter(|&i| self.running[i].next.is_some()).collect();
        if ready.is_empty() {
            return;
        }
        let began = Instant::now();
        let feeds: Vec<Feed<'_>> = ready
            .iter()
            .filter_map(|&i| {
                let s = &self.running[i];
                let tokens = s.next.as_ref().map(std::slice::from_ref)?;
                Some(Feed { blocks: &s.blocks, tokens, position: s.position, wanted: Wanted::NEXT })
            })
            .collect();
        let outputs = self.network.step(&feeds);
        self.shared.measured_step(began.elapsed());
        // From the last, so that retiring one does not move those still to come.
        let logits = outputs.into_iter().flat_map(|output| output.logits);
        for (&index, logits) in ready.iter().zip(logits.collect::<Vec<_>>()).rev() {
            let sequence = &mut self.running[index];
            sequence.position += 1;
            sequence.batched += ready.len() as u64;
            self.turn(index, logits);
        }
    }

    /// What follows from new logits.
    fn turn(&mut self, index: usize, logits: Vec<f32>) {
        match self.running[index].turn(logits, &self.tokenizer) {
            Turn::Continues => take(&self.shared.pending_decode, u64::from(self.running[index].take_expected())),
            Turn::Ends(reason) => {
                self.shared.measured_answer(self.running[index].completion());
                self.retire(index, |sequence| sequence.end(reason));
            }
            Turn::Fails(failure) => {
                self.retire(index, |sequence| Verdict::Failed(failure).tell(&sequence.events));
            }
        }
    }

    /// Takes a sequence off the batch. Its last event goes out before its place is free: whoever waits for the engine
    /// to be empty may then end the process.
    fn retire(&mut self, index: usize, last_words: impl FnOnce(&mut Sequence)) {
        let mut sequence = self.running.remove(index);
        last_words(&mut sequence);
        self.free_tables.push(std::mem::take(&mut sequence.blocks));
        self.forget(sequence.prompt_left() as u64, sequence.expected);
    }

    /// A request is over: its place is free, and what it still had to do is not pending any more.
    fn forget(&self, prompt: u64, expected: u64) {
        take(&self.shared.pending_prefill, prompt);
        take(&self.shared.pending_decode, expected);
        let left = self.shared.release();
        self.in_flight.send_replace(left);
    }

    fn publish(&self) {
        self.shared.running.store(self.running.len() as u32, Relaxed);
        let blocks: usize = self.running.iter().map(|s| s.position.div_ceil(BLOCK_TOKENS)).sum();
        self.shared.used_kv_blocks.store(blocks as u64, Relaxed);
    }
}

enum Verdict {
    Fine,
    Cancelled,
    Failed(Failure),
}

impl Verdict {
    fn tell(self, events: &tokio::sync::mpsc::Sender<Event>) {
        if let Verdict::Failed(failure) = self {
            // Fails only if the caller is gone, who then needs no news.
            let _ = events.try_send(Event::Failed(failure));
        }
    }
}
