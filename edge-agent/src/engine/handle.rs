//! The engine from outside: cheap to clone, usable from any thread or task.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use terrace_contract::load::Load;
use tokio::sync::mpsc;

use super::forecast::Forecast;
use super::shared::{Place, Shared};
use super::{Clock, EngineStats, Event, GenerateRequest, Refused};
use crate::gguf::{ChatTemplate, Tokenizer};
use crate::model::ModelInfo;

/// A request within one engine; unique for the engine's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestId(pub u64);

/// The engine could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No thread.
    #[error("no thread for the engine: raise the limit of processes (ulimit -u, or the pod's pids limit)")]
    Thread(#[source] std::io::Error),
    /// No random numbers, without which one caller could find out what another asked.
    #[error("the system gives no random numbers for the prefix cache's secret: check that getrandom(2) is permitted")]
    Secret,
}

/// A request on its way into the loop.
pub(super) struct Submission {
    pub(super) id: RequestId,
    pub(super) request: GenerateRequest,
    /// One for each choice.
    pub(super) choices: Vec<Choice>,
    pub(super) at: Instant,
    /// Tokens that each choice is expected to have.
    pub(super) expected: u64,
}

/// One of a request's answers.
pub(super) struct Choice {
    /// Which of them: the others may be cancelled before it begins.
    pub(super) index: u32,
    pub(super) events: mpsc::Sender<Event>,
    pub(super) place: Place,
}

/// How to reach a running engine. When the last handle is dropped, the engine finishes what it has and ends.
#[derive(Clone)]
pub struct EngineHandle {
    pub(super) shared: Arc<Shared>,
    pub(super) queue: SyncSender<Submission>,
    pub(super) clock: Clock,
    pub(super) info: Arc<ModelInfo>,
    pub(super) tokenizer: Arc<Tokenizer>,
    pub(super) template: Option<Arc<ChatTemplate>>,
}

impl EngineHandle {
    /// Queues a request. Never blocks. Dropping the receiver cancels within one step of the engine.
    ///
    /// # Errors
    /// [`Refused`], at once.
    pub fn submit(&self, request: GenerateRequest) -> Result<(RequestId, mpsc::Receiver<Event>), Refused> {
        let (id, receivers) = self.submit_choices(request, 1)?;
        let receiver = receivers.into_iter().next().ok_or(Refused::EmptyPrompt)?;
        Ok((id, receiver))
    }

    /// Queues a request for several answers. Its prompt is computed once and shared by all; the i-th choice draws with
    /// the seed plus i. Each choice has its own events and can be cancelled by itself.
    ///
    /// # Errors
    /// [`Refused`], at once.
    pub fn submit_choices(
        &self,
        request: GenerateRequest,
        choices: u32,
    ) -> Result<(RequestId, Vec<mpsc::Receiver<Event>>), Refused> {
        let limit = self.info.context_tokens as usize;
        if request.prompt.is_empty() {
            return Err(Refused::EmptyPrompt);
        }
        // An answer needs room for a token; a text that is only read does not.
        if request.prompt.len() + usize::from(request.max_tokens > 0) > limit {
            return Err(Refused::ContextTooLong { tokens: request.prompt.len(), limit });
        }
        if let Some(&id) = request.prompt.iter().find(|&&id| id as usize >= self.info.vocabulary) {
            return Err(Refused::UnknownToken { id, vocabulary: self.info.vocabulary });
        }
        let choices = choices.max(1);
        if choices > self.shared.places() {
            return Err(Refused::TooManyChoices { asked: choices, limit: self.shared.places() });
        }
        if self.shared.draining.load(Relaxed) {
            return Err(self.draining());
        }
        let room = (limit - request.prompt.len()) as u32;
        let max_tokens = request.max_tokens.min(room);
        let (prompt, expected) = (request.prompt.len(), self.shared.expected_tokens(max_tokens));
        let Forecast { wait, own } = self.shared.at_best(expected);
        if let Some(deadline) = request.deadline
            && self.clock.now() + wait + own > deadline
        {
            let late_alone = self.clock.now() + own > deadline;
            return Err(self.shared.late(wait + own, again(wait, late_alone)));
        }
        let Some(places) = self.shared.claim(choices) else {
            let limit = self.shared.queue_limit;
            // The first that ends lets one in from the queue, whose place is then free.
            return Err(Refused::QueueFull { limit, retry_after: at_least_some(wait) });
        };
        let id = RequestId(self.shared.next_id.fetch_add(1, Relaxed));
        // Room for every event there can be: the loop never waits for a slow reader.
        let channel = |(index, place)| {
            let (events, receiver) = mpsc::channel(max_tokens as usize + 5);
            (Choice { index, events, place }, receiver)
        };
        let (choices, receivers) = (0..).zip(places).map(channel).unzip();
        let request = GenerateRequest { max_tokens, ..request };
        let submission = Submission { id, request, choices, at: self.clock.now(), expected };
        self.shared.arriving(prompt);
        // The channel has as many places as can be claimed, so it can only be closed, never full.
        if self.queue.try_send(submission).is_err() {
            self.shared.arrived(prompt);
            return Err(self.draining());
        }
        Ok((id, receivers))
    }

