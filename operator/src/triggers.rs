//! What a change concerns: which objects have to be looked at again.

use kube::api::DynamicObject;
use kube::runtime::reflector::ObjectRef;
use kube::{Resource, ResourceExt};
use terrace_crds::tier::Endpoint;
use terrace_crds::{RoutingPolicy, Tier};
use tokio::sync::mpsc;

use crate::kinds::Kind;
use crate::labels;
use crate::world::World;

/// Says that an object has to be looked at again. Cheap; doubles are merged while they wait.
#[derive(Clone)]
pub struct Triggers {
    queues: [mpsc::UnboundedSender<ObjectRef<DynamicObject>>; 3],
}

/// The receiving ends, by kind.
pub type Queues = [(Kind, mpsc::UnboundedReceiver<ObjectRef<DynamicObject>>); 3];

impl Triggers {
    /// One queue a kind.
    pub fn new() -> (Self, Queues) {
        let ([tx0, tx1, tx2], [rx0, rx1, rx2]) = {
            let (a, b, c) = (mpsc::unbounded_channel(), mpsc::unbounded_channel(), mpsc::unbounded_channel());
            ([a.0, b.0, c.0], [a.1, b.1, c.1])
        };
        let [first, second, third] = Kind::ALL;
        (Self { queues: [tx0, tx1, tx2] }, [(first, rx0), (second, rx1), (third, rx2)])
    }

    /// One object.
    pub fn one(&self, kind: Kind, namespace: &str, name: &str) {
        self.send(kind, kind.reference(namespace, name));
    }

    /// Every object there is: after a relist, or when this replica begins to write.
    pub fn everything(&self, world: &World) {
        world.tiers.references().into_iter().for_each(|r| self.send(Kind::Tier, r));
        world.policies.references().into_iter().for_each(|r| self.send(Kind::RoutingPolicy, r));
        world.budgets.references().into_iter().for_each(|r| self.send(Kind::LatencyBudget, r));
    }

    /// A tier, and the policies that use it.
    pub fn tier(&self, world: &World, namespace: &str, name: &str) {
        self.one(Kind::Tier, namespace, name);
        for policy in world.policies.all() {
            let own = policy.namespace().unwrap_or_default();
            if policy.spec.tiers.iter().any(|t| t.name.as_str() == name && t.namespace_or(&own) == namespace) {
                self.one(Kind::RoutingPolicy, &own, &policy.name_any());
            }
        }
    }

    /// A policy, its budgets, and its tiers: what routers say of a tier hangs on the policies that use it.
    pub fn policy(&self, world: &World, namespace: &str, name: &str) {
        self.one(Kind::RoutingPolicy, namespace, name);
        for budget in world.budgets.all() {
            if budget.namespace().as_deref() == Some(namespace) && budget.spec.policy_ref.name.as_str() == name {
                self.one(Kind::LatencyBudget, namespace, &budget.name_any());
            }
        }
        if let Some(Ok(policy)) = world.policies.get(namespace, name) {
            for tier in &policy.spec.tiers {
                self.one(Kind::Tier, tier.namespace_or(namespace), tier.name.as_str());
            }
        }
    }

    /// A budget, its policy and the policy's other budgets, which may conflict with it.
    pub fn budget(&self, world: &World, namespace: &str, name: &str) {
        self.one(Kind::LatencyBudget, namespace, name);
        if let Some(Ok(budget)) = world.budgets.get(namespace, name) {
            self.policy(world, namespace, budget.spec.policy_ref.name.as_str());
        }
    }

    /// The owner of a child.
    pub fn child(&self, child: &DynamicObject) {
        let namespace = child.namespace().unwrap_or_default();
        for owner in child.owner_references() {
            if let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.name() == owner.kind) {
                self.one(kind, &namespace, &owner.name);
            }
        }
    }

    /// The tier or policy that a pod belongs to.
    pub fn pod<K: Resource>(&self, pod: &K) {
        let namespace = pod.namespace().unwrap_or_default();
        for (label, kind) in [(labels::TIER, Kind::Tier), (labels::POLICY, Kind::RoutingPolicy)] {
            if let Some(name) = pod.labels().get(label) {
                self.one(kind, &namespace, name);
            }
        }
    }

    /// Whatever names a Secret.
    pub fn secret(&self, world: &World, namespace: &str, name: &str) {
        for tier in world.tiers.all().iter().filter(|t| t.namespace().as_deref() == Some(namespace)) {
            if secrets_of(tier).any(|secret| secret == name) {
                self.tier(world, namespace, &tier.name_any());
            }
        }
        for policy in world.policies.all().iter().filter(|p| p.namespace().as_deref() == Some(namespace)) {
            if secrets_of_policy(policy).any(|secret| secret == name) {
                self.one(Kind::RoutingPolicy, namespace, &policy.name_any());
            }
        }
    }

    fn send(&self, kind: Kind, reference: ObjectRef<DynamicObject>) {
        let at = Kind::ALL.iter().position(|k| *k == kind).unwrap_or(0);
        // Fails only when the controllers have ended.
        let _ = self.queues[at].send(reference);
    }
}

/// Names of the Secrets that a tier uses.
fn secrets_of(tier: &Tier) -> impl Iterator<Item = &str> {
    let endpoint = tier.spec.backend.endpoint.iter().flat_map(secrets_of_endpoint);
    let fleet = tier.spec.backend.fleet.iter().filter_map(|f| f.model.source.http.as_ref()?.secret_ref.as_ref());
    endpoint.chain(fleet.map(|s| s.name.as_str()))
}

fn secrets_of_endpoint(endpoint: &Endpoint) -> impl Iterator<Item = &str> {
    endpoint.credentials.iter().chain(&endpoint.ca_certificate).map(|s| s.secret_ref.name.as_str())
}

/// Names of the Secrets that a policy uses.
fn secrets_of_policy(policy: &RoutingPolicy) -> impl Iterator<Item = &str> {
    let keys = policy.spec.access.api_keys.iter().map(|k| &k.secret_ref);
    let tls = policy.spec.listener.iter().map(|l| &l.tls.secret_ref);
    keys.chain(tls).map(|s| s.name.as_str())
}
