//! Whether the watches work: for readiness, for the log (one line an outage, not one a watch and attempt), for metrics.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use kube::runtime::watcher;
use tokio::sync::Notify;

use crate::apply::{code, sentence};

/// Why a watch does not work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// It has not said anything yet.
    Starting,
    /// The API server does not answer.
    Unreachable(String),
    /// The permission is missing.
    Forbidden,
    /// The API server does not know the kind.
    NotInstalled,
}

#[derive(Debug, Default)]
struct State {
    /// By `resource.group`; none: it works.
    watches: BTreeMap<String, Option<Trouble>>,
    synced: BTreeMap<String, bool>,
    outage: bool,
}

/// The health of all watches.
#[derive(Debug, Clone, Default)]
pub struct Health {
    state: Arc<Mutex<State>>,
    /// A watch is in step for the first time.
    news: Arc<Notify>,
}

/// One watch's share of it.
#[derive(Debug)]
pub(super) struct Gauge {
    health: Health,
    name: String,
}

impl Health {
    pub(super) fn watch(&self, resource: &str, group: &str) -> Gauge {
        let name = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
        let mut state = self.state();
        state.watches.insert(name.clone(), Some(Trouble::Starting));
        state.synced.insert(name.clone(), false);
        drop(state);
        Gauge { health: self.clone(), name }
    }

    /// What keeps this replica from being ready: a watch that has never been in step. One that was goes on serving
    /// what it knows, since the data plane outlives the control plane.
    pub fn not_ready(&self) -> Option<String> {
        let state = self.state();
        let missing: Vec<&str> = state
            .synced
            .iter()
            .filter(|(name, synced)| !**synced && name.ends_with(".terrace.dev"))
            .filter(|(name, _)| state.watches.get(*name) == Some(&Some(Trouble::NotInstalled)))
            .map(|(name, _)| name.as_str())
            .collect();
        if !missing.is_empty() {
            return Some(format!("{} not known to the API server: install charts/terrace-crds", missing.join(", ")));
        }
        let (name, _) = state.synced.iter().find(|(_, synced)| !**synced)?;
        Some(match state.watches.get(name) {
            Some(Some(Trouble::Forbidden)) => format!("may not list and watch {name}: grant it to the operator"),
            Some(Some(Trouble::Unreachable(error))) => format!("the API server does not answer: {error}"),
            _ => format!("{name} not listed yet"),
        })
    }

    /// Waits until every watch has been in step once. Whatever is decided or said before that takes what has not been
    /// listed yet for something that does not exist.
    pub async fn in_step(&self) {
        loop {
            let news = self.news.notified();
            if self.not_ready().is_none() {
                return;
            }
            news.await;
        }
    }

    /// Watches that do not work now, with what is wrong.
    pub fn troubles(&self) -> Vec<(String, Trouble)> {
        let state = self.state();
        state.watches.iter().filter_map(|(name, t)| Some((name.clone(), t.clone()?))).collect()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gauge {
    pub(super) fn works(&mut self) {
        let mut state = self.health.state();
        if state.synced.insert(self.name.clone(), true) != Some(true) {
            self.health.news.notify_waiters();
        }
        if let Some(trouble) = state.watches.insert(self.name.clone(), None).flatten()
            && trouble != Trouble::Starting
        {
            if matches!(trouble, Trouble::Unreachable(_)) {
                if std::mem::take(&mut state.outage) {
                    tracing::info!("the API server answers again");
                }
            } else {
                tracing::info!(watch = %self.name, "the watch works now");
            }
        }
    }

    pub(super) fn failed(&mut self, error: &watcher::Error) {
        let Some(trouble) = judge(error) else { return };
        let mut state = self.health.state();
        let before = state.watches.insert(self.name.clone(), Some(trouble.clone())).flatten();
        if before.as_ref() == Some(&trouble) {
            return;
        }
        match &trouble {
            Trouble::Unreachable(error) => {
                if !std::mem::replace(&mut state.outage, true) {
                    tracing::warn!(%error, "the API server does not answer: serving what is known, and trying again");
                }
            }
            Trouble::Forbidden => {
                tracing::error!(watch = %self.name, "missing permission: verbs list and watch on {}. Grant it to the operator's ClusterRole", self.name);
            }
            Trouble::NotInstalled => {
                tracing::error!(watch = %self.name, "{} is not known to the API server: install charts/terrace-crds", self.name);
            }
            Trouble::Starting => {}
        }
    }
}

/// None: the ordinary end of a watch, which is simply begun anew.
fn judge(error: &watcher::Error) -> Option<Trouble> {
    let source = match error {
        watcher::Error::InitialListFailed(e) | watcher::Error::WatchStartFailed(e) | watcher::Error::WatchFailed(e) => {
            e
        }
        watcher::Error::WatchError(_) | watcher::Error::NoResourceVersion => return None,
    };
    Some(match code(source) {
        Some(403) => Trouble::Forbidden,
        Some(404) => Trouble::NotInstalled,
        _ => Trouble::Unreachable(sentence(source)),
    })
}
