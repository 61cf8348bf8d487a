//! Connections that wait to be used again.
//!
//! A pool is keyed by tier UID, generation, address or host, and authority: a connection that was checked for one
//! tier is never used for another, nor after the tier changed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::connection::Sender;

/// Idle HTTP/1.1 connections kept for one key.
const IDLE_MOST: usize = 64;
/// How long an idle HTTP/1.1 connection is kept; servers commonly close after 60 s or more.
const IDLE_LONGEST: Duration = Duration::from_secs(20);

/// What a connection was checked for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    /// The tier.
    pub tier_uid: String,
    /// Its generation.
    pub generation: i64,
    /// `host:port` of an endpoint, `address:port` of a device.
    pub place: String,
    /// The identity that the peer proved: the SPIFFE id of a device, the digest of an endpoint's authority.
    pub authority: String,
}

/// Connections that wait.
#[derive(Default)]
pub struct Pool(Mutex<HashMap<Arc<Key>, Vec<(Sender, Instant)>>>);

impl Pool {
    /// A connection that can take a request now, if one waits: of several the newest. One that carries many requests
    /// stays in the pool, as does one whose task has not yet seen the end of its last answer.
    pub fn take(&self, key: &Key, now: Instant) -> Option<Sender> {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = idle.get_mut(key)?;
        for at in (0..waiting.len()).rev() {
            let (sender, since) = &waiting[at];
            if let Some(shared) = sender.share().filter(Sender::is_usable) {
                return Some(shared);
            }
            let old = now.duration_since(*since) >= IDLE_LONGEST;
            if sender.is_closed() || old {
                waiting.remove(at);
            } else if sender.is_usable() {
                return Some(waiting.remove(at).0);
            }
        }
        if waiting.is_empty() {
            idle.remove(key);
        }
        None
    }

    /// Puts a connection back.
    pub fn put(&self, key: &Arc<Key>, sender: Sender, now: Instant) {
        if matches!(&sender, Sender::Http2(_)) && self.take(key, now).is_some() {
            return;
        }
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = idle.entry(Arc::clone(key)).or_default();
        if waiting.len() < IDLE_MOST {
            waiting.push((sender, now));
        }
    }

    /// Drops what belongs to tiers and generations that are no longer in use.
    pub fn keep(&self, in_use: impl Fn(&Key) -> bool) {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|key, waiting| {
            waiting.retain(|(sender, _)| !sender.is_closed());
            in_use(key) && !waiting.is_empty()
        });
    }
}

/// A connection in use; goes back to its pool when the answer was read to its end.
pub struct Lease {
    sender: Option<Sender>,
    key: Arc<Key>,
    pool: Arc<Pool>,
}

impl Lease {
    /// A connection in use.
    pub fn new(sender: Sender, key: Arc<Key>, pool: Arc<Pool>) -> Self {
        Self { sender: Some(sender), key, pool }
    }

    /// The connection.
    pub fn sender(&mut self) -> Option<&mut Sender> {
        self.sender.as_mut()
    }

    /// The answer was read to its end: the connection may be used again, as soon as its task has seen that too.
    pub fn finished(mut self, now: Instant) {
        if let Some(sender @ Sender::Http1(_)) = self.sender.take() {
            self.pool.put(&self.key, sender, now);
        }
    }
}
