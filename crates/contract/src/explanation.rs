//! What was decided of a request and why: the answer of a router's `/v1/explain`, and what `terrace explain` prints.
//!
//! Numbers, labels and names of tiers and nodes: never anything of what was asked or answered.

use serde::{Deserialize, Serialize};

use crate::policy::{OnMiss, Priority, Weights};
use crate::reason::Reason;
use crate::report::Outcome;
use crate::tier::Feature;
use crate::trust::{Boundary, Class};

/// A decision and what led to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// [`crate::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Id of the request; none: it was explained, not sent.
    pub request_id: Option<String>,
    /// When it was decided, microseconds since the Unix epoch; 0: from manifests, at no time.
    pub at_us: u64,
    /// `namespace/name` of the policy.
    pub policy: String,
    /// Revision of the snapshot.
    pub revision: String,
    /// What the request is.
    pub signals: Signals,
    /// The ladder, nearest first: what was ruled out, and how the rest compares.
    pub tiers: Vec<Rung>,
    /// The tier that suits the request best if all is well; none: constraints left none.
    pub decided: Option<String>,
    /// What is tried, in order; empty exactly when refused.
    pub attempts: Vec<Attempt>,
    /// Why nothing is tried.
    pub refusal: Option<Refused>,
    /// If that is since every permitted tier is full: what would come of waiting for room, with nobody before it.
    #[serde(default)]
    pub wait: Option<Forecast>,
    /// What became of it; none: it was not sent, or has not ended.
    pub became: Option<Became>,
}

/// What a request is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Signals {
    /// Tokens of the prompt, as counted here.
    pub prompt_tokens: u32,
    /// Tokens that the answer is expected to have.
    pub expected_output_tokens: u32,
    /// Tokens that it will most likely not exceed.
    pub likely_output_tokens: u32,
    /// The client's own limit; none: it set none.
    pub max_output_tokens: Option<u32>,
    /// How sensitive it is.
    pub class: Class,
    /// Why.
    pub class_reasons: Vec<Reason>,
    /// Abilities without which it cannot be answered.
    pub needs: Vec<Feature>,
    /// The model that was asked for: a tier's, or `auto`.
    pub model: String,
    /// The feature, as a budget names it, or `other`.
    pub feature: String,
    /// What is left of its budget; none: no budget covers the feature.
    pub budget: Option<Budget>,
    /// The chain of calls that it belongs to; none: it is a call of its own, or its budget has no chain.
    #[serde(default)]
    pub chain: Option<Chain>,
    /// Whether the caller's own preference stands for the policy's weights.
    pub preferred: bool,
    /// The weights that scores are made with.
    pub weights: Weights,
    /// Whether it is judged complex.
    pub complex: bool,
    /// What speaks for or against that: `long`, `hardTask`, `easyTask`, `steps`, `tools`.
    pub complexity: Vec<String>,
    /// Its task, as `capability.quality.tasks` names it; none: not recognised.
    pub task: Option<String>,
    /// The quality, 0-100, that it asks of a tier.
    pub floor: u8,
}

/// What a request may still take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// To its first token, microseconds.
    pub first_token_us: u64,
    /// To its end, microseconds.
    pub total_us: u64,
    /// What happens when the decided tier cannot make it.
    pub on_miss: OnMiss,
    /// Interactive goes before Batch.
    pub priority: Priority,
}

/// A chain of calls, as this one met it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Chain {
    /// Which call of the chain this is, from 1.
    pub hop: u32,
    /// Calls that it may make.
    pub max_hops: u32,
    /// Time that it has left, microseconds.
    pub left_us: u64,
    /// Time that it has in all, microseconds.
    pub total_us: u64,
    /// Name resolution, connecting and TLS of its earlier calls, microseconds.
    pub transport_us: u64,
    /// Whether this is a short structured call: the near tier is preferred for it.
    pub step: bool,
}

/// One tier of the ladder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Rung {
    /// Its name.
    pub name: String,
    /// Its boundary.
    pub boundary: Boundary,
    /// The model that it serves.
    pub model: String,
    /// Why it is not used, or is not used first; empty: nothing speaks against it.
    pub ruled_out: Vec<Reason>,
    /// Its devices; none: it is an endpoint.
    pub devices: Option<Devices>,
    /// How it compares with the others; none: constraints ruled it out.
    pub score: Option<Score>,
    /// What is forecast of it now; none: it is not up.
    pub forecast: Option<Forecast>,
    /// Expected price, micro-units; none: constraints ruled it out.
    pub cost_micros: Option<u64>,
}

/// Devices of a tier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Devices {
    /// All of them.
    pub count: u32,
    /// Those that were ruled out, by reason.
    pub ruled_out: Vec<DevicesOut>,
}

/// Devices that were ruled out for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DevicesOut {
    /// The reason.
    pub reason: Reason,
    /// How many.
    pub count: u32,
    /// Nodes of the first few.
    pub nodes: Vec<String>,
}

/// Parts of a score, each in 0..=1, and the totals by the weights.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Score {
    /// Whether the tier reaches the quality that the request asks for.
    pub able: bool,
    /// Quality.
    pub quality: f64,
    /// Latency as it is now.
    pub latency: f64,
    /// Cost.
    pub cost: f64,
    /// Privacy.
    pub privacy: f64,
    /// Availability as it is now.
    pub availability: f64,
    /// Total as it is now: the order of the alternatives.
    pub now: f64,
    /// Total with the tier idle and whole: it makes the decided tier.
    pub idle: f64,
}

/// Times from the decision on, microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Forecast {
    /// To the first token.
    pub first_token_us: u64,
    /// To the end.
    pub finish_us: u64,
}

/// One thing to try.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// The tier.
    pub tier: String,
    /// Nodes of its devices, in order; empty for an endpoint.
    pub nodes: Vec<String>,
    /// Why here.
    pub reasons: Vec<Reason>,
    /// Farther than the tier decided.
    pub overflow: bool,
    /// Nearer than the tier decided: the answer is marked.
    pub degraded: bool,
    /// Only when the attempts before it failed, not when they were merely full.
    pub only_after_failure: bool,
    /// Tried although it is believed to be down, since nothing else is left.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub insists: bool,
    /// What is forecast of its first device, or of the endpoint.
    pub forecast: Forecast,
    /// Expected price, micro-units.
    pub cost_micros: u64,
}

/// Why nothing is tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Refused {
    /// The stable code of the error.
    pub code: String,
    /// Its sentence.
    pub message: String,
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Became {
    /// How it ended.
    pub outcome: Outcome,
    /// The tier that answered; none: none did.
    pub tier: Option<String>,
    /// Reasons of the answer or the error: what failed on the way is among them.
    pub reasons: Vec<Reason>,
    /// From its arrival to its first token, microseconds; none: there was none.
    pub first_token_us: Option<u64>,
    /// From its arrival to its end, microseconds.
    pub total_us: u64,
}
