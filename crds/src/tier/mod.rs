//! Tier: one rung of the fleet, a set of interchangeable places that serve one model inside one trust boundary.

mod endpoint;
mod fleet;
mod status;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use endpoint::{Endpoint, EndpointLimits};
pub use fleet::{
    Cache, Engine, EngineDevice, Fleet, Gpu, HostPath, HttpSource, ImageSource, Model, ModelClaim, ModelSource,
    Placement, Pull, Rollout, Variant,
};
pub use status::{Certificates, DeviceCounts, DigestCount, ModelInUse, Observed, Problem, RolloutState, TierStatus};

use crate::choice::choice;
use crate::sentence;
use crate::shared::{Allowed, Boundary, NamespacesFrom};
use crate::text::{Currency, Decimal, LabelKey, Money, Word};

/// One rung of the fleet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "terrace.dev",
    version = "v1alpha1",
    kind = "Tier",
    namespaced,
    shortname = "tr",
    category = "terrace",
    status = "TierStatus",
    derive = "PartialEq",
    doc = "One rung of the fleet: a set of interchangeable places that serve one model inside one trust boundary.",
    scale(
        spec_replicas_path = ".spec.backend.fleet.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    validation = Rule::new(crate::sentence::NAME_RULE).message(crate::sentence::NAME),
    printcolumn(name = "BOUNDARY", type_ = "string", json_path = ".spec.boundary"),
    printcolumn(name = "BACKEND", type_ = "string", json_path = ".status.backend"),
    printcolumn(name = "MODEL", type_ = "string", json_path = ".status.model.name"),
    printcolumn(name = "READY", type_ = "string", json_path = ".status.devices.summary"),
    printcolumn(name = "TTFT-P95", type_ = "string", json_path = ".status.observed.ttft.p95"),
    printcolumn(name = "TOK/S", type_ = "string", json_path = ".status.observed.tokensPerSecond"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "ERRORS", type_ = "string", json_path = ".status.observed.errorPercent", priority = 1),
    printcolumn(name = "COST/1K", type_ = "string", json_path = ".status.observed.costPer1k", priority = 1)
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.boundary == oldSelf.boundary").message(sentence::BOUNDARY_IMMUTABLE).field_path(".boundary"),
    validation = Rule::new("self.boundary != 'Device' || !has(self.backend.endpoint)").message(sentence::DEVICE_IS_FLEET).field_path(".boundary"),
    validation = Rule::new("self.boundary == 'Device' || !has(self.locality)").message(sentence::LOCALITY_IS_DEVICE).field_path(".locality"),
    validation = Rule::new("self.boundary != 'Public' || !has(self.backend.endpoint) || self.backend.endpoint.url.startsWith('https://')").message(sentence::PUBLIC_HTTPS).field_path(".backend.endpoint.url"),
    validation = Rule::new("!has(self.backend.endpoint) || self.allowedPolicies.namespaces.from == 'Same'").message(sentence::ENDPOINT_SAME).field_path(".allowedPolicies"),
)]
pub struct TierSpec {
    /// How far data travels to reach this tier. Cannot be changed. Device only with `backend.fleet`.
    pub boundary: Boundary,
    /// A Device tier with it serves only callers of its own topology domain; absent: the cluster is one site.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locality: Option<Locality>,
    /// Where the data is processed: for the egress ledger and residency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<Word>,
    /// By whom the data is processed: for the egress ledger.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub processor: Option<String>,
    /// Whose policies may use this tier.
    #[serde(default)]
    pub allowed_policies: Allowed,
    /// What answers: exactly one of fleet and endpoint. Cannot be switched.
    pub backend: Backend,
    /// What it costs; absent: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// What energy it takes; absent: not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy: Option<Energy>,
    /// What it can do.
    #[serde(default)]
    pub capability: Capability,
}

impl TierSpec {
    /// The model's name as clients see it; empty when the backend is neither fleet nor endpoint.
    pub fn model_name(&self) -> &str {
        match (&self.backend.fleet, &self.backend.endpoint) {
            (Some(fleet), _) => fleet.model.name.as_str(),
            (None, Some(endpoint)) => endpoint.model.as_str(),
            (None, None) => "",
        }
    }
}

/// Which callers a Device tier serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Locality {
    /// The node label whose value callers must share, such as `topology.kubernetes.io/zone`.
    pub topology_key: LabelKey,
}

/// What answers in a tier.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.fleet) != has(self.endpoint)").message(sentence::ONE_BACKEND),
    validation = Rule::new("has(self.fleet) == has(oldSelf.fleet)").message(sentence::BACKEND_IMMUTABLE),
)]
pub struct Backend {
    /// Agents that Terrace runs, one model on each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fleet: Option<Fleet>,
    /// Anything that speaks the OpenAI API: a cloud, vLLM, llama.cpp, Ollama.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<Endpoint>,
}

/// Price.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    /// ISO 4217 code. Tiers of one policy share one.
    pub currency: Currency,
    /// For a million prompt tokens.
    #[serde(default = "no_money")]
    pub per_million_input: Money,
    /// For a million output tokens.
    #[serde(default = "no_money")]
    pub per_million_output: Money,
    /// For an hour of one device.
    #[serde(default = "no_money")]
    pub per_device_hour: Money,
}

fn no_money() -> Money {
    "0".into()
}

/// Energy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Energy {
    /// Joules a prompt token.
    #[serde(default = "no_energy")]
    pub joules_per_input_token: Decimal,
    /// Joules an output token.
    #[serde(default = "no_energy")]
    pub joules_per_output_token: Decimal,
    /// Price of a kilowatt hour, in the currency of `cost`.
    #[serde(rename = "pricePerKWh", default = "no_money")]
    pub price_per_kwh: Money,
}

fn no_energy() -> Decimal {
    "0".into()
}

choice! {
    /// An ability that not every tier has.
    Feature => terrace_contract::tier::Feature {
        /// Tool calls.
        Tools,
        /// Image parts.
        Vision,
        /// Token log-probabilities.
        Logprobs,
        /// JSON Schema output.
        JsonSchema,
        /// Embeddings.
        Embeddings,
    }
}

/// What a tier can do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Capability {
    /// Optional abilities.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "set"))]
    pub features: Vec<Feature>,
    /// Prompt and answer together, in tokens; absent: `engine.contextTokens` of a fleet, 131072 for an endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub context_tokens: Option<i32>,
    /// How good its answers are, a prior until measured.
    #[serde(default)]
    pub quality: Quality,
}

/// How good answers are, 0 to 100.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Quality {
    /// For any task; absent: 50 for boundary Device, 65 for Private, 80 for Public.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub default: Option<i32>,
    /// For single tasks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["task"]))]
    pub tasks: Vec<TaskQuality>,
}

/// How good answers to one task are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskQuality {
    /// The task, such as `math`.
    pub task: Word,
    /// 0 to 100.
    #[schemars(range(min = 0, max = 100))]
    pub score: i32,
}

impl Tier {
    /// Whether a policy of `namespace` may use this tier, where that does not hang on namespace labels.
    /// None: it hangs on the labels of the policy's namespace (`from: Selector`).
    pub fn allows(&self, namespace: &str) -> Option<bool> {
        match self.spec.allowed_policies.namespaces.from {
            NamespacesFrom::Same => Some(self.metadata.namespace.as_deref() == Some(namespace)),
            NamespacesFrom::All => Some(true),
            NamespacesFrom::Selector => None,
        }
    }
}
