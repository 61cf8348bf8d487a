//! The pod of one agent: its flags, its model, its processor. Pure.

use k8s_openapi::api::core::v1::{
    Container, PodResourceClaim, PodSpec, PodTemplateSpec, ResourceClaim, Toleration, TopologySpreadConstraint,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use terrace_contract::names::AGENT_PORT;
use terrace_crds::shared::Workload;
use terrace_crds::tier_child;

use super::model;
use super::validate::{Fleet, ValidTier};
use crate::apply::{MANAGED_BY, MANAGER};
use crate::children::{Site, pod, selector};
use crate::labels;

/// How long running answers may go on after the pod was told to end.
const DRAIN_SECONDS: i64 = 45;

/// The pod that DaemonSet and Deployment make.
pub(super) fn template(tier: &ValidTier, fleet: &Fleet, site: &Site) -> PodTemplateSpec {
    let mut labels = labels::tier(&tier.owner.name);
    let spread = (fleet.spec.workload == Workload::Deployment).then(|| {
        vec![TopologySpreadConstraint {
            max_skew: 1,
            topology_key: "kubernetes.io/hostname".into(),
            when_unsatisfiable: "ScheduleAnyway".into(),
            label_selector: Some(selector(&labels)),
            ..TopologySpreadConstraint::default()
        }]
    });
    labels.insert(MANAGED_BY.into(), MANAGER.into());
    let name = tier_child(&tier.owner.name);
    let model = model::of(fleet);
    let (identity, identity_mount) = pod::identity(&name);
    let gpu = fleet.spec.gpu.as_ref();
    let placement = &fleet.spec.placement;
    let spec = PodSpec {
        service_account_name: Some(name),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        security_context: Some(pod::pod_security()),
        termination_grace_period_seconds: Some(DRAIN_SECONDS + 15),
        node_selector: (!placement.node_selector.is_empty()).then(|| placement.node_selector.clone()),
        tolerations: Some(tolerations(&placement.tolerations)),
        topology_spread_constraints: spread,
        runtime_class_name: gpu.and_then(|g| g.runtime_class_name.as_ref()).map(ToString::to_string),
        resource_claims: gpu.and_then(|g| g.resource_claim_template_name.as_ref()).map(|template| {
            vec![PodResourceClaim {
                name: "gpu".into(),
                resource_claim_template_name: Some(template.to_string()),
                ..PodResourceClaim::default()
            }]
        }),
        image_pull_secrets: model.pull_secrets,
        volumes: Some([vec![identity], model.volumes].concat()),
        containers: vec![Container {
            name: "agent".into(),
            image: Some(image(fleet, site).to_owned()),
            image_pull_policy: Some("IfNotPresent".into()),
            args: Some([model.args, flags(fleet)].concat()),
            env: Some(pod::env(site)),
            ports: Some(vec![pod::port("agent", AGENT_PORT), pod::admin_port()]),
            volume_mounts: Some([vec![identity_mount], model.mounts].concat()),
            security_context: Some(pod::container_security()),
            resources: Some(resources(fleet)),
            // A model takes its time to load: only readiness waits for it.
            readiness_probe: Some(pod::probe("/readyz", 2, 2)),
            liveness_probe: Some(pod::probe("/livez", 10, 6)),
            ..Container::default()
        }],
        ..PodSpec::default()
    };
    PodTemplateSpec { metadata: Some(ObjectMeta { labels: Some(labels), ..ObjectMeta::default() }), spec: Some(spec) }
}

/// CUDA's libraries are an image apart.
fn image<'a>(fleet: &Fleet, site: &'a Site) -> &'a str {
    if terrace_crds::agent::device(&fleet.spec) == "cuda" { &site.agent_cuda_image } else { &site.agent_image }
}

fn flags(fleet: &Fleet) -> Vec<String> {
    let mut flags = vec![format!("--model-name={}", fleet.spec.model.name), format!("--drain-timeout={DRAIN_SECONDS}")];
    flags.extend(terrace_crds::agent::engine_flags(&fleet.spec));
    flags
}

fn resources(fleet: &Fleet) -> k8s_openapi::api::core::v1::ResourceRequirements {
    let mut resources = pod::resources(&fleet.spec.placement.resources);
    if let Some(gpu) = &fleet.spec.gpu {
        if let Some(resource) = &gpu.resource {
            let one = Quantity("1".into());
            resources.limits.get_or_insert_default().entry(resource.to_string()).or_insert(one);
        }
        if gpu.resource_claim_template_name.is_some() {
            resources.claims = Some(vec![ResourceClaim { name: "gpu".into(), request: None }]);
        }
    }
    resources
}

/// A node that is cut off keeps its agents, for as long as it takes.
fn tolerations(more: &[Toleration]) -> Vec<Toleration> {
    let forever = |key: &str| Toleration {
        key: Some(key.into()),
        operator: Some("Exists".into()),
        effect: Some("NoExecute".into()),
        ..Toleration::default()
    };
    let mut all = vec![forever("node.kubernetes.io/unreachable"), forever("node.kubernetes.io/not-ready")];
    all.extend(more.iter().cloned());
    all
}
