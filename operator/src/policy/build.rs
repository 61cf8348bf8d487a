//! The children of a policy, from a policy that was validated: this step cannot fail. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{
    DaemonSet, DaemonSetSpec, DaemonSetUpdateStrategy, Deployment, DeploymentSpec, DeploymentStrategy,
    RollingUpdateDaemonSet, RollingUpdateDeployment,
};
use k8s_openapi::api::core::v1::{ConfigMap, Service, ServicePort, ServiceSpec};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use terrace_contract::names::{ROUTER_PORT, ROUTER_TLS_PORT};
use terrace_crds::router_child;
use terrace_crds::routing_policy::{Router, TrafficPolicy};
use terrace_crds::shared::Workload;

use super::router;
use super::validate::ValidPolicy;
use crate::apply::{ChildKind, Prepared};
use crate::children::{Site, identity_secret, meta, network, selector, service_account};
use crate::labels;
use crate::pki::Files;

/// The file of the ConfigMap that holds the snapshot's mounted copy.
pub const SNAPSHOT_FILE: &str = "snapshot.json";

/// Everything a policy wants in the cluster.
pub fn build(policy: &ValidPolicy, files: Files, site: &Site) -> Prepared {
    let name = router_child(&policy.owner.name);
    let labels = labels::policy(&policy.owner.name);
    let mut children = Prepared::default();
    children.push(ChildKind::ServiceAccount, &service_account(&name, &labels));
    children.push(ChildKind::Secret, &identity_secret(&name, &labels, files));
    children.push(ChildKind::ConfigMap, &config_map(&name, policy));
    children.push(ChildKind::Service, &service(policy));
    children.push(ChildKind::NetworkPolicy, &network_policy(&name, policy));
    match policy.spec.router.workload {
        Workload::Deployment => {
            children.push(ChildKind::PodDisruptionBudget, &disruption_budget(&name, policy));
            children.push(ChildKind::Deployment, &deployment(&name, policy, site));
        }
        Workload::DaemonSet => children.push(ChildKind::DaemonSet, &daemon_set(&name, policy, site)),
    }
    children
}

/// How many routers a policy wants; none: one a node.
pub fn replicas(router: &Router) -> Option<i32> {
    (router.workload == Workload::Deployment).then(|| router.replicas.unwrap_or(Router::DEFAULT_REPLICAS))
}

/// The snapshot without devices: what a router starts from while the operator is away.
fn config_map(name: &str, policy: &ValidPolicy) -> ConfigMap {
    let document = serde_json::to_string(&policy.mounted).unwrap_or_default();
    ConfigMap {
        metadata: meta(name, &labels::policy(&policy.owner.name)),
        data: Some(BTreeMap::from([(SNAPSHOT_FILE.to_owned(), document)])),
        ..ConfigMap::default()
    }
}

/// What clients use: the bare name of the policy. ClusterIP, since k3s's Traefik owns 80 and 443 of the nodes.
fn service(policy: &ValidPolicy) -> Service {
    let labels = labels::policy(&policy.owner.name);
    let (name, port) = if policy.tls_secret.is_some() { ("https", 443) } else { ("http", 80) };
    let local = policy.spec.router.traffic_policy == TrafficPolicy::Local;
    Service {
        metadata: meta(&policy.owner.name, &labels),
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".into()),
            selector: Some(labels),
            internal_traffic_policy: Some(if local { "Local" } else { "Cluster" }.into()),
            ports: Some(vec![ServicePort {
                name: Some(name.into()),
                port,
                target_port: Some(IntOrString::String("clients".into())),
                protocol: Some("TCP".into()),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

/// The port that clients reach inside the pod.
pub(super) fn client_port(policy: &ValidPolicy) -> u16 {
    if policy.tls_secret.is_some() { ROUTER_TLS_PORT } else { ROUTER_PORT }
}

fn network_policy(name: &str, policy: &ValidPolicy) -> k8s_openapi::api::networking::v1::NetworkPolicy {
    let labels = labels::policy(&policy.owner.name);
    let clients = network::peer(&policy.spec.clients.namespaces, None);
    network::policy(name, &labels, &labels, client_port(policy), vec![clients])
}

fn disruption_budget(name: &str, policy: &ValidPolicy) -> PodDisruptionBudget {
    let labels = labels::policy(&policy.owner.name);
    PodDisruptionBudget {
        metadata: meta(name, &labels),
        spec: Some(PodDisruptionBudgetSpec {
            max_unavailable: Some(IntOrString::Int(1)),
            selector: Some(selector(&labels)),
            ..PodDisruptionBudgetSpec::default()
        }),
        status: None,
    }
}

fn deployment(name: &str, policy: &ValidPolicy, site: &Site) -> Deployment {
    let labels = labels::policy(&policy.owner.name);
    Deployment {
        metadata: meta(name, &labels),
        spec: DeploymentSpec {
            replicas: replicas(&policy.spec.router),
            selector: selector(&labels),
            template: router::template(policy, site),
            strategy: Some(DeploymentStrategy {
                type_: Some("RollingUpdate".into()),
                rolling_update: Some(RollingUpdateDeployment {
                    max_unavailable: Some(IntOrString::Int(0)),
                    max_surge: Some(IntOrString::Int(1)),
                }),
            }),
            ..DeploymentSpec::default()
        },
        status: None,
    }
}

fn daemon_set(name: &str, policy: &ValidPolicy, site: &Site) -> DaemonSet {
    let labels = labels::policy(&policy.owner.name);
    DaemonSet {
        metadata: meta(name, &labels),
        spec: DaemonSetSpec {
            selector: selector(&labels),
            template: router::template(policy, site),
            update_strategy: Some(DaemonSetUpdateStrategy {
                type_: Some("RollingUpdate".into()),
                rolling_update: Some(RollingUpdateDaemonSet {
                    max_unavailable: Some(IntOrString::Int(1)),
                    max_surge: None,
                }),
            }),
            ..DaemonSetSpec::default()
        },
        status: None,
    }
}
