//! One answer's place in its grammar.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::time::Duration;

use llguidance::toktrie::SimpleVob;
use llguidance::{Matcher, TokenParser};

/// Keeps one answer to its grammar: [`Self::allowed`], then [`Self::commit`], in turn.
pub struct Constraint {
    state: State,
    worker: Worker,
}

/// A matcher with the mask that it made; none if it could not.
type Made = Option<(Box<Matcher>, SimpleVob)>;

enum State {
    /// The worker makes the mask.
    Away(Receiver<Made>),
    /// It is made.
    Here(Box<Matcher>, SimpleVob),
    /// Nothing more can come, or the grammar was lost.
    Over,
}

/// The answer cannot be kept to its grammar any further: following it takes more than its limits allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost;

/// A grammar ready for use: each answer that keeps to it begins one [`Constraint`].
#[derive(Clone)]
pub struct Compiled {
    parser: TokenParser,
    worker: Worker,
}

impl Compiled {
    pub(super) fn new(parser: TokenParser, worker: Worker) -> Self {
        Compiled { parser, worker }
    }

    /// For one answer; its first mask is made from now on.
    pub fn begin(&self) -> Constraint {
        let mut constraint = Constraint { state: State::Over, worker: self.worker.clone() };
        // A plain clone would share a lock with other answers.
        constraint.send(Box::new(Matcher::new(Ok(self.parser.deep_clone()))));
        constraint
    }
}

impl std::fmt::Debug for Compiled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Compiled")
    }
}

impl Constraint {
    /// Whether [`Self::allowed`] would answer at once, be it that the grammar is lost. Waits no longer than this for it.
    pub fn ready(&mut self, patience: Duration) -> bool {
        if let State::Away(made) = &self.state {
            let made = if patience.is_zero() {
                made.try_recv().map_err(|e| e == TryRecvError::Empty)
            } else {
                made.recv_timeout(patience).map_err(|e| e == RecvTimeoutError::Timeout)
            };
            match made {
                Err(true) => return false,
                made => self.came(made.ok().flatten()),
            }
        }
        true
    }

    /// A bit for each token that may come next, the lowest first. Waits for it if it is not made yet.
    ///
    /// # Errors
    /// [`Lost`].
    pub fn allowed(&mut self) -> Result<&[u32], Lost> {
        if let State::Away(made) = &self.state {
            let made = made.recv().ok().flatten();
            self.came(made);
        }
        match &self.state {
            State::Here(_, mask) => Ok(mask.as_slice()),
            _ => Err(Lost),
        }
    }

    /// Goes on past a token that was allowed; the next mask is made meanwhile. True: the answer is complete, nothing can
    /// follow.
    ///
    /// # Errors
    /// [`Lost`].
    pub fn commit(&mut self, token: u32) -> Result<bool, Lost> {
        self.allowed()?;
        let State::Here(mut matcher, _) = std::mem::replace(&mut self.state, State::Over) else { return Err(Lost) };
        matcher.consume_token(token).map_err(|_| Lost)?;
        if matcher.is_stopped() {
            return Ok(true);
        }
        self.send(matcher);
        Ok(false)
    }

    fn came(&mut self, made: Made) {
        self.state = made.map_or(State::Over, |(matcher, mask)| State::Here(matcher, mask));
    }

    fn send(&mut self, matcher: Box<Matcher>) {
        let (made, receiver) = sync_channel(1);
        // With the worker gone, the receiver says so.
        let _ = self.worker.0.send((matcher, made));
        self.state = State::Away(receiver);
    }
}

impl std::fmt::Debug for Constraint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Constraint")
    }
}

/// The thread that makes masks. It ends when the last constraint and its maker are gone.
#[derive(Clone)]
pub(super) struct Worker(Sender<(Box<Matcher>, SyncSender<Made>)>);

impl Worker {
    pub(super) fn start() -> std::io::Result<Self> {
        let (sender, jobs) = channel::<(Box<Matcher>, SyncSender<Made>)>();
        std::thread::Builder::new().name("grammar".into()).spawn(move || {
            for (mut matcher, made) in jobs {
                let mask = matcher.compute_mask().ok();
                // Fails only if the answer was given up meanwhile.
                let _ = made.send(mask.map(|mask| (matcher, mask)));
            }
        })?;
        Ok(Worker(sender))
    }
}
