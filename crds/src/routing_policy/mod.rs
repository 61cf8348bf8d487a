//! RoutingPolicy: a ladder of tiers, and the router pods that walk it.

mod access;
mod routing;
mod sensitivity;
mod status;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use access::{Access, Anonymous, ApiKeys, KeyRule, Listener};
pub use routing::{
    Cascade, CascadeMode, Complexity, ComplexityMode, ComplexityRules, Degrade, DegradeMode, Hedge, HedgeMode,
    Learning, LearningMode, Objective, Overflow, OverflowMode, Preset, Selection, Strategy, Weights,
};
pub use sensitivity::{Anonymise, Boundaries, Consent, Detector, Entity, Residency, Sensitivity};
pub use status::{
    ClassShare, Denied, Drift, DriftState, Forced, LedgerState, RouterState, RoutingPolicyStatus, Spend, StuckRouter,
    TierTraffic,
};

use crate::choice::choice;
use crate::sentence;
use crate::shared::{Allowed, ObjectRef, Resources, Storage, Workload};
use crate::text::{Bytes, Duration, Money};

/// A ladder, and the router pods that walk it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "terrace.dev",
    version = "v1alpha1",
    kind = "RoutingPolicy",
    plural = "routingpolicies",
    namespaced,
    shortname = "rp",
    category = "terrace",
    status = "RoutingPolicyStatus",
    derive = "PartialEq",
    doc = "A ladder of tiers, and the router pods that walk it.",
    validation = Rule::new(crate::sentence::NAME_RULE).message(crate::sentence::NAME),
    printcolumn(name = "LADDER", type_ = "string", json_path = ".status.ladder"),
    printcolumn(name = "READY", type_ = "string", json_path = ".status.routers.summary"),
    printcolumn(name = "LOCAL%", type_ = "integer", json_path = ".status.localPercent"),
    printcolumn(name = "OVERFLOW%", type_ = "integer", json_path = ".status.overflowPercent"),
    printcolumn(name = "SPEND/H", type_ = "string", json_path = ".status.spend.hour"),
    printcolumn(name = "DRIFT", type_ = "string", json_path = ".status.drift.state"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.access) && has(self.access.apiKeys) != has(self.access.anonymous)").message(sentence::ACCESS).field_path(".access"),
    validation = Rule::new("has(self.sensitivity) && has(self.sensitivity.unlabelled)").message(sentence::UNLABELLED).field_path(".sensitivity"),
)]
pub struct RoutingPolicySpec {
    /// The ladder, nearest tier first. Boundaries never shrink along it.
    #[schemars(length(min = 1, max = 16))]
    #[x_kube(
        merge_strategy = ListMerge::Atomic,
        validation = Rule::new("self.all(x, self.exists_one(y, y.name == x.name && has(y.__namespace__) == has(x.__namespace__) && (!has(x.__namespace__) || y.__namespace__ == x.__namespace__)))").message(sentence::TIER_TWICE)
    )]
    pub tiers: Vec<ObjectRef>,
    /// What is weighed against what among the tiers that may, can and are quick enough; absent: preset Balanced.
    #[serde(default, skip_serializing_if = "Objective::is_usual")]
    pub objective: Objective,
    /// Who may call: required.
    #[serde(default, skip_serializing_if = "Access::is_empty")]
    pub access: Access,
    /// Whose pods may reach the Service.
    #[serde(default)]
    pub clients: Allowed,
    /// TLS of the client port; absent: plain HTTP inside the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listener: Option<Listener>,
    /// How sensitive requests are, and where each class may go: required.
    #[serde(default, skip_serializing_if = "Sensitivity::is_unsaid")]
    pub sensitivity: Sensitivity,
    /// How a request is judged to need a more able tier.
    #[serde(default)]
    pub complexity: Complexity,
    /// How a near answer is checked before it is kept.
    #[serde(default)]
    pub cascade: Cascade,
    /// How a device of a tier is picked.
    #[serde(default)]
    pub selection: Selection,
    /// When a tier is left because it cannot answer in time.
    #[serde(default)]
    pub overflow: Overflow,
    /// What happens when a wider tier was decided but fails.
    #[serde(default)]
    pub degrade: Degrade,
    /// What is learned from traffic.
    #[serde(default)]
    pub learning: Learning,
    /// The record of what crossed which boundary.
    #[serde(default)]
    pub egress_ledger: EgressLedger,
    /// Limits of the whole policy.
    #[serde(default)]
    pub limits: Limits,
    /// The router pods.
    #[serde(default)]
    pub router: Router,
}

