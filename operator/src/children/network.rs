//! NetworkPolicies: who may talk to agents and routers.

use std::collections::BTreeMap;

use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use terrace_contract::names::ADMIN_PORT;
use terrace_crds::shared::{Namespaces, NamespacesFrom};

use super::{meta, selector};

/// Pods that may reach a port: those of `pods` (all without it) in the namespaces meant.
pub fn peer(namespaces: &Namespaces, pods: Option<LabelSelector>) -> NetworkPolicyPeer {
    let namespace_selector = match namespaces.from {
        NamespacesFrom::Same => None,
        NamespacesFrom::All => Some(LabelSelector::default()),
        NamespacesFrom::Selector => Some(namespaces.selector.clone().unwrap_or_default()),
    };
    // Neither selector would be an empty peer, which Kubernetes refuses; all pods of this namespace are meant.
    let pods = if namespace_selector.is_none() { Some(pods.unwrap_or_default()) } else { pods };
    NetworkPolicyPeer { ip_block: None, namespace_selector, pod_selector: pods }
}

/// The operator's own pods.
pub fn operator(namespace: &str) -> NetworkPolicyPeer {
    let name = [("kubernetes.io/metadata.name".to_owned(), namespace.to_owned())].into();
    let pods = [("app.kubernetes.io/component".to_owned(), "operator".to_owned())].into();
    NetworkPolicyPeer { ip_block: None, namespace_selector: Some(selector(&name)), pod_selector: Some(selector(&pods)) }
}

/// Lets `from` in on `port`, and anyone on the admin port, which never shows content; nothing else.
pub fn policy(
    name: &str,
    labels: &BTreeMap<String, String>,
    pods: &BTreeMap<String, String>,
    port: u16,
    from: Vec<NetworkPolicyPeer>,
) -> NetworkPolicy {
    let on = |port: u16| {
        Some(vec![NetworkPolicyPort {
            port: Some(IntOrString::Int(i32::from(port))),
            protocol: Some("TCP".into()),
            end_port: None,
        }])
    };
    NetworkPolicy {
        metadata: meta(name, labels),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(selector(pods)),
            policy_types: Some(vec!["Ingress".into()]),
            ingress: Some(vec![
                NetworkPolicyIngressRule { ports: on(port), from: Some(from) },
                NetworkPolicyIngressRule { ports: on(ADMIN_PORT), from: None },
            ]),
            egress: None,
        }),
    }
}
