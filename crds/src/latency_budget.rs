//! LatencyBudget: what a feature of a policy may take.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use terrace_contract::policy;

use crate::choice::choice;
use crate::sentence;
use crate::shared::Quantiles;
use crate::text::{Duration, ObjectName, Objective, Word};

/// What a feature may take.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "terrace.dev",
    version = "v1alpha1",
    kind = "LatencyBudget",
    namespaced,
    shortname = "lb",
    category = "terrace",
    status = "LatencyBudgetStatus",
    derive = "PartialEq",
    doc = "What a feature of a policy may take: time to the first token, time to the end, and how often.",
    validation = Rule::new(crate::sentence::NAME_RULE).message(crate::sentence::NAME),
    printcolumn(name = "POLICY", type_ = "string", json_path = ".spec.policyRef.name"),
    printcolumn(name = "FIRST-TOKEN", type_ = "string", json_path = ".spec.firstToken"),
    printcolumn(name = "OBJECTIVE", type_ = "string", json_path = ".spec.objective"),
    printcolumn(name = "ATTAINED", type_ = "string", json_path = ".status.observed.attainment"),
    printcolumn(name = "BURN-1H", type_ = "string", json_path = ".status.burnRates[?(@.window==\"1h\")].rate"),
    printcolumn(name = "MET", type_ = "string", json_path = ".status.conditions[?(@.type==\"Met\")].status"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!self.firstToken.matches('^([0-9.]+[a-z]+)+$') || !self.total.matches('^([0-9.]+[a-z]+)+$') || duration(self.firstToken) <= duration(self.total)").message(sentence::FIRST_TOKEN).field_path(".firstToken"),
)]
pub struct LatencyBudgetSpec {
    /// The policy, in the same namespace.
    pub policy_ref: PolicyRef,
    /// Features that it covers: header `x-terrace-feature`, or `metadata.feature`. One budget of a policy may list
    /// none: the default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "set"))]
    pub features: Vec<Word>,
    /// Time to the first token.
    pub first_token: Duration,
    /// Time to the end of the answer.
    pub total: Duration,
    /// Share of the requests that must meet it, in percent, below 100.
    #[serde(default = "objective")]
    pub objective: Objective,
    /// The window of the objective.
    #[serde(default = "window")]
    pub window: Duration,
    /// What happens when the decided tier cannot make it.
    #[serde(default)]
    pub on_miss: OnMiss,
    /// Who yields under load.
    #[serde(default)]
    pub priority: Priority,
    /// A chain of calls that shares this budget; absent: each call on its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain: Option<Chain>,
}

fn objective() -> Objective {
    "99".into()
}

fn window() -> Duration {
    "720h".into()
}

/// A policy of the same namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyRef {
    /// Its name.
    pub name: ObjectName,
}

choice! {
    /// What happens when the decided tier cannot make the budget.
    #[derive(Default)]
    OnMiss => policy::OnMiss {
        /// The next permitted tier is tried.
        #[default]
        Overflow,
        /// The answer comes late or from a nearer tier, marked.
        Degrade,
        /// The request is refused at once with 504.
        Reject,
    }
}

choice! {
    /// Who yields under load.
    #[derive(Default)]
    Priority => policy::Priority {
        /// Someone waits.
        #[default]
        Interactive,
        /// Nobody waits: yields to Interactive.
        Batch,
    }
}

/// A chain of calls (an agent's) that shares one budget; `x-terrace-session` names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Chain {
    /// Calls at most; one that is refused is none.
    #[serde(default = "max_hops")]
    #[schemars(range(min = 1, max = 1000))]
    pub max_hops: i32,
    /// Time of the whole chain, from its first call on.
    pub total: Duration,
}

fn max_hops() -> i32 {
    12
}

/// What the operator says of a LatencyBudget.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LatencyBudgetStatus {
    /// The generation that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Accepted, FieldsActive, ResolvedRefs, Met.
    #[serde(default)]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// What the routers saw in the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed: Option<BudgetObserved>,
    /// How fast the allowed misses are used up; 1: exactly at the end of the window.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["window"]))]
    pub burn_rates: Vec<BurnRate>,
}

/// What the routers saw in the window.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BudgetObserved {
    /// Requests.
    pub samples: i64,
    /// Share that met the budget, in percent.
    #[schemars(length(max = 32))]
    pub attainment: String,
    /// Time to the first token.
    #[serde(default)]
    pub first_token: Quantiles,
    /// Part of the time that went to DNS, connect, TLS and the wire, in percent.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 32))]
    pub transport_tax: String,
}

/// How fast the allowed misses are used up in one window.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BurnRate {
    /// The window, such as `1h`.
    #[schemars(length(max = 16))]
    pub window: String,
    /// The rate.
    #[schemars(length(max = 32))]
    pub rate: String,
}