    /// Whether prompts of so many tokens in all could be read by then, of which nothing is in the cache: for whoever sends
    /// them one after the other and would rather be refused before the first.
    ///
    /// # Errors
    /// [`Refused::DeadlineUnmeetable`].
    pub fn weigh(&self, tokens: usize, deadline: Instant) -> Result<(), Refused> {
        let Forecast { wait, own } = self.shared.reading(tokens);
        let now = self.clock.now();
        if now + wait + own <= deadline {
            return Ok(());
        }
        Err(self.shared.late(wait + own, again(wait, now + own > deadline)))
    }

    /// Choices that can run and wait together: no request can have more.
    pub fn places(&self) -> u32 {
        self.shared.places()
    }

    /// What the device has to do, and how fast it does it.
    pub fn load(&self) -> Load {
        self.shared.load()
    }

    /// Steps of the loop so far, idle ticks included: grows as long as the engine lives.
    pub fn progress(&self) -> u64 {
        self.shared.steps()
    }

    /// How long ago the loop last moved: for as long as the current step takes, or since the loop died.
    pub fn stalled_for(&self) -> Duration {
        self.shared.stalled_for()
    }

    /// Whether the loop moves: what liveness asks.
    ///
    /// # Errors
    /// When it has not moved for longer than `limit`, which should be far more than a step can take.
    pub fn alive(&self, limit: Duration) -> Result<(), String> {
        match self.stalled_for() {
            stalled if stalled < limit => Ok(()),
            stalled => Err(format!("no step for {} s", stalled.as_secs())),
        }
    }

    /// What happened so far.
    pub fn stats(&self) -> EngineStats {
        self.shared.stats()
    }

    /// Refuses what is new; what was taken is finished.
    pub fn drain(&self) {
        self.shared.draining.store(true, Relaxed);
    }

    /// Whether it has stopped taking requests.
    pub fn is_draining(&self) -> bool {
        self.shared.draining.load(Relaxed)
    }

    /// Waits until nothing is queued or running (or the engine has ended). Meant to follow [`Self::drain`].
    pub async fn drained(&self) {
        let mut in_flight = self.shared.in_flight.subscribe();
        // The sender is in `shared`, so there is no error.
        let _ = in_flight.wait_for(|_| self.shared.in_flight() == 0).await;
    }

    /// Ends everything within one step: what is queued or running gets [`super::Failure::Stopped`].
    pub fn stop(&self) {
        self.drain();
        self.shared.stopped.store(true, Relaxed);
    }

    /// The model it runs.
    pub fn model(&self) -> &ModelInfo {
        &self.info
    }

    /// Text to tokens and back.
    pub fn tokenizer(&self) -> &Arc<Tokenizer> {
        &self.tokenizer
    }

    /// Messages to a prompt; none if the file has no template.
    pub fn chat_template(&self) -> Option<&Arc<ChatTemplate>> {
        self.template.as_ref()
    }

    fn draining(&self) -> Refused {
        Refused::Draining { retry_after: Duration::from_secs(1) }
    }
}

/// When to ask again after `wait` for others: what would be late even alone is not helped before rates are measured anew.
pub(super) fn again(wait: Duration, late_alone: bool) -> Duration {
    if late_alone { wait.max(Duration::from_secs(1)) } else { at_least_some(wait) }
}

/// A wait that a client can act on.
pub(super) fn at_least_some(wait: Duration) -> Duration {
    wait.max(Duration::from_millis(50))
}
