//! What the operator says of a RoutingPolicy.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::choice::choice;
use crate::shared::Class;

/// What the operator says of a RoutingPolicy. Traffic is that of the last hour, folded from the routers' reports.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoutingPolicyStatus {
    /// The generation that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Accepted, FieldsActive, ResolvedRefs, Programmed, Reporting, Ready, Drifting.
    #[serde(default)]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// For people: `edge>private>cloud`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1100))]
    pub ladder: String,
    /// The routers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routers: Option<RouterState>,
    /// Share of each tier.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub traffic: Vec<TierTraffic>,
    /// Share of each class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4), extend("x-kubernetes-list-type" = "atomic"))]
    pub classes: Vec<ClassShare>,
    /// Requests that no permitted tier could take.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "atomic"))]
    pub denied: Vec<Denied>,
    /// Share that was served at boundary Device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_percent: Option<i32>,
    /// Share that left a tier because its answer was not good enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub escalation_percent: Option<i32>,
    /// Share that left a tier because it could not answer in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overflow_percent: Option<i32>,
    /// How far traffic has moved from what was learned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift: Option<Drift>,
    /// Money.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spend: Option<Spend>,
    /// The egress ledger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ledger: Option<LedgerState>,
}

/// The routers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RouterState {
    /// That there should be.
    pub desired: i32,
    /// That serve.
    pub ready: i32,
    /// For people: `2/2`.
    #[schemars(length(max = 32))]
    pub summary: String,
    /// The snapshot that they should run.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    pub revision: String,
    /// Those that do not, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10), extend("x-kubernetes-list-type" = "atomic"))]
    pub stuck: Vec<StuckRouter>,
    /// When one last reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_report: Option<Time>,
}

/// A router that does not run the newest snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StuckRouter {
    /// Its pod.
    #[schemars(length(max = 253))]
    pub pod: String,
    /// Such as `SnapshotRefused`.
    #[schemars(length(max = 64))]
    pub reason: String,
    /// A sentence about it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub message: String,
}

/// Share of one tier.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TierTraffic {
    /// The tier; `namespace/name` where it is another namespace's.
    #[schemars(length(max = 320))]
    pub tier: String,
    /// Its share of the answers.
    pub percent: i32,
    /// 95th percentile of its time to the first token.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 32))]
    pub ttft_p95: String,
    /// Cost of a thousand tokens.
    #[serde(rename = "costPer1k", default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 32))]
    pub cost_per_1k: String,
}

/// Share of one class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClassShare {
    /// The class.
    pub class: Class,
    /// Its share of the requests, in percent.
    #[schemars(length(max = 32))]
    pub percent: String,
    /// Requests that were put into it because their content could not be judged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "atomic"))]
    pub forced: Vec<Forced>,
}

/// Requests that were put into a class because their content could not be judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Forced {
    /// Why, such as `DetectorTimeout`.
    #[schemars(length(max = 64))]
    pub reason: String,
    /// Their share of the requests, in percent.
    #[schemars(length(max = 32))]
    pub percent: String,
}

/// Requests that no permitted tier could take.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Denied {
    /// Their class.
    pub class: Class,
    /// Why, such as `NoFeasibleDevice`.
    #[schemars(length(max = 64))]
    pub reason: String,
    /// How many.
    pub count: i64,
    /// When the last one came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<Time>,
}

choice! {
    /// Whether traffic has moved.
    DriftState {
        /// It has not.
        Stable,
        /// It has.
        Drifting,
    }
}

/// How far traffic has moved from what was learned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Drift {
    /// Population stability index of the scores.
    #[schemars(length(max = 32))]
    pub score: String,
    /// What that means.
    pub state: DriftState,
}

/// Money.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Spend {
    /// ISO 4217 code.
    #[schemars(length(max = 3))]
    pub currency: String,
    /// Of the last hour.
    #[schemars(length(max = 32))]
    pub hour: String,
    /// Of a month like the last hours.
    #[schemars(length(max = 32))]
    pub projected_month: String,
}

/// The egress ledger.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LedgerState {
    /// When it was last written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_write: Option<Time>,
    /// Room left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<i64>,
}
