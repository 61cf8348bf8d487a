//! The parts of a pod that agents and routers share: restricted Pod Security, identity, probes, environment.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Capabilities, ContainerPort, EnvVar, EnvVarSource, HTTPGetAction, ObjectFieldSelector, PodSecurityContext, Probe,
    ResourceRequirements, SeccompProfile, SecretVolumeSource, SecurityContext, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use terrace_contract::names::{ADMIN_PORT, IDENTITY_DIR};
use terrace_crds::shared::Resources;

use super::Site;

/// The user and group that everything runs as.
const NOBODY: i64 = 65532;
/// Readable for the group that `fsGroup` sets, for nobody else.
pub const SECRET_MODE: i32 = 0o440;

/// Security of the pod: restricted.
pub fn pod_security() -> PodSecurityContext {
    PodSecurityContext {
        run_as_non_root: Some(true),
        run_as_user: Some(NOBODY),
        run_as_group: Some(NOBODY),
        fs_group: Some(NOBODY),
        fs_group_change_policy: Some("OnRootMismatch".into()),
        seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".into(), localhost_profile: None }),
        ..PodSecurityContext::default()
    }
}

/// Security of the container: restricted, and nothing of the image can be written.
pub fn container_security() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities { add: None, drop: Some(vec!["ALL".into()]) }),
        read_only_root_filesystem: Some(true),
        run_as_non_root: Some(true),
        ..SecurityContext::default()
    }
}

/// What the program says of itself comes from the pod it runs in.
pub fn env(site: &Site) -> Vec<EnvVar> {
    let field = |name: &str, path: &str| EnvVar {
        name: name.into(),
        value: None,
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector { api_version: Some("v1".into()), field_path: path.into() }),
            ..EnvVarSource::default()
        }),
    };
    let mut env = vec![
        field("POD_UID", "metadata.uid"),
        field("POD_NAME", "metadata.name"),
        field("POD_NAMESPACE", "metadata.namespace"),
        field("NODE_NAME", "spec.nodeName"),
    ];
    if let Some(endpoint) = &site.otlp_endpoint {
        env.push(value("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint));
    }
    env
}

fn value(name: &str, value: &str) -> EnvVar {
    EnvVar { name: name.into(), value: Some(value.into()), value_from: None }
}

/// A named TCP port.
pub fn port(name: &str, number: u16) -> ContainerPort {
    ContainerPort {
        name: Some(name.into()),
        container_port: i32::from(number),
        protocol: Some("TCP".into()),
        ..ContainerPort::default()
    }
}

/// The admin port.
pub fn admin_port() -> ContainerPort {
    port("admin", ADMIN_PORT)
}

/// A probe of the admin port.
pub fn probe(path: &str, period_seconds: i32, failures: i32) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.into()),
            port: IntOrString::String("admin".into()),
            scheme: Some("HTTP".into()),
            ..HTTPGetAction::default()
        }),
        period_seconds: Some(period_seconds),
        timeout_seconds: Some(2),
        failure_threshold: Some(failures),
        success_threshold: Some(1),
        ..Probe::default()
    }
}

/// The certificate Secret as a volume, and where it is mounted.
pub fn identity(secret: &str) -> (Volume, VolumeMount) {
    let volume = Volume {
        name: "identity".into(),
        secret: Some(SecretVolumeSource {
            secret_name: Some(secret.into()),
            default_mode: Some(SECRET_MODE),
            ..SecretVolumeSource::default()
        }),
        ..Volume::default()
    };
    (volume, mount("identity", IDENTITY_DIR, true))
}

/// Where a volume is mounted.
pub fn mount(name: &str, path: &str, read_only: bool) -> VolumeMount {
    VolumeMount {
        name: name.into(),
        mount_path: path.into(),
        read_only: read_only.then_some(true),
        ..VolumeMount::default()
    }
}

/// Requests and limits as Kubernetes writes them.
pub fn resources(resources: &Resources) -> ResourceRequirements {
    let some = |map: &BTreeMap<_, _>| (!map.is_empty()).then(|| map.clone());
    ResourceRequirements { claims: None, limits: some(&resources.limits), requests: some(&resources.requests) }
}
