//! A Tier as the router sees it, and the devices of a fleet.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::trust::Boundary;

/// A compiled Tier.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Tier {
    /// The object's UID: clearances and connection pools are keyed by it.
    pub uid: String,
    /// The object's generation when it was compiled.
    pub generation: i64,
    /// Name of the object.
    pub name: String,
    /// Namespace of the object.
    pub namespace: String,
    /// How far data travels to reach it.
    pub boundary: Boundary,
    /// A Device tier serves only routers of its own domain, by this node label; none: one site.
    pub topology_key: Option<String>,
    /// Where the data is processed.
    pub region: String,
    /// By whom.
    pub processor: String,
    /// What answers.
    pub backend: Backend,
    /// Price.
    pub cost: Cost,
    /// Energy.
    pub energy: Energy,
    /// What it can do.
    pub capability: Capability,
}

/// What answers in a tier.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Backend {
    /// Edge agents.
    Fleet(Fleet),
    /// Anything that speaks the OpenAI API.
    Endpoint(Endpoint),
}

impl Backend {
    /// The model's name as clients and upstream see it.
    pub fn model(&self) -> &str {
        match self {
            Backend::Fleet(f) => &f.model,
            Backend::Endpoint(e) => &e.model,
        }
    }
}

/// Edge agents of one tier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Fleet {
    /// The model's name.
    pub model: String,
    /// Sequences that one agent runs at once.
    pub max_sequences: u32,
    /// DNS name of the headless Service, used when a snapshot has no devices.
    pub service: String,
    /// Port of the agents.
    pub port: u16,
    /// The URI SAN that an agent of this tier carries.
    pub server_name: String,
}

/// An OpenAI-compatible endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// Base URL, as an SDK takes it: `https://api.example.com/v1`.
    pub url: String,
    /// The model's name at the endpoint.
    pub model: String,
    /// File name under `/etc/terrace/credentials/<tier uid>/`; none: no credential is sent.
    pub credential: Option<String>,
    /// File name of its certificate authority beside the credential; none: the public ones.
    pub ca_certificate: Option<String>,
    /// With boundary Private: every resolved address is inside one of these.
    pub allowed_cidrs: Vec<String>,
    /// Request fields beyond OpenAI's that may be forwarded.
    pub extra_fields: Vec<String>,
    /// What the endpoint grants.
    pub limits: EndpointLimits,
}

/// What an endpoint grants; none: no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct EndpointLimits {
    /// Requests in flight.
    pub concurrency: Option<u32>,
    /// Requests a minute.
    pub requests_per_minute: Option<u32>,
    /// Tokens a minute, in and out.
    pub tokens_per_minute: Option<u32>,
}

/// Price in micro-units.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    /// ISO 4217 code; empty when the tier has no price.
    pub currency: String,
    /// Micro-units for a million prompt tokens.
    pub per_million_input_micros: u64,
    /// Micro-units for a million output tokens.
    pub per_million_output_micros: u64,
    /// Micro-units for an hour of one device.
    pub per_device_hour_micros: u64,
}

/// Energy, in microjoules and micro-units.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Energy {
    /// Microjoules a prompt token.
    pub microjoules_per_input_token: u64,
    /// Microjoules an output token.
    pub microjoules_per_output_token: u64,
    /// Micro-units a kWh.
    pub price_per_kwh_micros: u64,
}

/// What a tier can do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Capability {
    /// Optional abilities.
    pub features: Vec<Feature>,
    /// Prompt and answer together.
    pub context_tokens: u32,
    /// 0-100, a prior until measured.
    pub quality: u8,
    /// Quality by task.
    pub tasks: Vec<TaskQuality>,
}

/// An ability that not every tier has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Feature {
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

/// Quality at one task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TaskQuality {
    /// The task.
    pub task: String,
    /// 0-100.
    pub score: u8,
}

/// One place in a fleet tier that can take a request: one agent pod on one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Device {
    /// UID of its tier.
    pub tier: String,
    /// UID of its pod: counters are keyed by it.
    pub pod_uid: String,
    /// Name of its pod.
    pub pod: String,
    /// Its node.
    pub node: String,
    /// The node's topology domain; empty: unknown.
    pub domain: String,
    /// IP address.
    pub address: String,
    /// Port.
    pub port: u16,
    /// The URI SAN that it must show.
    pub server_name: String,
    /// Whether the pod is ready.
    pub ready: bool,
}

impl Device {
    /// A ready agent that is a process and no pod: its name stands for its pod and its node.
    pub fn process(tier: &str, name: &str, address: SocketAddr, server_name: String) -> Self {
        Self {
            tier: tier.to_owned(),
            pod_uid: name.to_owned(),
            pod: name.to_owned(),
            node: name.to_owned(),
            domain: String::new(),
            address: address.ip().to_string(),
            port: address.port(),
            server_name,
            ready: true,
        }
    }
}
