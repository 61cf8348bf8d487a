//! What a policy names, as far as it exists and may be used. What does not is no error: the rest of the ladder works,
//! and the condition `ResolvedRefs` says what is missing until it heals by itself. Pure.

use std::sync::Arc;

use kube::ResourceExt;
use terrace_crds::{RoutingPolicy, Tier};

use crate::budget::{Claims, claims};
use crate::children::Site;
use crate::kinds::Kind;
use crate::tier;
use crate::world::World;

/// A reference that leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unresolved {
    /// Reason of the condition.
    pub reason: &'static str,
    /// What is missing, and what to do.
    pub message: String,
}

/// What a policy names.
#[derive(Debug, Default)]
pub struct Resolved {
    /// The tiers that may be used, in the ladder's order.
    pub tiers: Vec<Arc<Tier>>,
    /// Its budgets.
    pub claims: Claims,
    /// What leads nowhere.
    pub unresolved: Vec<Unresolved>,
}

/// Looks up what a policy names.
pub fn resolve(world: &World, policy: &RoutingPolicy, site: &Site) -> Resolved {
    let own = policy.namespace().unwrap_or_default();
    let mut resolved = Resolved::default();
    for reference in &policy.spec.tiers {
        let namespace = reference.namespace_or(&own);
        match usable(world, &own, namespace, reference.name.as_str(), site) {
            Ok(tier) => resolved.tiers.push(tier),
            Err(unresolved) => resolved.unresolved.push(unresolved),
        }
    }
    let name = policy.name_any();
    let mine = |b: &Arc<terrace_crds::LatencyBudget>| {
        b.namespace().as_deref() == Some(own.as_str()) && b.spec.policy_ref.name.as_str() == name
    };
    resolved.claims = claims(world.budgets.all().into_iter().filter(mine).collect());
    let secrets = [
        policy.spec.access.api_keys.as_ref().map(|k| &k.secret_ref.name),
        policy.spec.listener.as_ref().map(|l| &l.tls.secret_ref.name),
    ];
    for secret in secrets.into_iter().flatten() {
        if world.secret(&own, secret.as_str()).is_none() {
            resolved.unresolved.push(Unresolved {
                reason: "SecretNotFound",
                message: format!("Secret {own}/{secret} does not exist: create it"),
            });
        }
    }
    resolved
}

fn usable(world: &World, own: &str, namespace: &str, name: &str, site: &Site) -> Result<Arc<Tier>, Unresolved> {
    let shown = if namespace == own { name.to_owned() } else { format!("{namespace}/{name}") };
    let not = |reason, message| Unresolved { reason, message };
    let tier = match world.tiers.get(namespace, name) {
        None => {
            return Err(not(
                "TierNotFound",
                format!("tier {shown} does not exist: create it, or take it off the ladder"),
            ));
        }
        Some(Err(_)) => return Err(not("TierNotAccepted", format!("tier {shown} cannot be read by this version"))),
        Some(Ok(tier)) => tier,
    };
    // A tier that no one was told about is not there for those who may not use it.
    if !world.means(&tier.spec.allowed_policies.namespaces, namespace, own) {
        let message = format!(
            "tier {shown} does not allow policies of namespace {own}: its owner sets spec.allowedPolicies, or take it off the ladder"
        );
        return Err(not("TierNotAllowed", message));
    }
    if let Err(invalid) = tier::validate(Kind::Tier.owner(tier.as_ref()), &tier, site) {
        return Err(not("TierNotAccepted", format!("tier {shown} is not accepted: {invalid}")));
    }
    Ok(tier)
}
