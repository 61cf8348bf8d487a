//! One admitted request, once everything about it is known that a decision needs.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use terrace_contract::policy::Budget;
use terrace_decide::Signals;
use terrace_decide::affinity::Prefix;
use terrace_privacy::Classified;
use terrace_wire::json::member;
use tokio::time::Instant;

use crate::dispatch::body::{self, Call};
use crate::dispatch::limits;
use crate::fleet::InUse;
use crate::sense::Ongoing;
use crate::server::language::Language;
use crate::trace::Trace;

/// One request. It holds content and therefore shows nothing when printed: it cannot be.
pub struct Job {
    /// Its id, in headers, spans and the answer's id.
    pub id: String,
    /// The call that answers it.
    pub call: Call,
    /// That call's tree.
    pub request: Value,
    /// In which language it was asked.
    pub language: Language,
    /// What privacy made of it.
    pub classified: Classified,
    /// What decide sees.
    pub signals: Signals,
    /// The budget that covers it.
    pub budget: Option<Budget>,
    /// Who may share computed prompts with it on a device; none: nobody.
    pub cache_domain: Option<String>,
    /// What its prompt begins with.
    pub prefix: Arc<Prefix>,
    /// The session that it belongs to.
    pub session: Option<Ongoing>,
    /// What its chain had left when it came.
    pub chain_left: Option<Duration>,
    /// The snapshot under which it was admitted.
    pub in_use: Arc<InUse>,
    /// When it came.
    pub started: Instant,
    /// Policies that it passed, this one last.
    pub via: String,
    /// Its trace.
    pub trace: Trace,
}

impl Job {
    /// Whether the client wants events.
    pub fn streams(&self) -> bool {
        self.call != Call::Embedding && member(&self.request, "stream") == Some(&Value::Bool(true))
    }

    /// Whether the client itself asked for the usage chunk.
    pub fn wants_usage(&self) -> bool {
        body::wants_usage(&self.request)
    }

    /// When its answer must be whole, once it has begun.
    pub fn ends(&self) -> Option<limits::Ends> {
        limits::ends(self.budget.as_ref(), self.chain_left, self.started)
    }

    /// Whether its first token is late, and its budget refuses rather than answers late.
    pub fn is_refused_as_late(&self) -> bool {
        let strict = limits::strict_first_token(self.budget.as_ref()).filter(|_| self.streams());
        strict.is_some_and(|strict| self.started.elapsed() >= strict)
    }

    /// What remains of the whole request's time; none: it is used up.
    pub fn remaining(&self) -> Option<Duration> {
        limits::total(self.budget.as_ref(), self.chain_left)
            .checked_sub(self.started.elapsed())
            .filter(|left| !left.is_zero())
    }
}
