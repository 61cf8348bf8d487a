//! The class of a conversation so far: what was once sensitive in it stays so in its later turns.
//!
//! Kept per replica and bounded; the full transcript is scanned each time all the same, so that a replica that never
//! saw the conversation errs only where the sensitive turn was left out of the transcript.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use ring::hmac;
use terrace_contract::trust::Class;

/// Conversations remembered.
const MOST: usize = 16_384;
/// How long a conversation that nobody continues is remembered.
const KEPT_US: u64 = 4 * 3_600_000_000;

/// A conversation of one caller. Its id itself is not kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Session([u8; 32]);

/// Classes of conversations.
pub struct Sessions {
    key: hmac::Key,
    known: Mutex<HashMap<Session, (Class, u64)>>,
}

impl Sessions {
    /// None yet; `secret` is made at start and never leaves the process.
    pub fn new(secret: &[u8]) -> Self {
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, secret), known: Mutex::default() }
    }

    /// The conversation with this id of this caller: two callers never share one.
    pub fn session(&self, caller: &str, id: &str) -> Session {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(&(caller.len() as u64).to_be_bytes());
        context.update(caller.as_bytes());
        context.update(id.as_bytes());
        let mut session = [0u8; 32];
        session.copy_from_slice(context.sign().as_ref());
        Session(session)
    }

    /// The class of the conversation so far.
    pub fn class(&self, session: &Session, now_us: u64) -> Option<Class> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(session).filter(|(_, at)| now_us.saturating_sub(*at) < KEPT_US).map(|(class, _)| *class)
    }

    /// A turn of the conversation was of this class.
    pub fn raise(&self, session: Session, class: Class, now_us: u64) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST && !known.contains_key(&session) {
            known.retain(|_, (_, at)| now_us.saturating_sub(*at) < KEPT_US);
            if known.len() >= MOST
                && let Some(oldest) = known.iter().min_by_key(|(_, (_, at))| *at).map(|(session, _)| *session)
            {
                known.remove(&oldest);
            }
        }
        let entry = known.entry(session).or_insert((class, now_us));
        *entry = (entry.0.max(class), now_us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_only_rises_and_callers_do_not_share() {
        let sessions = Sessions::new(b"secret");
        let mine = sessions.session("ci", "s1");
        sessions.raise(mine, Class::Restricted, 1);
        sessions.raise(mine, Class::Public, 2);
        assert_eq!(sessions.class(&sessions.session("ci", "s1"), 3), Some(Class::Restricted));
        assert_eq!(sessions.class(&sessions.session("web", "s1"), 3), None);
        assert_eq!(sessions.class(&sessions.session("cis1", ""), 3), None);
        assert_eq!(sessions.class(&mine, 3 + KEPT_US), None);
    }
}
