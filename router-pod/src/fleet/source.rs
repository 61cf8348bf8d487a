//! Where snapshots come from: a file that is followed, or the operator's stream with a mounted copy to start from.
//!
//! Whatever the way, each goes through [`Receiver::offer`]: checked whole, taken or refused, with the last good one kept.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt as _;
use terrace_contract::snapshot::Snapshot;
use terrace_identity::net::Network;
use terrace_identity::{Caller, Identities, Identity};
use terrace_privacy::Rules;
use terrace_wire::sse::Decoder;
use tokio_util::sync::CancellationToken;

use super::Fleet;
use super::accept::{self, Refused, Wanted};
use crate::clock::Clock;
use crate::metrics::RouterMetrics;
use crate::state;

/// How often a followed file is looked at: a change reaches the router well within a second.
const FILE_POLL: Duration = Duration::from_millis(250);
/// The operator says something at least every 10 s; after three of those the connection is given up.
const SILENCE: Duration = Duration::from_secs(30);
/// First and longest pause before the stream is tried again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));
/// Name of a snapshot in the mounted folder and in the state folder.
pub const FILE_NAME: &str = "snapshot.json";

/// Checks snapshots and takes them into use.
pub struct Receiver {
    fleet: Arc<Fleet>,
    wanted: Wanted,
    public_key: PathBuf,
    metrics: Arc<RouterMetrics>,
    clock: Clock,
}

impl Receiver {
    /// For one policy; `identity_dir` holds the operator's public key.
    pub fn new(
        fleet: Arc<Fleet>,
        wanted: Wanted,
        identity_dir: &Path,
        metrics: Arc<RouterMetrics>,
        clock: Clock,
    ) -> Self {
        Self { fleet, wanted, public_key: identity_dir.join("snapshot.pub"), metrics, clock }
    }

    /// Whoever gave the newest snapshot stands by it now: policy does not age.
    fn confirm(&self) {
        self.fleet.confirm(self.clock.now_us());
    }

    /// Takes a document into use, or keeps the one there is and says why. Returns whether it was taken.
    pub fn offer(&self, bytes: &[u8], from: &str) -> bool {
        match self.check(bytes) {
            Ok((snapshot, rules)) => {
                let in_use = self.fleet.in_use();
                if in_use.is_none_or(|used| used.snapshot.revision != snapshot.revision) {
                    tracing::info!(
                        revision = %snapshot.revision, tiers = snapshot.tiers.len(), devices = snapshot.devices.len(),
                        from, "a snapshot is in use"
                    );
                }
                self.fleet.take(snapshot, rules);
                true
            }
            Err(why) => {
                let why = why.to_string();
                if self.fleet.refused().as_ref() != Some(&why) {
                    tracing::warn!(from, %why, "a snapshot was refused; the one in use stays");
                }
                self.metrics.snapshots_refused.inc();
                self.fleet.refuse(why);
                false
            }
        }
    }

    /// Offers a copy that may well be older than what is in use: then it is passed over, which is no news.
    fn offer_copy(&self, path: &Path) {
        let Ok(bytes) = std::fs::read(path) else { return };
        let in_use = self.fleet.in_use();
        if in_use.is_none() {
            self.offer(&bytes, "copy");
        } else if let Ok((snapshot, _)) = self.check(&bytes)
            && in_use.is_some_and(|used| used.snapshot.generations != snapshot.generations)
        {
            self.offer(&bytes, "copy");
        }
    }

    fn check(&self, bytes: &[u8]) -> Result<(Snapshot, Rules), Refused> {
        let key = std::fs::read_to_string(&self.public_key)
            .map_err(|e| Refused::Key { path: self.public_key.display().to_string(), why: e.to_string() })?;
        let in_use = self.fleet.in_use();
        accept::read(bytes, &self.wanted, in_use.as_ref().map(|used| &*used.snapshot), &key)
    }
}

/// Follows a file, which is its own authority: while it is there, what it says is the newest policy. One that is missing
/// or half written is waited for.
pub async fn follow_file(receiver: Arc<Receiver>, file: PathBuf, shutdown: CancellationToken) {
    let mut seen: Vec<u8> = Vec::new();
    let (mut missing, mut newest) = (false, false);
    let mut tick = tokio::time::interval(FILE_POLL);
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            _ = tick.tick() => {}
        }
        match std::fs::read(&file) {
            Ok(bytes) => {
                missing = false;
                if bytes != seen {
                    newest = receiver.offer(&bytes, "file");
                    seen = bytes;
                }
                if newest {
                    receiver.confirm();
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut missing, true) {
                    tracing::warn!(file = %file.display(), %error, "the snapshot file cannot be read; waiting for it");
                }
            }
        }
    }
}

/// The operator's stream, and what to start from while it cannot be reached.
pub struct Stream {
    /// Checks and takes.
    pub receiver: Arc<Receiver>,
    /// Sockets and names.
    pub network: Arc<dyn Network>,
    /// `host:port` of the operator's fleet port.
    pub operator: String,
    /// This router's certificate.
    pub identities: Identities,
    /// The mounted copy's folder.
    pub snapshot_dir: Option<PathBuf>,
    /// Where the last full snapshot is kept.
    pub state_dir: Option<PathBuf>,
}

impl Stream {
    /// Starts from what is at hand, then keeps a stream open until the shutdown.
    pub async fn run(self, shutdown: CancellationToken) {
        let kept = self.state_dir.as_ref().map(|dir| dir.join(FILE_NAME));
        if let Some(kept) = &kept {
            self.receiver.offer_copy(kept);
        }
        let mut pause = PAUSES.0;
        loop {
            if let Some(dir) = &self.snapshot_dir {
                self.receiver.offer_copy(&dir.join(FILE_NAME));
            }
            let ended = tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                ended = self.listen(kept.as_deref()) => ended,
            };
            match ended {
                Ok(()) => pause = PAUSES.0,
                Err(error) => tracing::debug!(%error, operator = %self.operator, "no stream of snapshots"),
            }
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// One connection, until it ends.
    async fn listen(&self, kept: Option<&Path>) -> anyhow::Result<()> {
        let operator = Identity::operator(self.identities.identity().cluster());
        let caller = Caller::over(Arc::clone(&self.network), self.operator.clone(), operator, self.identities.clone());
        let wanted = &self.receiver.wanted;
        let path = terrace_contract::names::snapshot_path(&wanted.namespace, &wanted.name);
        let answer = tokio::time::timeout(SILENCE, caller.get(&path)).await??;
        anyhow::ensure!(answer.status().is_success(), "the operator answered {}", answer.status());
        let mut body = answer.into_body();
        let mut decoder = Decoder::new();
        // Whether the newest that the operator sent is in use: only then does its heartbeat stand by it.
        let mut newest = false;
        while let Some(frame) = tokio::time::timeout(SILENCE, body.frame()).await? {
            let Ok(chunk) = frame?.into_data() else { continue };
            for event in decoder.push(&chunk)? {
                newest = self.receiver.offer(event.data.as_bytes(), "operator");
                if let (true, Some(kept)) = (newest, kept)
                    && let Err(error) = state::keep(kept, event.data.as_bytes())
                {
                    tracing::warn!(path = %kept.display(), %error, "the snapshot cannot be kept; a restart while cut off starts from the mounted copy");
                }
            }
            if newest {
                self.receiver.confirm();
            }
        }
        Ok(())
    }
}
