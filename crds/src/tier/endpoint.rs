//! A tier's endpoint: anything that speaks the OpenAI API.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::sentence;
use crate::shared::SecretSource;
use crate::text::{Cidr, FieldName, ModelName, Url};

/// Anything that speaks the OpenAI API: a cloud, vLLM, llama.cpp, Ollama.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// Base URL as an SDK takes it, such as `https://api.example.com/v1`.
    pub url: Url,
    /// The model's name at the endpoint; never `auto`.
    #[x_kube(validation = Rule::new("self != 'auto'").message(sentence::MODEL_AUTO))]
    pub model: ModelName,
    /// The bearer token that is sent; absent: none. The Secret must carry the annotation `terrace.dev/allowed-hosts`
    /// with the URL's host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials: Option<SecretSource>,
    /// The certificate authority of the endpoint; absent: the public ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_certificate: Option<SecretSource>,
    /// With boundary Private: every address that the URL's host resolves to must be inside one of these; absent:
    /// RFC 1918, unique local addresses and 100.64.0.0/10.
    #[serde(rename = "allowedCIDRs", default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "set"))]
    pub allowed_cidrs: Vec<Cidr>,
    /// Request fields beyond OpenAI's that may be forwarded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "set"))]
    pub extra_fields: Vec<FieldName>,
    /// What the endpoint grants.
    #[serde(default)]
    pub limits: EndpointLimits,
}

/// What an endpoint grants; absent: no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndpointLimits {
    /// Requests in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub concurrency: Option<i32>,
    /// Requests a minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000_000))]
    pub requests_per_minute: Option<i32>,
    /// Tokens a minute, in and out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 2_000_000_000))]
    pub tokens_per_minute: Option<i32>,
}
