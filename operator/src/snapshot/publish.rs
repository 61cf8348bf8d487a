//! Making snapshots when something changed, at most ten times a second.

use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;
use kube::api::DynamicObject;
use terrace_contract::snapshot::Snapshot;
use terrace_crds::RoutingPolicy;
use terrace_telemetry::time::{micros, now_us};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::hub::{Hub, Key, Published};
use crate::children::Site;
use crate::pki::Pki;
use crate::policy;
use crate::world::World;

/// Bursts of changes become one snapshot this often.
const COALESCE: Duration = Duration::from_millis(100);
/// An unchanged snapshot is dated anew this often, so that routers with a live stream never think it old.
const REISSUE: Duration = Duration::from_secs(60);

/// Makes and publishes snapshots.
pub struct Publisher {
    /// What the watches know.
    pub world: Arc<World>,
    /// Signs.
    pub pki: Arc<Pki>,
    /// Where they go.
    pub hub: Arc<Hub>,
    /// What is allowed.
    pub site: Site,
}

impl Publisher {
    /// Makes what changed again whenever `changed` says so, until `stop`.
    pub async fn run(self, changed: Arc<Notify>, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = changed.notified() => {}
                () = tokio::time::sleep(REISSUE / 2) => {}
            }
            let begun = Instant::now();
            self.refresh();
            tokio::time::sleep_until(begun + COALESCE).await;
        }
    }

    fn refresh(&self) {
        let now = now_us();
        let policies = self.world.policies.all();
        for policy in &policies {
            self.one(policy, now);
        }
        let exists = |key: &Key| policies.iter().any(|p| key_of(p) == *key);
        self.hub.retain(exists);
    }

    /// A policy that is not accepted keeps its last snapshot.
    fn one(&self, policy: &RoutingPolicy, now: u64) {
        let key = key_of(policy);
        let resolved = policy::resolve(&self.world, policy, &self.site);
        let routers = policy::router_count(policy, &self.world.live);
        let Ok(mut snapshot) = policy::compile(policy, &resolved, self.pki.cluster(), routers) else { return };
        let labels = |node: &str| self.world.node_labels(node);
        for tier in &snapshot.tiers {
            let pods = self.world.agents(&tier.namespace, &tier.name);
            snapshot.devices.extend(super::devices::of(tier, &pods, &labels));
        }
        let reissue = micros(REISSUE).min(snapshot.policy.sensitivity.max_policy_age_us / 4);
        if let Some(last) = self.hub.get(&key)
            && last.says_the_same(&snapshot)
            && now.saturating_sub(last.snapshot.issued_at_us) < reissue
        {
            return;
        }
        snapshot.issued_at_us = now;
        self.pki.sign(&mut snapshot);
        tracing::debug!(namespace = %key.0, policy = %key.1, revision = %snapshot.revision, devices = snapshot.devices.len(), "published a snapshot");
        self.hub.publish(&key, Published::new(snapshot));
    }
}

fn key_of(policy: &RoutingPolicy) -> Key {
    (policy.namespace().unwrap_or_default(), policy.name_any())
}

/// The mounted copy of a compiled snapshot: the one that is there while it says the same, since dating it anew would
/// be a write without news.
pub fn mounted(compiled: Snapshot, pki: &Pki, config_map: Option<&DynamicObject>) -> Snapshot {
    let there = config_map.and_then(|map| {
        let text = map.data.get("data")?.get(policy::SNAPSHOT_FILE)?.as_str()?;
        serde_json::from_str::<Snapshot>(text).ok()
    });
    match there {
        Some(there)
            if there.revision == compiled.revision
                && there.without_devices().digest() == compiled.revision
                && terrace_identity::signing::verify(&there, &pki.public_key()).is_ok() =>
        {
            there
        }
        _ => {
            let mut made = compiled.without_devices();
            made.issued_at_us = now_us();
            pki.sign(&mut made);
            made
        }
    }
}
