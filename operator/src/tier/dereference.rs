//! Everything that a tier's reconciliation reads, read first: pods, files, Secrets, reports. The one step that waits.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Secret};
use k8s_openapi::api::node::v1::RuntimeClass;
use kube::api::Api;
use terrace_contract::status::AgentStatus;
use terrace_crds::tier::{Endpoint, Gpu, TierSpec};
use terrace_crds::tier_child;

use crate::apply::{ChildKind, Owner, code};
use crate::context::{Context, Error};
use crate::credentials::{self, Trouble};
use crate::pki::{self, Files};
use crate::report::TierView;

/// What a tier's reconciliation reads.
pub struct Facts {
    /// Its agents' pods, by name.
    pub pods: Vec<Arc<Pod>>,
    /// What agents say of themselves.
    pub agents: Vec<AgentStatus>,
    /// The certificate files in use; none yet.
    pub files: Option<Files>,
    /// What is wrong with the endpoint's credential.
    pub credentials: Result<(), Trouble>,
    /// What is wrong with the GPU, as far as the cluster shows it: reason and sentence.
    pub gpu: Result<(), (&'static str, String)>,
    /// The namespace forbids pods that mount paths of the node.
    pub host_paths_forbidden: bool,
    /// What routers report.
    pub reported: TierView,
    /// Now.
    pub now: Timestamp,
}

/// Reads it all.
///
/// # Errors
/// When the API server does not answer.
pub async fn dereference(context: &Context, owner: &Owner, spec: &TierSpec) -> Result<Facts, Error> {
    let world = &context.world;
    let pods = world.agents(&owner.namespace, &owner.name);
    let agents = context.agents.of(&pods);
    let secret = match &spec.backend.fleet {
        Some(_) => context.applier.read(ChildKind::Secret, &owner.namespace, &tier_child(&owner.name)).await?,
        None => None,
    };
    let files = secret.and_then(|secret| pki::files_of(&secret));
    let credentials = match &spec.backend.endpoint {
        Some(endpoint) => credentials(context, owner, endpoint).await?,
        None => Ok(()),
    };
    let gpu = match spec.backend.fleet.as_ref().and_then(|f| f.gpu.as_ref()) {
        Some(gpu) => gpu_of(context, gpu).await?,
        None => Ok(()),
    };
    let level =
        |labels: std::collections::BTreeMap<String, String>| labels.get("pod-security.kubernetes.io/enforce").cloned();
    let enforced = world.namespace_labels(&owner.namespace).and_then(level);
    Ok(Facts {
        pods,
        agents,
        files,
        credentials,
        gpu,
        host_paths_forbidden: matches!(enforced.as_deref(), Some("restricted" | "baseline")),
        reported: context.fold().tier(&owner.uid, terrace_telemetry::time::now_us()),
        now: Timestamp::now(),
    })
}

async fn credentials(
    context: &Context,
    owner: &Owner,
    endpoint: &Endpoint,
) -> Result<Result<(), Trouble>, kube::Error> {
    let entries = match credentials::of(endpoint, &credentials::annotations_in(&context.world, &owner.namespace)) {
        Ok(entries) => entries,
        Err(trouble) => return Ok(Err(trouble)),
    };
    let api: Api<Secret> = Api::namespaced(context.client.clone(), &owner.namespace);
    for entry in entries {
        let secret = api.get_opt(&entry.secret).await?;
        let has = secret.as_ref().and_then(|s| s.data.as_ref()).is_some_and(|d| d.contains_key(&entry.key));
        if !has {
            return Ok(Err(Trouble {
                reason: "KeyNotFound",
                message: format!("Secret {} has no key {}: add it", entry.secret, entry.key),
            }));
        }
    }
    Ok(Ok(()))
}

async fn gpu_of(context: &Context, gpu: &Gpu) -> Result<Result<(), (&'static str, String)>, kube::Error> {
    if let Some(class) = &gpu.runtime_class_name {
        let api: Api<RuntimeClass> = Api::all(context.client.clone());
        match api.get_opt(class.as_str()).await {
            Ok(Some(_)) => {}
            Ok(None) => {
                let message = format!(
                    "RuntimeClass {class} does not exist: install the device's container runtime, or name another"
                );
                return Ok(Err(("RuntimeClassMissing", message)));
            }
            // Without the permission to look, the pods will tell.
            Err(error) if code(&error) == Some(403) => {}
            Err(error) => return Err(error),
        }
    }
    let Some(resource) = gpu.resource.as_ref().map(|r| r.as_str()) else { return Ok(Ok(())) };
    let amounts: Vec<String> = context
        .world
        .nodes
        .state()
        .iter()
        .filter_map(|node| Some(node.status.as_ref()?.allocatable.as_ref()?.get(resource)?.0.clone()))
        .collect();
    Ok(if amounts.is_empty() {
        Err((
            "NoAllocatableGpu",
            format!("no node offers {resource}: install its device plugin, or name what the nodes offer"),
        ))
    } else if amounts.iter().all(|amount| amount == "0") {
        Err((
            "DevicePluginNotReady",
            format!("nodes know {resource} but offer none of it: look at the device plugin's pods"),
        ))
    } else {
        Ok(())
    })
}
