//! What the operator says of a Tier.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::shared::Quantiles;

/// What the operator says of a Tier.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TierStatus {
    /// The generation that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Accepted, FieldsActive, ModelAvailable, GpuAvailable, CredentialsResolved, Reachable, Ready.
    #[serde(default)]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// `DaemonSet`, `Deployment` or `Endpoint`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 32))]
    pub backend: String,
    /// Agents that there are: for the scale subresource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Label selector of the agents: for the scale subresource.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub selector: Option<String>,
    /// Devices, counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub devices: Option<DeviceCounts>,
    /// What is wrong on which node, worst first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10), extend("x-kubernetes-list-type" = "atomic"))]
    pub problems: Vec<Problem>,
    /// How far a change has come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutState>,
    /// The agents' certificates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificates: Option<Certificates>,
    /// The model in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelInUse>,
    /// What the routers saw.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed: Option<Observed>,
}

/// Devices, counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeviceCounts {
    /// That there should be.
    pub desired: i32,
    /// That take requests.
    pub ready: i32,
    /// That are full.
    pub saturated: i32,
    /// For people: `3/3`.
    #[schemars(length(max = 32))]
    pub summary: String,
}

/// What is wrong on one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// The node.
    #[schemars(length(max = 253))]
    pub node: String,
    /// A reason of the conditions ModelAvailable, GpuAvailable or Reachable.
    #[schemars(length(max = 64))]
    pub reason: String,
    /// A sentence that names the thing and the next step.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub message: String,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
}

/// How far a change has come.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutState {
    /// Agents of the newest form.
    pub updated: i32,
    /// Devices by the digest they run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["digest"]))]
    pub digests: Vec<DigestCount>,
}

/// Devices with one digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DigestCount {
    /// `sha256:…`
    #[schemars(length(max = 80))]
    pub digest: String,
    /// How many devices run it.
    pub devices: i32,
}

/// The agents' certificates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Certificates {
    /// When the current leaf ends.
    pub not_after: Time,
}

/// The model in use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelInUse {
    /// The name that clients see.
    #[schemars(length(max = 96))]
    pub name: String,
    /// `sha256:…`; empty: not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 80))]
    pub digest: String,
    /// For example `135M`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 16))]
    pub parameters: String,
    /// For example `GGUF Q4_1`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 32))]
    pub format: String,
}

/// What the routers saw, over the last hour.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Observed {
    /// Requests a second.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 32))]
    pub requests_per_second: String,
    /// Time to the first token.
    #[serde(default)]
    pub ttft: Quantiles,
    /// Output tokens a second.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 32))]
    pub tokens_per_second: String,
    /// Attempts that failed, in percent.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 32))]
    pub error_percent: String,
    /// Cost of a thousand tokens.
    #[serde(rename = "costPer1k", default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 32))]
    pub cost_per_1k: String,
    /// When a router last reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_report: Option<Time>,
}
