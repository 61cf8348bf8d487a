//! The children of a fleet tier, from a tier that was validated: this step cannot fail. Pure.

use k8s_openapi::api::apps::v1::{
    DaemonSet, DaemonSetSpec, DaemonSetUpdateStrategy, Deployment, DeploymentSpec, DeploymentStrategy,
    RollingUpdateDaemonSet, RollingUpdateDeployment,
};
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use terrace_contract::names::AGENT_PORT;
use terrace_crds::shared::Workload;
use terrace_crds::tier_child;

use super::agent;
use super::validate::{Fleet, Valid, ValidTier};
use crate::apply::{ChildKind, Prepared};
use crate::children::{Site, identity_secret, meta, network, selector, service_account};
use crate::labels;
use crate::pki::Files;

/// Everything a tier wants in the cluster; nothing for an endpoint, whose tier lives in the routers alone.
pub fn build(tier: &ValidTier, files: Files, site: &Site) -> Prepared {
    let mut children = Prepared::default();
    let Valid::Fleet(fleet) = &tier.backend else { return children };
    let name = tier_child(&tier.owner.name);
    let labels = labels::tier(&tier.owner.name);
    children.push(ChildKind::ServiceAccount, &service_account(&name, &labels));
    children.push(ChildKind::Secret, &identity_secret(&name, &labels, files));
    children.push(ChildKind::Service, &service(&name, tier));
    children.push(ChildKind::NetworkPolicy, &network_policy(&name, tier, site));
    match fleet.spec.workload {
        Workload::DaemonSet => children.push(ChildKind::DaemonSet, &daemon_set(&name, tier, fleet, site)),
        Workload::Deployment => children.push(ChildKind::Deployment, &deployment(&name, tier, fleet, site)),
    }
    children
}

/// Headless: routers dial pods, and resolve this name only while a snapshot has no devices.
fn service(name: &str, tier: &ValidTier) -> Service {
    let labels = labels::tier(&tier.owner.name);
    Service {
        metadata: meta(name, &labels),
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".into()),
            selector: Some(labels),
            publish_not_ready_addresses: Some(false),
            ports: Some(vec![ServicePort {
                name: Some("agent".into()),
                port: i32::from(AGENT_PORT),
                target_port: Some(IntOrString::String("agent".into())),
                protocol: Some("TCP".into()),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

/// Routers of the allowed namespaces and the operator, nobody else.
fn network_policy(name: &str, tier: &ValidTier, site: &Site) -> k8s_openapi::api::networking::v1::NetworkPolicy {
    let labels = labels::tier(&tier.owner.name);
    let routers = network::peer(&tier.spec.allowed_policies.namespaces, Some(selector(&labels::routers())));
    network::policy(name, &labels, &labels, AGENT_PORT, vec![routers, network::operator(&site.namespace)])
}

fn daemon_set(name: &str, tier: &ValidTier, fleet: &Fleet, site: &Site) -> DaemonSet {
    let labels = labels::tier(&tier.owner.name);
    DaemonSet {
        metadata: meta(name, &labels),
        spec: DaemonSetSpec {
            selector: selector(&labels),
            template: agent::template(tier, fleet, site),
            update_strategy: Some(DaemonSetUpdateStrategy {
                type_: Some("RollingUpdate".into()),
                rolling_update: Some(RollingUpdateDaemonSet {
                    max_unavailable: Some(IntOrString::Int(fleet.spec.rollout.max_unavailable)),
                    max_surge: None,
                }),
            }),
            ..DaemonSetSpec::default()
        },
        status: None,
    }
}

fn deployment(name: &str, tier: &ValidTier, fleet: &Fleet, site: &Site) -> Deployment {
    let labels = labels::tier(&tier.owner.name);
    Deployment {
        metadata: meta(name, &labels),
        spec: DeploymentSpec {
            replicas: Some(fleet.spec.replicas.unwrap_or(1)),
            selector: selector(&labels),
            template: agent::template(tier, fleet, site),
            strategy: Some(DeploymentStrategy {
                type_: Some("RollingUpdate".into()),
                rolling_update: Some(RollingUpdateDeployment {
                    max_unavailable: Some(IntOrString::Int(fleet.spec.rollout.max_unavailable)),
                    // A second agent beside the old one may find neither memory nor GPU.
                    max_surge: Some(IntOrString::Int(0)),
                }),
            }),
            ..DeploymentSpec::default()
        },
        status: None,
    }
}
