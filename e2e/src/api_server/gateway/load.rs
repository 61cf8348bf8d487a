//! Questions one after the other from two clients, until they are told to stop.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::ensure;
use tokio::task::JoinSet;

use super::ask::Client;
use super::fresh;
use crate::wait::{self, secs};

/// The clients. They end when this value goes.
pub(super) struct Load {
    seen: Arc<Mutex<Seen>>,
    end: Arc<AtomicBool>,
    clients: JoinSet<()>,
}

#[derive(Default)]
struct Seen {
    answered: u32,
    failed: Vec<String>,
    /// Who answered since somebody asked for that.
    by: BTreeSet<String>,
}

impl Load {
    /// Asks at this address from now on.
    pub(super) fn start(client: &Client, address: &str) -> Load {
        let mut load = Load { seen: Arc::default(), end: Arc::default(), clients: JoinSet::new() };
        for _ in 0..2 {
            let (client, address) = (client.clone(), address.to_owned());
            let (seen, end) = (load.seen.clone(), load.end.clone());
            load.clients.spawn(async move {
                while !end.load(Ordering::Relaxed) {
                    let said = client.chat(&address, &fresh()).await;
                    let answered = said.and_then(|said| said.answer().map(|_| said.by));
                    let mut seen = lock(&seen);
                    match answered {
                        Ok(by) => {
                            seen.answered += 1;
                            seen.by.insert(by);
                        }
                        Err(error) => seen.failed.push(format!("{error:#}")),
                    }
                }
            });
        }
        load
    }

    /// Waits until each of these addresses has answered from now on.
    pub(super) async fn answered_by(&self, all: &BTreeSet<String>) -> anyhow::Result<()> {
        lock(&self.seen).by.clear();
        wait::until("each agent to answer", secs(60), async || {
            let seen = lock(&self.seen);
            ensure!(all.is_subset(&seen.by), "by {:?}, not {all:?}; {:?} failed", seen.by, seen.failed);
            Ok(())
        })
        .await
    }

    /// Ends: how many were answered, and what was said of those that were not.
    pub(super) async fn end(mut self) -> anyhow::Result<(u32, Vec<String>)> {
        self.end.store(true, Ordering::Relaxed);
        while let Some(ended) = self.clients.join_next().await {
            ended?;
        }
        let mut seen = lock(&self.seen);
        Ok((seen.answered, std::mem::take(&mut seen.failed)))
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}
