//! A policy, checked and compiled: what it becomes cannot fail to build. Pure.

use kube::ResourceExt;
use terrace_contract::snapshot::Snapshot;
use terrace_crds::{RoutingPolicy, RoutingPolicySpec};

use super::resolve::Resolved;
use crate::apply::Owner;
use crate::credentials::{self, Entry};
use crate::problem::Invalid;
use crate::world::World;

/// A policy that can be built.
#[derive(Debug, Clone)]
pub struct ValidPolicy {
    /// The object.
    pub owner: Owner,
    /// What it asks for.
    pub spec: RoutingPolicySpec,
    /// The mounted copy of its snapshot.
    pub mounted: Snapshot,
    /// Credentials of its endpoint tiers that may be mounted.
    pub credentials: Vec<Credentials>,
    /// The Secret with the client port's certificate; none: the port is plain.
    pub tls_secret: Option<String>,
    /// The Secret with the callers' keys.
    pub api_keys_secret: Option<String>,
}

/// Credentials of one endpoint tier.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// UID of the tier.
    pub tier_uid: String,
    /// The files.
    pub entries: Vec<Entry>,
}

/// Checks a policy with what it names and compiles it: revision set, no devices, not signed, without a time.
///
/// # Errors
/// The first thing that is wrong, with what to write instead.
pub fn compile(
    policy: &RoutingPolicy,
    resolved: &Resolved,
    cluster_uid: &str,
    routers: u32,
) -> Result<Snapshot, Invalid> {
    let tiers: Vec<&terrace_crds::Tier> = resolved.tiers.iter().map(AsRef::as_ref).collect();
    let budgets: Vec<&terrace_crds::LatencyBudget> = resolved.claims.holders.iter().map(AsRef::as_ref).collect();
    Ok(terrace_crds::compile(policy, &tiers, &budgets, cluster_uid, routers)?)
}

/// Puts together what `build` needs.
pub fn valid(
    owner: Owner,
    policy: &RoutingPolicy,
    resolved: &Resolved,
    mounted: Snapshot,
    world: &World,
) -> ValidPolicy {
    let credentials = resolved
        .tiers
        .iter()
        .filter_map(|tier| {
            let endpoint = tier.spec.backend.endpoint.as_ref()?;
            let namespace = tier.namespace()?;
            // Endpoints serve policies of their own namespace only, so the Secret is one that the router can mount.
            let entries = (namespace == owner.namespace)
                .then(|| credentials::of(endpoint, &credentials::annotations_in(world, &namespace)).ok())??;
            (!entries.is_empty()).then(|| Credentials { tier_uid: tier.uid().unwrap_or_default(), entries })
        })
        .collect();
    let spec = policy.spec.clone();
    ValidPolicy {
        owner,
        mounted,
        credentials,
        tls_secret: spec.listener.as_ref().map(|l| l.tls.secret_ref.name.to_string()),
        api_keys_secret: spec.access.api_keys.as_ref().map(|k| k.secret_ref.name.to_string()),
        spec,
    }
}
