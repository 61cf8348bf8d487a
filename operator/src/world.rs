//! What the watches know. Everything that decides reads it from here; nothing here asks the API server.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, Node, Pod, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt;
use kube::core::{PartialObjectMeta, Selector, SelectorExt};
use kube::runtime::reflector::{ObjectRef, Store};
use terrace_crds::shared::{Namespaces, NamespacesFrom};
use terrace_crds::{LatencyBudget, RoutingPolicy, Tier};

use crate::apply::Live;
use crate::kinds::Objects;
use crate::labels;

/// The stores of all watches.
pub struct World {
    /// Tiers.
    pub tiers: Objects<Tier>,
    /// Policies.
    pub policies: Objects<RoutingPolicy>,
    /// Budgets.
    pub budgets: Objects<LatencyBudget>,
    /// Children.
    pub live: Live,
    /// Pods of agents and routers.
    pub pods: Store<Pod>,
    /// Nodes.
    pub nodes: Store<Node>,
    /// Namespaces, without their spec.
    pub namespaces: Store<PartialObjectMeta<Namespace>>,
    /// Secrets, without their data.
    pub secrets: Store<PartialObjectMeta<Secret>>,
}

impl World {
    /// Labels of a node.
    pub fn node_labels(&self, name: &str) -> Option<BTreeMap<String, String>> {
        self.nodes.get(&ObjectRef::new(name)).map(|node| node.labels().clone())
    }

    /// Labels of a namespace.
    pub fn namespace_labels(&self, name: &str) -> Option<BTreeMap<String, String>> {
        self.namespaces.get(&ObjectRef::new(name)).map(|namespace| namespace.labels().clone())
    }

    /// Whether a namespace is going away: nothing can be made in it.
    pub fn terminating(&self, name: &str) -> bool {
        self.namespaces.get(&ObjectRef::new(name)).is_some_and(|n| n.metadata.deletion_timestamp.is_some())
    }

    /// A Secret's metadata.
    pub fn secret(&self, namespace: &str, name: &str) -> Option<Arc<PartialObjectMeta<Secret>>> {
        self.secrets.get(&ObjectRef::new(name).within(namespace))
    }

    /// Agents of a tier.
    pub fn agents(&self, namespace: &str, tier: &str) -> Vec<Arc<Pod>> {
        self.pods_with(namespace, labels::TIER, tier)
    }

    /// Routers of a policy.
    pub fn routers(&self, namespace: &str, policy: &str) -> Vec<Arc<Pod>> {
        self.pods_with(namespace, labels::POLICY, policy)
    }

    fn pods_with(&self, namespace: &str, label: &str, value: &str) -> Vec<Arc<Pod>> {
        let mut pods = self.pods.state_filter(|pod| {
            pod.metadata.namespace.as_deref() == Some(namespace) && pod.labels().get(label).is_some_and(|v| v == value)
        });
        pods.sort_by_key(|pod| pod.name_any());
        pods
    }

    /// Whether `namespace` is one of those that an object of namespace `own` means.
    pub fn means(&self, namespaces: &Namespaces, own: &str, namespace: &str) -> bool {
        match namespaces.from {
            NamespacesFrom::Same => own == namespace,
            NamespacesFrom::All => true,
            NamespacesFrom::Selector => namespaces
                .selector
                .as_ref()
                .zip(self.namespace_labels(namespace))
                .is_some_and(|(selector, labels)| matches(selector, &labels)),
        }
    }
}

fn matches(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    // A selector that cannot be read selects nothing.
    Selector::try_from(selector.clone()).is_ok_and(|selector| selector.matches(labels))
}
