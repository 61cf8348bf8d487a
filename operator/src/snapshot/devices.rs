//! Pods of a fleet tier become the devices of a snapshot. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use terrace_contract::tier::{Backend, Device, Tier};

use crate::labels;

/// Labels of a node by its name.
pub type NodeLabels<'a> = dyn Fn(&str) -> Option<BTreeMap<String, String>> + 'a;

/// The devices of one tier, in the order of their pods' names.
pub fn of(tier: &Tier, pods: &[impl AsRef<Pod>], node_labels: &NodeLabels<'_>) -> Vec<Device> {
    let Backend::Fleet(fleet) = &tier.backend else { return Vec::new() };
    let mut devices: Vec<Device> = pods
        .iter()
        .map(AsRef::as_ref)
        .filter(|pod| {
            pod.metadata.namespace.as_deref() == Some(tier.namespace.as_str())
                && pod.labels().get(labels::TIER).is_some_and(|name| *name == tier.name)
        })
        .filter_map(|pod| {
            let node = pod.spec.as_ref()?.node_name.clone()?;
            let address = pod.status.as_ref()?.pod_ip.clone()?;
            let domain = match &tier.topology_key {
                Some(key) => node_labels(&node).and_then(|l| l.get(key).cloned()).unwrap_or_default(),
                None => String::new(),
            };
            Some(Device {
                tier: tier.uid.clone(),
                pod_uid: pod.uid()?,
                pod: pod.name_any(),
                node,
                domain,
                address,
                port: fleet.port,
                server_name: fleet.server_name.clone(),
                ready: ready(pod),
            })
        })
        .collect();
    devices.sort_by(|a, b| a.pod.cmp(&b.pod));
    devices
}

/// Whether a pod takes requests.
pub fn ready(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_none()
        && pod
            .status
            .as_ref()
            .and_then(|s| s.conditions.as_ref())
            .is_some_and(|all| all.iter().any(|c| c.type_ == "Ready" && c.status == "True"))
}
