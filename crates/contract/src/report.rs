//! What a router tells the operator every 5 s: cumulative since its start, so that a lost one costs only freshness.

use serde::{Deserialize, Serialize};

use crate::sketch::Sketch;
use crate::spent::Spent;
use crate::trust::Class;

/// `POST /v1/reports`; the answer is [`crate::spent::Taken`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// [`crate::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// UID of the policy.
    pub policy_uid: String,
    /// UID of the router's pod.
    pub router_uid: String,
    /// Name of the router's pod.
    pub router: String,
    /// Revision in use; empty: none yet.
    pub revision: String,
    /// Why the newest snapshot was refused; none: it is in use.
    pub refused: Option<String>,
    /// When the router started, microseconds since the Unix epoch: counters begin there.
    pub started_at_us: u64,
    /// When this was written.
    pub sent_at_us: u64,
    /// Requests by what became of them.
    pub counts: Vec<Count>,
    /// Latency by tier and feature.
    pub latency: Vec<Latency>,
    /// Use by tier.
    pub usage: Vec<Usage>,
    /// Reachability by tier.
    pub reachability: Vec<Reachability>,
    /// The egress ledger.
    pub ledger: Option<Ledger>,
    /// What is known here of the day's spend, of this router and of others.
    #[serde(default)]
    pub spent: Spent,
}

/// Requests with the same fate. `tier` is empty when none answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Count {
    /// UID of the tier that answered.
    pub tier: String,
    /// Feature.
    pub feature: String,
    /// Class.
    pub class: Class,
    /// What became of it.
    pub outcome: Outcome,
    /// The reason code that says most about it.
    pub reason: String,
    /// Why the class was forced up; empty: it was not.
    pub forced: String,
    /// How many.
    pub requests: u64,
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Outcome {
    /// Answered by the tier decided.
    Served,
    /// Answered by a tier further out, because a nearer one could not in time.
    Overflowed,
    /// Answered by a tier further out, because a nearer answer was not good enough.
    Escalated,
    /// Answered by a nearer tier than the one decided.
    Degraded,
    /// The caller's own mistake.
    Invalid,
    /// Its class permits no tier.
    Denied,
    /// Permitted tiers cannot answer now.
    Unavailable,
    /// Every permitted attempt failed.
    Failed,
    /// The client went away.
    Cancelled,
}

/// Latency of one tier and feature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Latency {
    /// UID of the tier.
    pub tier: String,
    /// Feature.
    pub feature: String,
    /// Time to the first token.
    pub first_token: Sketch,
    /// Time to the end.
    pub total: Sketch,
    /// Part of it spent on DNS, connect, TLS and the wire.
    pub transport: Sketch,
    /// Requests that met their budget.
    pub met: u64,
    /// Requests that had one.
    pub budgeted: u64,
}

/// Use of one tier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// UID of the tier.
    pub tier: String,
    /// Prompt tokens.
    pub input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// Micro-units.
    pub cost_micros: u64,
    /// Attempts that failed.
    pub failed_attempts: u64,
    /// Attempts.
    pub attempts: u64,
}

/// Whether a tier can be reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Reachability {
    /// UID of the tier.
    pub tier: String,
    /// Empty: reachable; else a reason of the condition `Reachable`.
    pub reason: String,
    /// Devices that are saturated.
    pub saturated: u32,
}

/// State of the egress ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Ledger {
    /// When it was last written.
    pub last_write_us: u64,
    /// Room left.
    pub free_bytes: u64,
    /// Records that could not be written.
    pub failures: u64,
}
