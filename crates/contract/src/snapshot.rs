//! The document that the operator streams to routers: one policy, compiled, with its tiers and live devices.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::canonical;
use crate::policy::{Budget, Policy};
use crate::tier::{Device, Tier};

/// A whole snapshot of one policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// [`crate::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// UID of the cluster (of its `kube-system` namespace): part of every identity.
    pub cluster_uid: String,
    /// SHA-256 of the canonical document without devices, time, revision and signature ([`Snapshot::digest`]).
    pub revision: String,
    /// Generations of what it was compiled from.
    pub generations: Generations,
    /// When it was made, microseconds since the Unix epoch.
    pub issued_at_us: u64,
    /// The policy.
    pub policy: Policy,
    /// Its ladder, nearest first.
    pub tiers: Vec<Tier>,
    /// Its budgets.
    pub budgets: Vec<Budget>,
    /// Router replicas that share the policy's limits.
    pub routers: u32,
    /// Live devices of its fleet tiers; empty in the mounted copy.
    #[serde(default)]
    pub devices: Vec<Device>,
    /// Ed25519 over [`Snapshot::signed_bytes`], base64.
    #[serde(default)]
    pub signature: String,
}

/// Generations of the objects behind a snapshot, by UID.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Generations {
    /// Of the policy.
    pub policy: i64,
    /// Of its tiers.
    pub tiers: BTreeMap<String, i64>,
    /// Of its budgets.
    pub budgets: BTreeMap<String, i64>,
}

impl Generations {
    /// Whether any generation here is older than in `other`. Objects that only one side knows do not count.
    pub fn older_than(&self, other: &Generations) -> bool {
        let behind = |a: &BTreeMap<String, i64>, b: &BTreeMap<String, i64>| {
            a.iter().any(|(uid, generation)| b.get(uid).is_some_and(|known| generation < known))
        };
        self.policy < other.policy || behind(&self.tiers, &other.tiers) || behind(&self.budgets, &other.budgets)
    }
}

impl Snapshot {
    /// The revision that the document should carry.
    pub fn digest(&self) -> String {
        let mut plain = self.clone();
        plain.devices.clear();
        plain.issued_at_us = 0;
        plain.revision.clear();
        plain.signature.clear();
        canonical::sha256(&plain)
    }

    /// What the signature covers: the canonical document with everything but the signature.
    pub fn signed_bytes(&self) -> Vec<u8> {
        let mut plain = self.clone();
        plain.signature.clear();
        canonical::bytes(&plain)
    }

    /// The copy that is mounted in the router: without devices.
    pub fn without_devices(&self) -> Snapshot {
        let mut plain = self.clone();
        plain.devices.clear();
        plain.signature.clear();
        plain
    }
}
