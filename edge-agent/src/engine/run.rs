//! The loop. Each turn: take in what came, drop what nobody waits for, admit, run one step for everyone. Nothing in it
//! waits for a caller.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel};
use std::time::Instant;

use terrace_contract::load::STEPS_ALONE;
use tokio::sync::mpsc::Sender;

use super::cache::{Pool, Salt};
use super::forecast::Outlook;
use super::handle::{EngineHandle, StartError, Submission};
use super::lane::Lane;
use super::plan::Limits;
use super::queue::Queue;
use super::rates::Rates;
use super::sequence::Sequence;
use super::shared::{Published, Shared};
use super::{Clock, EngineConfig, Event, Failure};
use crate::gguf::Tokenizer;
use crate::model::{LoadedModel, Network};

/// The engine's side that runs on its own thread. Start it and keep the [`EngineHandle`].
pub struct Engine {
    pub(super) network: Box<dyn Network>,
    pub(super) tokenizer: Arc<Tokenizer>,
    pub(super) limits: Limits,
    idle_tick: std::time::Duration,
    pub(super) clock: Clock,
    pub(super) shared: Arc<Shared>,
    arrivals: Receiver<Submission>,
    pub(super) salt: Salt,
    pub(super) pool: Pool,
    pub(super) rates: Rates,
    pub(super) waiting: Queue,
    /// Left the queue, hold no blocks, go on when there is room: the oldest first.
    pub(super) paused: Vec<Lane>,
    /// Part of the steps: the oldest first.
    pub(super) lanes: Vec<Lane>,
    /// Admissions so far.
    pub(super) admitted: u64,
    /// Steps so far.
    pub(super) steps: u64,
    /// When the rates were last measured with nothing else to do.
    pub(super) calibrated: Instant,
}

impl Engine {
    /// Moves a model onto a thread of its own and returns the way to reach it. The thread ends when every handle is
    /// gone and what was taken is finished.
    ///
    /// # Errors
    /// When the system gives no thread or no random numbers.
    pub fn start(model: LoadedModel, config: EngineConfig) -> Result<EngineHandle, StartError> {
        let LoadedModel { network, info, tokenizer, template } = model;
        let (slots, blocks) = (config.max_sequences.max(1), network.blocks());
        let shared = Arc::new(Shared::new(slots, config.queue_limit, blocks as u64));
        let (queue, arrivals) = sync_channel(shared.places() as usize);
        let tokenizer = Arc::new(tokenizer);
        let engine = Engine {
            network,
            tokenizer: tokenizer.clone(),
            limits: Limits {
                beside: config.step_limit,
                alone: config.step_limit * STEPS_ALONE,
                tokens: config.prefill_chunk.max(1) as usize,
            },
            idle_tick: config.idle_tick,
            clock: config.clock.clone(),
            shared: shared.clone(),
            arrivals,
            salt: Salt::fresh().ok_or(StartError::Secret)?,
            pool: Pool::new(blocks),
            rates: Rates::default(),
            waiting: Queue::default(),
            paused: Vec::new(),
            lanes: Vec::new(),
            admitted: 0,
            steps: 0,
            calibrated: config.clock.now(),
        };
        std::thread::Builder::new().name("engine".into()).spawn(move || engine.run()).map_err(StartError::Thread)?;
        Ok(EngineHandle {
            shared,
            queue,
            clock: config.clock,
            info: Arc::new(info),
            tokenizer,
            template: template.map(Arc::new),
        })
    }

    fn run(mut self) {
        self.calibrate();
        while self.receive() {
            self.shared.moved();
            self.believe();
            self.sweep();
            self.admit();
            // Before the step as well: it may be a long one, and whoever hears its first token may ask at once.
            self.publish();
            self.step();
            self.publish();
        }
    }

    /// Takes in what came; with nothing to do, waits for it, but never longer than the tick. False: everyone is gone.
    fn receive(&mut self) -> bool {
        if self.is_idle() {
            match self.arrivals.recv_timeout(self.idle_tick) {
                Ok(submission) => self.take_in(submission),
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
        // Whoever came at the same time goes into the same step.
        loop {
            match self.arrivals.try_recv() {
                Ok(submission) => self.take_in(submission),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return true,
            }
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.lanes.is_empty() && self.paused.is_empty() && self.waiting.is_empty()
    }

    /// Ends what nobody waits for, what is late, and everything once told to stop.
    fn sweep(&mut self) {
        let (now, stopped) = (self.clock.now(), self.shared.stopped.load(Relaxed));
        let verdict = |events: &Sender<Event>, deadline: Option<Instant>| {
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
        self.waiting.retain(|waiting| {
            let deadline = waiting.submission.request.deadline;
            waiting.submission.choices.retain(|choice| verdict(&choice.events, deadline).goes_on(&choice.events));
            !waiting.submission.choices.is_empty()
        });
        let of = |sequence: &Sequence| verdict(&sequence.events, sequence.request.deadline).goes_on(&sequence.events);
        let goes_on = |lane: &mut Lane| {
            lane.siblings.retain(|(sibling, _)| of(sibling));
            of(&lane.sequence) || lane.promote()
        };
        self.paused.retain_mut(goes_on);
        for mut lane in std::mem::take(&mut self.lanes) {
            if goes_on(&mut lane) {
                self.lanes.push(lane);
            } else {
                lane.table.release(&mut self.pool);
            }
        }
    }

    /// Says of itself what handles tell others.
    pub(super) fn publish(&self) {
        let left = |lanes: &[Lane]| lanes.iter().filter(|l| !l.decodes()).map(Lane::left).sum::<usize>();
        let pending = left(&self.lanes) + left(&self.paused) + self.waiting.iter().map(|w| w.uncached).sum::<usize>();
        self.shared.publish(&Published {
            running: self.lanes.len(),
            pending_prefill: pending,
            slot_free: self.outlook().slot_free(&[]),
            free_kv_blocks: self.pool.available(),
            evictions: self.pool.evictions(),
            rates: &self.rates,
        });
    }

    /// What is ahead of anyone who comes now. Paused sequences count as running: they go on before anyone new.
    pub(super) fn outlook(&self) -> Outlook<'_> {
        let lanes = || self.lanes.iter().chain(&self.paused);
        Outlook {
            rates: &self.rates,
            slots: self.shared.slots as usize,
            step_limit: self.limits.beside,
            running: lanes().map(Lane::expected_left).collect(),
            prefill: lanes().filter(|l| !l.decodes()).map(Lane::left).sum(),
        }
    }
}

pub(super) enum Verdict {
    Fine,
    Cancelled,
    Failed(Failure),
}

impl Verdict {
    /// Whether it goes on; if not, tells why.
    pub(super) fn goes_on(self, events: &Sender<Event>) -> bool {
        match self {
            Verdict::Fine => return true,
            Verdict::Cancelled => {}
            // Fails only if the caller is gone, who then needs no news.
            Verdict::Failed(failure) => _ = events.try_send(Event::Failed(failure)),
        }
        false
    }
}
