//! What the pods of a tier say is wrong. Pure.

use k8s_openapi::api::core::v1::{ContainerState, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use terrace_contract::status::{AgentFailure, Termination};
use terrace_crds::tier::Problem;

use crate::snapshot::ready;

/// Reasons that concern the model.
pub const MODEL: [&str; 5] = ["DigestMismatch", "NotFound", "NoSpace", "Unreachable", "InvalidModel"];

/// What keeps one pod from serving; none: it serves, or it only just began.
pub fn problem(pod: &Pod) -> Option<Problem> {
    if ready(pod) || pod.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let status = pod.status.as_ref()?;
    let node = pod.spec.as_ref().and_then(|s| s.node_name.clone()).unwrap_or_default();
    let make = |reason: &str, message: String, since: Option<Time>| {
        Some(Problem { node: node.clone(), reason: reason.to_owned(), message: short(message), since })
    };
    for container in status.container_statuses.iter().flatten() {
        let states = [container.state.as_ref(), container.last_state.as_ref()];
        for ended in states.into_iter().flatten().filter_map(|s: &ContainerState| s.terminated.as_ref()) {
            let said = ended.message.as_deref().and_then(|m| serde_json::from_str::<Termination>(m).ok());
            if let Some(said) = said {
                return make(name(said.reason), said.message, ended.finished_at.clone());
            }
            if ended.reason.as_deref() == Some("OOMKilled") {
                let message = "the agent used more memory than its limit: raise spec.backend.fleet.placement.resources.limits.memory";
                return make("OOMKilled", message.into(), ended.finished_at.clone());
            }
        }
        let waiting = container.state.as_ref().and_then(|s| s.waiting.as_ref());
        if let Some(waiting) = waiting
            && let Some(reason) = waiting.reason.as_deref()
            && !matches!(reason, "ContainerCreating" | "PodInitializing")
        {
            return make(reason, waiting.message.clone().unwrap_or_default(), None);
        }
    }
    let conditions = status.conditions.as_deref().unwrap_or_default();
    let unscheduled = conditions.iter().find(|c| c.type_ == "PodScheduled" && c.status == "False")?;
    make("Unschedulable", unscheduled.message.clone().unwrap_or_default(), unscheduled.last_transition_time.clone())
}

/// All problems of a tier, worst (its model's) first, at most ten.
pub fn problems<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> Vec<Problem> {
    let mut problems: Vec<(String, Problem)> =
        pods.into_iter().filter_map(|pod| Some((pod.name_any(), problem(pod)?))).collect();
    problems.sort_by_key(|(pod, p)| (!MODEL.contains(&p.reason.as_str()), p.node.clone(), pod.clone()));
    problems.into_iter().map(|(_, problem)| problem).take(10).collect()
}

fn name(reason: AgentFailure) -> &'static str {
    match reason {
        AgentFailure::DigestMismatch => "DigestMismatch",
        AgentFailure::NotFound => "NotFound",
        AgentFailure::NoSpace => "NoSpace",
        AgentFailure::Unreachable => "Unreachable",
        AgentFailure::InvalidModel => "InvalidModel",
        AgentFailure::DriverUnusable => "DriverUnusable",
        AgentFailure::ClockSkew => "ClockSkew",
        AgentFailure::InvalidConfiguration => "InvalidConfiguration",
    }
}

fn short(mut message: String) -> String {
    if let Some((end, _)) = message.char_indices().nth(500) {
        message.truncate(end);
    }
    message
}
