//! The pod of one router: its flags and what is mounted into it. Pure.

use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, Container, EmptyDirVolumeSource, KeyToPath, Lifecycle, LifecycleHandler, PodSpec,
    PodTemplateSpec, ProjectedVolumeSource, SecretProjection, SecretVolumeSource, SleepAction,
    TopologySpreadConstraint, Volume, VolumeMount, VolumeProjection,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use terrace_contract::names::{API_KEYS_DIR, CREDENTIALS_DIR, FLEET_PORT, SNAPSHOT_DIR};
use terrace_crds::router_child;

use super::build::client_port;
use super::validate::{Credentials, ValidPolicy};
use crate::apply::{MANAGED_BY, MANAGER};
use crate::children::{Site, pod, selector};
use crate::labels;

/// Where a router keeps its last full snapshot.
const STATE_DIR: &str = "/var/lib/terrace";
/// Where the client port's certificate is mounted.
const TLS_DIR: &str = "/etc/terrace/tls";
/// After a pod was told to end it still takes requests for this long: kube-proxy hears of it later than the pod does.
const LINGER_SECONDS: i64 = 5;

/// The pod that Deployment and DaemonSet make.
pub(super) fn template(policy: &ValidPolicy, site: &Site) -> PodTemplateSpec {
    let name = router_child(&policy.owner.name);
    let mut labels = labels::policy(&policy.owner.name);
    let spread = TopologySpreadConstraint {
        max_skew: 1,
        topology_key: "kubernetes.io/hostname".into(),
        when_unsatisfiable: "ScheduleAnyway".into(),
        label_selector: Some(selector(&labels)),
        ..TopologySpreadConstraint::default()
    };
    labels.insert(MANAGED_BY.into(), MANAGER.into());
    let (volumes, mounts) = volumes(&name, policy).into_iter().unzip();
    let spec = PodSpec {
        service_account_name: Some(name),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        security_context: Some(pod::pod_security()),
        termination_grace_period_seconds: Some(60),
        topology_spread_constraints: Some(vec![spread]),
        volumes: Some(volumes),
        containers: vec![Container {
            name: "router".into(),
            image: Some(site.router_image.clone()),
            image_pull_policy: Some("IfNotPresent".into()),
            args: Some(flags(policy, site)),
            env: Some(pod::env(site)),
            ports: Some(vec![pod::port("clients", client_port(policy)), pod::admin_port()]),
            volume_mounts: Some(mounts),
            security_context: Some(pod::container_security()),
            resources: Some(pod::resources(&policy.spec.router.resources)),
            readiness_probe: Some(pod::probe("/readyz", 2, 2)),
            liveness_probe: Some(pod::probe("/livez", 10, 3)),
            lifecycle: Some(Lifecycle {
                pre_stop: Some(LifecycleHandler {
                    sleep: Some(SleepAction { seconds: LINGER_SECONDS }),
                    ..LifecycleHandler::default()
                }),
                ..Lifecycle::default()
            }),
            ..Container::default()
        }],
        ..PodSpec::default()
    };
    PodTemplateSpec { metadata: Some(ObjectMeta { labels: Some(labels), ..ObjectMeta::default() }), spec: Some(spec) }
}

fn flags(policy: &ValidPolicy, site: &Site) -> Vec<String> {
    let mut flags = vec![
        format!("--policy={}", policy.owner.name),
        format!("--namespace={}", policy.owner.namespace),
        format!("--operator=terrace-operator.{}.svc:{FLEET_PORT}", site.namespace),
        format!("--snapshot-dir={SNAPSHOT_DIR}"),
        format!("--state-dir={STATE_DIR}"),
        format!("--listen=0.0.0.0:{}", client_port(policy)),
    ];
    flags.extend(policy.tls_secret.is_some().then(|| format!("--tls-dir={TLS_DIR}")));
    flags
}

fn volumes(name: &str, policy: &ValidPolicy) -> Vec<(Volume, VolumeMount)> {
    let mut all = vec![
        pod::identity(name),
        volume(
            "snapshot",
            SNAPSHOT_DIR,
            true,
            Volume {
                config_map: Some(ConfigMapVolumeSource { name: name.into(), ..ConfigMapVolumeSource::default() }),
                ..Volume::default()
            },
        ),
        volume("state", STATE_DIR, false, Volume { empty_dir: Some(state(policy)), ..Volume::default() }),
    ];
    if let Some(secret) = &policy.api_keys_secret {
        // Without it the pod still starts: absence is reported, not waited for.
        all.push(volume("api-keys", API_KEYS_DIR, true, whole_secret(secret, true)));
    }
    if let Some(secret) = &policy.tls_secret {
        // Without it the pod waits: a port that should be encrypted is not opened plain.
        all.push(volume("tls", TLS_DIR, true, whole_secret(secret, false)));
    }
    all.extend(policy.credentials.iter().enumerate().map(|(at, credentials)| {
        let path = format!("{CREDENTIALS_DIR}/{}", credentials.tier_uid);
        volume(&format!("credentials-{at}"), &path, true, projected(credentials))
    }));
    all
}

/// Holds the egress ledger too, which says how large it may get.
fn state(policy: &ValidPolicy) -> EmptyDirVolumeSource {
    let limit = policy.spec.egress_ledger.storage.empty_dir.as_ref().and_then(|e| e.size_limit.as_ref());
    EmptyDirVolumeSource { size_limit: limit.map(|l| Quantity(l.to_string())), ..EmptyDirVolumeSource::default() }
}

fn volume(name: &str, path: &str, read_only: bool, source: Volume) -> (Volume, VolumeMount) {
    (Volume { name: name.into(), ..source }, pod::mount(name, path, read_only))
}

fn whole_secret(secret: &str, optional: bool) -> Volume {
    let source = SecretVolumeSource {
        secret_name: Some(secret.into()),
        default_mode: Some(pod::SECRET_MODE),
        optional: Some(optional),
        ..SecretVolumeSource::default()
    };
    Volume { secret: Some(source), ..Volume::default() }
}

/// Only the keys that the tier names, and without any of them the pod still starts: absence is reported, not waited for.
fn projected(credentials: &Credentials) -> Volume {
    let sources = credentials
        .entries
        .iter()
        .map(|entry| VolumeProjection {
            secret: Some(SecretProjection {
                name: entry.secret.clone(),
                items: Some(vec![KeyToPath {
                    key: entry.key.clone(),
                    path: entry.file.clone(),
                    ..KeyToPath::default()
                }]),
                optional: Some(true),
            }),
            ..VolumeProjection::default()
        })
        .collect();
    let source = ProjectedVolumeSource {
        default_mode: Some(pod::SECRET_MODE),
        sources: Some(sources),
        ..ProjectedVolumeSource::default()
    };
    Volume { projected: Some(source), ..Volume::default() }
}
