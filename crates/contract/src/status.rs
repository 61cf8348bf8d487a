//! What an agent says of itself: `GET /terrace/status`, and the message it leaves when it cannot start.

use serde::{Deserialize, Serialize};

use crate::load::Load;

/// `GET /terrace/status`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct AgentStatus {
    /// [`crate::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// UID of the pod; empty outside a cluster.
    pub pod_uid: String,
    /// The node; the host's name outside a cluster.
    pub node: String,
    /// The model.
    pub model: ModelStatus,
    /// What it runs on.
    pub device: DeviceStatus,
    /// Load now.
    pub load: Load,
    /// Whether it has stopped taking requests.
    pub draining: bool,
}

/// A loaded model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ModelStatus {
    /// The name clients use.
    pub name: String,
    /// `sha256:…` of the file.
    pub digest: String,
    /// For example `GGUF Q4_1`.
    pub format: String,
    /// For example `135M`.
    pub parameters: String,
    /// Prompt and answer together, in tokens.
    pub context_tokens: u32,
}

/// What a model runs on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DeviceStatus {
    /// `cpu`, `cuda` or `vulkan`.
    pub kind: String,
    /// For example `AVX2, 2 cores`.
    pub detail: String,
    /// Why it is the CPU, where `--device auto` found no GPU to use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
}

/// Why an agent ended before it was ready: the container's termination message, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Termination {
    /// A reason of [`AgentFailure`].
    pub reason: AgentFailure,
    /// A sentence that names the thing and the next step.
    pub message: String,
}

/// Why an agent cannot serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum AgentFailure {
    /// The file's SHA-256 is not the one asked for.
    DigestMismatch,
    /// The source has no such file.
    NotFound,
    /// No room for it.
    NoSpace,
    /// The source cannot be reached.
    Unreachable,
    /// The file is not a GGUF of a known architecture, or it is damaged.
    InvalidModel,
    /// The device asked for is not usable.
    DriverUnusable,
    /// The clock is outside the certificate's time.
    ClockSkew,
    /// Anything else about its configuration.
    InvalidConfiguration,
}
