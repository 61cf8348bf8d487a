//! The children that exist, as the watches see them: those with our label, of every kind that the operator makes.

use std::sync::Arc;

use kube::ResourceExt;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::reflector::{ObjectRef, Store};

use super::{OWNER, Owner};

/// The kinds of children, in the order in which they are applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChildKind {
    /// An identity without a token.
    ServiceAccount,
    /// Certificates.
    Secret,
    /// The mounted copy of a snapshot.
    ConfigMap,
    /// An address.
    Service,
    /// Who may talk to whom.
    NetworkPolicy,
    /// How many may be away at once.
    PodDisruptionBudget,
    /// One pod a node.
    DaemonSet,
    /// A number of pods.
    Deployment,
}

impl ChildKind {
    /// Every kind.
    pub const ALL: [ChildKind; 8] = [
        ChildKind::ServiceAccount,
        ChildKind::Secret,
        ChildKind::ConfigMap,
        ChildKind::Service,
        ChildKind::NetworkPolicy,
        ChildKind::PodDisruptionBudget,
        ChildKind::DaemonSet,
        ChildKind::Deployment,
    ];

    /// Kinds that one spec of an object wants and another does not; all others go with their owner.
    pub const OPTIONAL: [ChildKind; 3] = [ChildKind::PodDisruptionBudget, ChildKind::DaemonSet, ChildKind::Deployment];

    /// Kubernetes' name of it.
    pub fn name(self) -> &'static str {
        match self {
            ChildKind::ServiceAccount => "ServiceAccount",
            ChildKind::Secret => "Secret",
            ChildKind::ConfigMap => "ConfigMap",
            ChildKind::Service => "Service",
            ChildKind::NetworkPolicy => "NetworkPolicy",
            ChildKind::PodDisruptionBudget => "PodDisruptionBudget",
            ChildKind::DaemonSet => "DaemonSet",
            ChildKind::Deployment => "Deployment",
        }
    }

    /// How the API server is asked for it.
    pub fn resource(self) -> ApiResource {
        let (group, plural) = match self {
            ChildKind::ServiceAccount => ("", "serviceaccounts"),
            ChildKind::Secret => ("", "secrets"),
            ChildKind::ConfigMap => ("", "configmaps"),
            ChildKind::Service => ("", "services"),
            ChildKind::NetworkPolicy => ("networking.k8s.io", "networkpolicies"),
            ChildKind::PodDisruptionBudget => ("policy", "poddisruptionbudgets"),
            ChildKind::DaemonSet => ("apps", "daemonsets"),
            ChildKind::Deployment => ("apps", "deployments"),
        };
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, "v1", self.name()), plural)
    }
}

/// The children that exist, one store a kind.
#[derive(Clone)]
pub struct Live(Arc<Vec<(ChildKind, Store<DynamicObject>)>>);

impl Live {
    /// Over the stores that the watches fill.
    pub fn new(stores: Vec<(ChildKind, Store<DynamicObject>)>) -> Self {
        Self(Arc::new(stores))
    }

    /// One child.
    pub fn get(&self, kind: ChildKind, namespace: &str, name: &str) -> Option<Arc<DynamicObject>> {
        self.store(kind)?.get(&ObjectRef::new_with(name, kind.resource()).within(namespace))
    }

    /// The children of one kind that an owner has.
    pub fn of_owner(&self, kind: ChildKind, owner: &Owner) -> Vec<Arc<DynamicObject>> {
        let Some(store) = self.store(kind) else { return Vec::new() };
        store.state_filter(|object| {
            object.metadata.namespace.as_deref() == Some(owner.namespace.as_str())
                && object.labels().get(OWNER).is_some_and(|uid| *uid == owner.uid)
                && object.metadata.deletion_timestamp.is_none()
                && owner.owns(object)
        })
    }

    fn store(&self, kind: ChildKind) -> Option<&Store<DynamicObject>> {
        self.0.iter().find(|(k, _)| *k == kind).map(|(_, store)| store)
    }
}
