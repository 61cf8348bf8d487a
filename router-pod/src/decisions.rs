//! The last decisions, for `terrace explain --request-id`: kept in this process alone, and never any content.
//!
//! Memory is bounded by their number; each is bounded by itself ([`terrace_decide::explain`]). A decision is shown only
//! to the key that made the request: to every other it is as if it were not there.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use terrace_contract::explanation::{Became, Explanation};

/// One decision.
#[derive(Debug)]
pub struct Decision {
    caller: String,
    explanation: Explanation,
    became: OnceLock<Became>,
}

impl Decision {
    /// What became of the request.
    pub fn ended(&self, became: Became) {
        // A request ends once.
        let _ = self.became.set(became);
    }
}

/// The last decisions.
#[derive(Debug)]
pub struct Decisions {
    most: usize,
    kept: Mutex<VecDeque<Arc<Decision>>>,
}

impl Decisions {
    /// Room for so many; 0 keeps none.
    pub fn new(most: usize) -> Self {
        Self { most, kept: Mutex::default() }
    }

    /// How many there is room for.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Keeps a decision of a caller's request, and lets the oldest go; none: none are kept.
    pub fn keep(&self, caller: &str, explain: impl FnOnce() -> Explanation) -> Option<Arc<Decision>> {
        if self.most == 0 {
            return None;
        }
        let decision =
            Arc::new(Decision { caller: caller.to_owned(), explanation: explain(), became: OnceLock::new() });
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = if kept.len() >= self.most { kept.pop_front() } else { None };
        kept.push_back(Arc::clone(&decision));
        drop(kept);
        drop(oldest);
        Some(decision)
    }

    /// The decision of a request, if it was this caller's.
    pub fn find(&self, caller: &str, request_id: &str) -> Option<Explanation> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let mine = |decision: &&Arc<Decision>| {
            decision.caller == caller && decision.explanation.request_id.as_deref() == Some(request_id)
        };
        let found = kept.iter().rev().find(mine).cloned();
        drop(kept);
        let found = found?;
        Some(Explanation { became: found.became.get().cloned(), ..found.explanation.clone() })
    }
}
