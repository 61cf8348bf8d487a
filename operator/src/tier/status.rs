//! What the operator says of a tier. Pure: facts in, status out.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::DynamicObject;
use serde::de::DeserializeOwned;
use terrace_crds::tier::{
    Certificates, DeviceCounts, DigestCount, ModelInUse, Observed, RolloutState, TierSpec, TierStatus,
};
use terrace_crds::tier_child;

use super::dereference::Facts;
use super::pods;
use crate::apply::ChildKind;
use crate::conditions::{Want, merge, steady, whole_second};
use crate::figures;
use crate::outcome::Outcome;
use crate::snapshot::ready;

/// Its conditions, in their order.
pub const CONDITIONS: [&str; 7] =
    ["Accepted", "FieldsActive", "ModelAvailable", "GpuAvailable", "CredentialsResolved", "Reachable", "Ready"];

/// The status of a tier.
pub fn status(
    spec: &TierSpec,
    name: &str,
    generation: i64,
    inactive: &[String],
    outcome: &Outcome,
    facts: &Facts,
    old: &TierStatus,
) -> TierStatus {
    let workload = workload(outcome, name, old);
    let ready_pods = i32::try_from(facts.pods.iter().filter(|p| ready(p)).count()).unwrap_or(i32::MAX);
    let problems = pods::problems(facts.pods.iter().map(AsRef::as_ref));
    let fleet = spec.backend.fleet.as_ref();
    // This replica has only begun to take reports in: what the last holder of the lease heard still stands.
    let early = facts.reported.early && facts.reported.reach.is_empty();
    let saturated = match &old.devices {
        Some(devices) if early => devices.saturated,
        _ => i32::try_from(facts.reported.saturated).unwrap_or(i32::MAX),
    };
    let devices = fleet.map(|_| DeviceCounts {
        desired: workload.desired,
        ready: ready_pods,
        saturated: saturated.min(ready_pods),
        summary: format!("{ready_pods}/{}", workload.desired),
    });
    let accepted = outcome.accepted();
    let model = model_available(spec, ready_pods, &problems, facts);
    let gpu = gpu_available(spec, ready_pods, &problems, facts);
    let credentials = match &facts.credentials {
        _ if spec.backend.endpoint.as_ref().is_none_or(|e| e.credentials.is_none() && e.ca_certificate.is_none()) => {
            Want::not_applicable("CredentialsResolved")
        }
        Ok(()) => Want::yes("CredentialsResolved", "Resolved", ""),
        Err(trouble) => Want::no("CredentialsResolved", trouble.reason, trouble.message.clone()),
    };
    let mut reachable = reachable(facts);
    if early && old.observed_generation == Some(generation) {
        reachable = reachable.or_as_before(&old.conditions);
    }
    let ready = match outcome.failure() {
        Some((reason, message)) => Want::no("Ready", reason, message),
        None => all_ready(&accepted, &credentials, &gpu, &reachable, devices.as_ref()),
    };
    let wanted = vec![accepted, crate::status::fields_active(inactive), model, gpu, credentials, reachable, ready];
    TierStatus {
        observed_generation: Some(generation),
        conditions: merge(&old.conditions, wanted, generation, facts.now),
        backend: fleet.map_or("Endpoint", |f| f.workload.as_str()).to_owned(),
        replicas: workload.replicas,
        selector: fleet.map(|_| crate::labels::selector_text(&crate::labels::tier(name))),
        devices,
        problems,
        rollout: fleet.map(|_| RolloutState { updated: workload.updated, digests: digests(facts, ready_pods, old) }),
        certificates: facts
            .files
            .as_ref()
            .and_then(crate::pki::not_after)
            .map(|t| Certificates { not_after: Time(whole_second(t)) }),
        model: Some(model_in_use(spec, facts, ready_pods, old.model.as_ref())),
        observed: if early { old.observed.clone() } else { observed(facts, old.observed.as_ref()) },
    }
}

#[derive(Default)]
struct Workload {
    desired: i32,
    updated: i32,
    replicas: Option<i32>,
}

fn workload(outcome: &Outcome, tier: &str, old: &TierStatus) -> Workload {
    let Some(applied) = outcome.applied() else {
        // The children are what they were.
        return Workload {
            desired: old.devices.as_ref().map_or(0, |d| d.desired),
            updated: old.rollout.as_ref().map_or(0, |r| r.updated),
            replicas: old.replicas,
        };
    };
    let name = tier_child(tier);
    if let Some(set) = applied.get(ChildKind::DaemonSet, &name).and_then(parse::<DaemonSet>) {
        let status = set.status.unwrap_or_default();
        return Workload {
            desired: status.desired_number_scheduled,
            updated: status.updated_number_scheduled.unwrap_or(0),
            replicas: Some(status.current_number_scheduled),
        };
    }
    if let Some(deployment) = applied.get(ChildKind::Deployment, &name).and_then(parse::<Deployment>) {
        let status = deployment.status.unwrap_or_default();
        return Workload {
            desired: deployment.spec.replicas.unwrap_or(1),
            updated: status.updated_replicas.unwrap_or(0),
            replicas: Some(status.replicas.unwrap_or(0)),
        };
    }
    Workload::default()
}

fn parse<T: DeserializeOwned>(object: &DynamicObject) -> Option<T> {
    serde_json::from_value(serde_json::to_value(object).ok()?).ok()
}

