//! Who may call a policy, and over what.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::shared::{SecretObject, SecretRef};
use crate::text::{ModelName, SecretKey};

/// Who may call: exactly one. It has no default: whoever runs the fleet says it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Access {
    /// Callers with a key of a Secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_keys: Option<ApiKeys>,
    /// Everyone who reaches the Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anonymous: Option<Anonymous>,
}

impl Access {
    /// Whether nothing is said: such a policy is refused. It also keeps an empty value out of the schema's defaults.
    pub fn is_empty(&self) -> bool {
        self.api_keys.is_none() && self.anonymous.is_none()
    }
}

/// Everyone who reaches the Service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Anonymous {}

/// Callers with a key of a Secret. An entry's name is the caller's, its value the key or `sha256:<hex>` of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiKeys {
    /// The Secret in the policy's namespace.
    pub secret_ref: SecretRef,
    /// What single callers may do. A key without an entry here is accepted without limits of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub keys: Vec<KeyRule>,
}

/// What one caller may do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyRule {
    /// The entry of the Secret: the caller's name.
    pub name: SecretKey,
    /// Requests a minute over all routers; absent: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000_000))]
    pub requests_per_minute: Option<i32>,
    /// Tokens a minute over all routers, of prompts and answers together; absent: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub tokens_per_minute: Option<i32>,
    /// Model names that this caller may ask for, `auto` among them; absent: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "set"))]
    pub models: Vec<ModelName>,
    /// Whether this caller's label may go below `sensitivity.unlabelled`, never below the detector.
    #[serde(default)]
    pub trust_label: bool,
}

/// The client port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Listener {
    /// Its certificate: a Secret of type `kubernetes.io/tls`.
    pub tls: SecretObject,
}
