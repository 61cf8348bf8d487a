//! The engine from outside: cheap to clone, usable from any thread or task.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use terrace_contract::load::Load;
use tokio::sync::{mpsc, watch};

use super::shared::Shared;
use super::{Event, GenerateRequest, Refused};
use crate::gguf::{ChatTemplate, Tokenizer};
use crate::model::ModelInfo;

/// A request within one engine; unique for the engine's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestId(pub u64);

/// The engine's thread could not be made.
#[derive(Debug, thiserror::Error)]
#[error("no thread for the engine: raise the limit of processes (ulimit -u, or the pod's pids limit)")]
pub struct StartError(#[source] pub std::io::Error);

/// A request on its way into the loop.
pub(super) struct Submission {
    pub(super) id: RequestId,
    pub(super) request: GenerateRequest,
    pub(super) events: mpsc::Sender<Event>,
    pub(super) at: Instant,
    /// Tokens this request added to `pending_decode`.
    pub(super) expected: u64,
}

/// How to reach a running engine. When the last handle is dropped, the engine finishes what it has and ends.
#[derive(Clone)]
pub struct EngineHandle {
    pub(super) shared: Arc<Shared>,
    pub(super) queue: SyncSender<Submission>,
    pub(super) in_flight: watch::Receiver<u32>,
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
        let limit = self.info.context_tokens as usize;
        if request.prompt.is_empty() {
            return Err(Refused::EmptyPrompt);
        }
        if request.prompt.len() >= limit {
            return Err(Refused::ContextTooLong { tokens: request.prompt.len(), limit });
        }
        if let Some(&id) = request.prompt.iter().find(|&&id| id as usize >= self.info.vocabulary) {
            return Err(Refused::UnknownToken { id, vocabulary: self.info.vocabulary });
        }
        if self.shared.draining.load(Relaxed) {
            return Err(self.draining());
        }
        let room = (limit - request.prompt.len()) as u32;
        let max_tokens = request.max_tokens.min(room);
        let (prompt, expected) = (request.prompt.len() as u64, self.shared.expected_tokens(max_tokens));
        let (wait, own) = self.shared.predict(prompt, expected);
        if let Some(deadline) = request.deadline
            && Instant::now() + wait + own > deadline
        {
            return Err(Refused::DeadlineUnmeetable { predicted: wait + own, retry_after: at_least_some(wait) });
        }
        if !self.shared.claim() {
            let limit = self.shared.queue_limit;
            return Err(Refused::QueueFull { limit, retry_after: at_least_some(wait / (limit + 1)) });
        }
        self.shared.pending_prefill.fetch_add(prompt, Relaxed);
        self.shared.pending_decode.fetch_add(expected, Relaxed);
        let id = RequestId(self.shared.next_id.fetch_add(1, Relaxed));
        // Room for every event there can be: the loop never waits for a slow reader.
        let (events, receiver) = mpsc::channel(max_tokens as usize + 4);
        let submission =
            Submission { id, request: GenerateRequest { max_tokens, ..request }, events, at: Instant::now(), expected };
        // The channel has as many places as can be claimed, so it can only be closed, never full.
        if self.queue.try_send(submission).is_err() {
            self.shared.release();
            return Err(self.draining());
        }
        Ok((id, receiver))
    }

    /// What the device has to do, and how fast it does it.
    pub fn load(&self) -> Load {
        self.shared.load()
    }

    /// Steps of the loop so far, idle ticks included: grows as long as the engine lives.
    pub fn progress(&self) -> u64 {
        self.shared.steps()
    }

    /// How long ago the loop last moved. Liveness fails when this passes what one step can take (seconds, not more).
    pub fn stalled_for(&self) -> Duration {
        self.shared.stalled_for()
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
        let mut in_flight = self.in_flight.clone();
        // An error means that the loop has ended: then nothing is in flight.
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

/// A wait that a client can act on.
fn at_least_some(wait: Duration) -> Duration {
    wait.max(Duration::from_millis(50))
}