fn model_available(spec: &TierSpec, ready: i32, problems: &[terrace_crds::tier::Problem], facts: &Facts) -> Want {
    let Some(fleet) = &spec.backend.fleet else { return Want::not_applicable("ModelAvailable") };
    if let Some(problem) = problems.iter().find(|p| pods::MODEL.contains(&p.reason.as_str())) {
        return Want::no(
            "ModelAvailable",
            problem.reason.clone(),
            format!("on node {}: {}", problem.node, problem.message),
        );
    }
    if fleet.model.source.host_path.is_some() && facts.host_paths_forbidden && facts.pods.is_empty() {
        let message = "the namespace's Pod Security level forbids hostPath volumes: use http, image or claim, or label the namespace pod-security.kubernetes.io/enforce=privileged";
        return Want::no("ModelAvailable", "PodSecurityForbids", message);
    }
    if ready > 0 {
        Want::yes("ModelAvailable", "Loaded", "")
    } else {
        Want::unknown("ModelAvailable", "NoDevices", "no agent has loaded it yet")
    }
}

fn gpu_available(spec: &TierSpec, ready: i32, problems: &[terrace_crds::tier::Problem], facts: &Facts) -> Want {
    if spec.backend.fleet.as_ref().is_none_or(|f| f.gpu.is_none()) {
        return Want::not_applicable("GpuAvailable");
    }
    if let Some(problem) = problems.iter().find(|p| p.reason == "DriverUnusable") {
        return Want::no("GpuAvailable", "DriverUnusable", format!("on node {}: {}", problem.node, problem.message));
    }
    match &facts.gpu {
        Err((reason, message)) => Want::no("GpuAvailable", *reason, message.clone()),
        Ok(()) if ready > 0 => Want::yes("GpuAvailable", "InUse", ""),
        Ok(()) => Want::unknown("GpuAvailable", "NoDevices", "no agent has used it yet"),
    }
}

fn reachable(facts: &Facts) -> Want {
    let reports = &facts.reported.reach;
    if reports.is_empty() {
        return Want::unknown("Reachable", "NoReports", "no router has reported on it in the last 30 s");
    }
    match reports.iter().find(|(_, reason)| !reason.is_empty()) {
        None => Want::yes("Reachable", "Reachable", ""),
        Some((_, reason)) => {
            let affected = reports.iter().filter(|(_, r)| r == reason).count();
            Want::no("Reachable", reason.clone(), format!("{affected} of {} routers say so", reports.len()))
        }
    }
}

fn all_ready(
    accepted: &Want,
    credentials: &Want,
    gpu: &Want,
    reachable: &Want,
    devices: Option<&DeviceCounts>,
) -> Want {
    for condition in [accepted, credentials, gpu, reachable] {
        // What is not known yet keeps nothing from being ready; only what is known to be wrong does.
        if condition.fails() {
            return Want::no("Ready", condition.reason(), condition.message());
        }
    }
    match devices {
        None => Want::yes("Ready", "Endpoint", ""),
        Some(d) if d.desired == 0 => Want::no("Ready", "NoDevices", "no node is selected, or no replica is wanted"),
        Some(d) if d.ready == 0 => Want::no("Ready", "NoDevices", format!("none of {} agents is ready", d.desired)),
        Some(d) if d.ready < d.desired => Want::yes("Ready", "SomeDevices", format!("{} agents are ready", d.summary)),
        Some(_) => Want::yes("Ready", "AllDevices", ""),
    }
}

fn model_in_use(spec: &TierSpec, facts: &Facts, ready: i32, old: Option<&ModelInUse>) -> ModelInUse {
    let seen = facts.agents.first().map(|a| &a.model);
    let asked = spec.backend.fleet.as_ref().and_then(|f| f.model.sha256.as_ref()).map(|s| format!("sha256:{s}"));
    // Agents that this replica has not asked yet run what they ran.
    if let Some(old) = old.filter(|old| seen.is_none() && ready > 0 && old.name == spec.model_name())
        && asked.as_ref().is_none_or(|asked| *asked == old.digest)
    {
        return old.clone();
    }
    ModelInUse {
        name: spec.model_name().to_owned(),
        digest: seen.map(|m| m.digest.clone()).or(asked).unwrap_or_default(),
        parameters: seen.map(|m| m.parameters.clone()).unwrap_or_default(),
        format: seen.map(|m| m.format.clone()).unwrap_or_default(),
    }
}

fn digests(facts: &Facts, ready: i32, old: &TierStatus) -> Vec<DigestCount> {
    if facts.agents.is_empty() && ready > 0 {
        return old.rollout.as_ref().map(|r| r.digests.clone()).unwrap_or_default();
    }
    let mut counts = std::collections::BTreeMap::<&str, i32>::new();
    for agent in &facts.agents {
        *counts.entry(agent.model.digest.as_str()).or_default() += 1;
    }
    counts.into_iter().take(8).map(|(digest, devices)| DigestCount { digest: digest.to_owned(), devices }).collect()
}

fn observed(facts: &Facts, old: Option<&Observed>) -> Option<Observed> {
    let seen = &facts.reported;
    if seen.hour.attempts == 0 {
        return None;
    }
    let tokens = seen.hour.input_tokens + seen.hour.output_tokens;
    let heard = jiff::Timestamp::from_microsecond(i64::try_from(seen.heard_us).unwrap_or(i64::MAX)).ok();
    Some(Observed {
        requests_per_second: figures::rate(seen.recent.attempts as f64 / seen.recent_seconds),
        ttft: figures::quantiles(&seen.first_token),
        tokens_per_second: figures::rate(seen.recent.output_tokens as f64 / seen.recent_seconds),
        error_percent: figures::percent(seen.hour.failed_attempts, seen.hour.attempts),
        cost_per_1k: if tokens == 0 { String::new() } else { figures::money(seen.hour.cost_micros * 1000 / tokens) },
        last_report: heard.map(|at| steady(old.and_then(|o| o.last_report.as_ref()), at)),
    })
}
