//! The newest snapshot of each policy, and who waits for the next one.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use terrace_contract::snapshot::Snapshot;
use tokio::sync::watch;

/// One snapshot, signed, and as a server-sent event.
#[derive(Debug)]
pub struct Published {
    /// The document.
    pub snapshot: Snapshot,
    /// Its event, ready to be written to any number of streams.
    pub event: Bytes,
}

impl Published {
    /// Renders a signed snapshot.
    pub fn new(snapshot: Snapshot) -> Self {
        let document = serde_json::to_string(&snapshot).unwrap_or_default();
        let event = Bytes::from(format!("id: {}\nevent: snapshot\ndata: {document}\n\n", snapshot.revision));
        Self { snapshot, event }
    }

    /// Whether a router would act the same on both: all but the time and the signature.
    pub fn says_the_same(&self, other: &Snapshot) -> bool {
        let mine = &self.snapshot;
        mine.revision == other.revision && mine.devices == other.devices && mine.policy.uid == other.policy.uid
    }
}

/// Namespace and name of a policy.
pub type Key = (String, String);
type Slot = watch::Sender<Option<Arc<Published>>>;

/// The newest snapshots.
#[derive(Debug, Default)]
pub struct Hub(RwLock<HashMap<Key, Slot>>);

impl Hub {
    /// Follows one policy, also one that has no snapshot yet.
    pub fn subscribe(&self, key: &Key) -> watch::Receiver<Option<Arc<Published>>> {
        if let Some(slot) = self.0.read().unwrap_or_else(PoisonError::into_inner).get(key) {
            return slot.subscribe();
        }
        let mut slots = self.0.write().unwrap_or_else(PoisonError::into_inner);
        slots.entry(key.clone()).or_insert_with(|| watch::channel(None).0).subscribe()
    }

    /// The newest snapshot of a policy.
    pub fn get(&self, key: &Key) -> Option<Arc<Published>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(key).and_then(|slot| slot.borrow().clone())
    }

    /// Puts a new one in place; whoever follows is woken.
    pub fn publish(&self, key: &Key, published: Published) {
        let mut slots = self.0.write().unwrap_or_else(PoisonError::into_inner);
        slots.entry(key.clone()).or_insert_with(|| watch::channel(None).0).send_replace(Some(Arc::new(published)));
    }

    /// Forgets policies that are gone; their routers keep what they have.
    pub fn retain(&self, exists: impl Fn(&Key) -> bool) {
        let mut slots = self.0.write().unwrap_or_else(PoisonError::into_inner);
        slots.retain(|key, slot| {
            let keep = exists(key);
            if !keep {
                slot.send_replace(None);
            }
            keep || slot.receiver_count() > 0
        });
    }
}
