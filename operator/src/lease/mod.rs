//! Who writes. Every replica watches and serves; only the one that holds the Lease writes to the API server.
//!
//! A holder that cannot renew stops writing well before another may take over. Whether someone else's lease has run
//! out is judged by how long its record has not changed here, so clocks need not agree.

mod record;

use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, PostParams};
use kube::{Client, ResourceExt};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::apply::{code, sentence};
use record::{Seen, Step};

/// Name of the Lease.
pub const NAME: &str = "terrace-operator";
/// How long a lease lasts without renewal.
const DURATION: Duration = Duration::from_secs(15);
/// How often it is renewed, or looked at.
const PERIOD: Duration = Duration::from_secs(2);
/// After this long without a renewal the holder no longer trusts itself.
const DEADLINE: Duration = Duration::from_secs(10);

/// What is known of the lease.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Leadership {
    /// Whether this replica may write.
    pub mine: bool,
    /// Fleet address (`ip:port`) of the holder; empty: nobody holds it.
    pub holder: String,
}

/// Takes, keeps and gives up the lease.
pub struct Elector {
    api: Api<Lease>,
    /// `<pod>@<ip:port>`: the name makes it unique, the address is where reports are forwarded to.
    identity: String,
    told: watch::Sender<Leadership>,
}

impl Elector {
    /// For one replica. The receiver says at any time whether it may write.
    pub fn new(client: Client, namespace: &str, pod: &str, address: &str) -> (Self, watch::Receiver<Leadership>) {
        let (told, receiver) = watch::channel(Leadership::default());
        (Self { api: Api::namespaced(client, namespace), identity: format!("{pod}@{address}"), told }, receiver)
    }

    /// Runs until `stop`, then gives the lease up so that another replica need not wait for it to run out.
    pub async fn run(self, stop: CancellationToken) {
        let mut seen = Seen::default();
        let mut renewed: Option<Instant> = None;
        let mut failing = false;
        let mut tick = tokio::time::interval(PERIOD);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                _ = tick.tick() => {}
            }
            // Counted from before the record is written: whoever waits for it to run out counts from later.
            let begun = Instant::now();
            let patience = renewed.map_or(PERIOD * 2, |at| DEADLINE.saturating_sub(at.elapsed()).min(PERIOD * 2));
            match tokio::time::timeout(patience, self.attempt(&mut seen)).await {
                Ok(Ok(holder)) => {
                    if std::mem::take(&mut failing) {
                        tracing::info!(lease = NAME, "the lease can be read and written again");
                    }
                    let mine = holder == self.identity;
                    renewed = mine.then_some(begun);
                    self.tell(mine, &holder);
                }
                outcome => {
                    if !std::mem::replace(&mut failing, true) {
                        let error = match outcome {
                            Ok(Err(error)) => sentence(&error),
                            _ => "no answer".to_owned(),
                        };
                        tracing::warn!(lease = NAME, %error, "cannot renew or read the lease (verbs get and update on leases.coordination.k8s.io): this replica goes on serving");
                    }
                    if renewed.is_some_and(|at| at.elapsed() >= DEADLINE) {
                        renewed = None;
                        let holder = self.told.borrow().holder.clone();
                        self.told
                            .send_if_modified(|now| std::mem::replace(now, Leadership { mine: false, holder }).mine);
                    }
                }
            }
        }
        if renewed.is_some() {
            let _ = tokio::time::timeout(PERIOD, self.release()).await;
        }
        self.tell(false, "");
    }

    /// One look and at most one write; the identity of whoever holds the lease after it.
    async fn attempt(&self, seen: &mut Seen) -> Result<String, kube::Error> {
        let now = jiff::Timestamp::now();
        let Some(lease) = self.api.get_opt(NAME).await? else {
            let lease = record::new(NAME, &self.identity, DURATION, now);
            return match self.api.create(&PostParams::default(), &lease).await {
                Ok(_) => Ok(self.identity.clone()),
                Err(error) if code(&error) == Some(409) => Ok(String::new()),
                Err(error) => Err(error),
            };
        };
        match seen.judge(&lease, &self.identity, DURATION, Instant::now()) {
            Step::Wait(holder) => Ok(holder),
            step @ (Step::Renew | Step::Take) => {
                let taken = record::held(lease, &self.identity, DURATION, now, step == Step::Take);
                // The resource version in it makes a race lose, not win twice.
                match self.api.replace(NAME, &PostParams::default(), &taken).await {
                    Ok(_) => Ok(self.identity.clone()),
                    Err(error) if code(&error) == Some(409) => Ok(String::new()),
                    Err(error) => Err(error),
                }
            }
        }
    }

    async fn release(&self) -> Result<(), kube::Error> {
        let lease = self.api.get(NAME).await?;
        if record::holder(&lease) == self.identity {
            self.api.replace(&lease.name_any(), &PostParams::default(), &record::released(lease)).await?;
        }
        Ok(())
    }

    fn tell(&self, mine: bool, identity: &str) {
        let holder = identity.rsplit_once('@').map_or("", |(_, address)| address).to_owned();
        let next = Leadership { mine, holder };
        self.told.send_if_modified(|now| {
            if now.mine != next.mine {
                tracing::info!(lease = NAME, holder = %identity, writes = next.mine, "the lease changed hands");
            }
            let changed = *now != next;
            *now = next;
            changed
        });
    }
}