choice! {
    /// What happens when an egress record cannot be written.
    #[derive(Default)]
    OnWriteFailure => terrace_contract::policy::OnWriteFailure {
        /// The crossing does not happen.
        #[default]
        Deny,
        /// It happens, and the gap is counted.
        Allow,
    }
}

/// The record of what crossed which boundary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EgressLedger {
    /// Where it is kept; absent: in a volume that lives as long as the pod.
    #[serde(default, skip_serializing_if = "Storage::is_usual")]
    pub storage: Storage,
    /// What happens when a record cannot be written.
    #[serde(default)]
    pub on_write_failure: OnWriteFailure,
    /// How long records are kept.
    #[serde(default = "retention")]
    pub retention: Duration,
}

fn retention() -> Duration {
    "2160h".into()
}

impl Default for EgressLedger {
    fn default() -> Self {
        Self { storage: Storage::default(), on_write_failure: OnWriteFailure::default(), retention: retention() }
    }
}

/// Limits of the whole policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// Size of a request's body.
    #[serde(default = "request_bytes")]
    pub request_bytes: Bytes,
    /// Output tokens that a request may ask for.
    #[serde(default = "max_output_tokens")]
    #[schemars(range(min = 1, max = 1_048_576))]
    pub max_output_tokens: i32,
    /// Requests in flight over all routers.
    #[serde(default = "concurrency")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub concurrency: i32,
    /// Money a day, in the currency of the tiers; absent: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spend_per_day: Option<Money>,
}

fn request_bytes() -> Bytes {
    "1Mi".into()
}

fn max_output_tokens() -> i32 {
    4096
}

fn concurrency() -> i32 {
    512
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request_bytes: request_bytes(),
            max_output_tokens: max_output_tokens(),
            concurrency: concurrency(),
            spend_per_day: None,
        }
    }
}

choice! {
    /// Which routers a client's connection may go to.
    #[derive(Default)]
    TrafficPolicy {
        /// Any.
        #[default]
        Cluster,
        /// The one on the client's own node.
        Local,
    }
}

/// The router pods.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.workload == 'Deployment' || !has(self.replicas)").message(sentence::REPLICAS).field_path(".replicas"),
    validation = Rule::new("self.trafficPolicy == 'Cluster' || self.workload == 'DaemonSet'").message(sentence::TRAFFIC_LOCAL).field_path(".trafficPolicy"),
)]
pub struct Router {
    /// DaemonSet: one on each node, so that each site has its own.
    #[serde(default)]
    pub workload: Workload,
    /// Routers of a Deployment; absent: 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub replicas: Option<i32>,
    /// Which routers a client's connection may go to.
    #[serde(default)]
    pub traffic_policy: TrafficPolicy,
    /// What each router is given and may use.
    #[serde(default)]
    pub resources: Resources,
    /// Traces.
    #[serde(default)]
    pub tracing: Tracing,
}

impl Router {
    /// Routers of a Deployment when the policy does not say.
    pub const DEFAULT_REPLICAS: i32 = 2;
}

/// Traces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tracing {
    /// Share of the traces that are kept; errors, overflows and escalations always are.
    #[serde(default = "all")]
    #[schemars(range(min = 0, max = 100))]
    pub sample_percent: i32,
}

fn all() -> i32 {
    100
}

impl Default for Tracing {
    fn default() -> Self {
        Self { sample_percent: all() }
    }
}
