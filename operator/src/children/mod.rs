//! What the children of tiers and policies have in common. Pure.

pub mod network;
pub mod pod;

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

use crate::pki::Files;

/// What the operator was started with and every build needs.
#[derive(Debug, Clone)]
pub struct Site {
    /// The operator's own namespace.
    pub namespace: String,
    /// Image of routers.
    pub router_image: String,
    /// Image of agents.
    pub agent_image: String,
    /// Image of agents that run on an NVIDIA GPU.
    pub agent_cuda_image: String,
    /// Where routers and agents send their traces; none: nowhere.
    pub otlp_endpoint: Option<String>,
    /// Paths of nodes that a tier's model may lie under.
    pub allowed_host_paths: Vec<String>,
}

/// Metadata of a child: the applier adds namespace, owner and the rest.
pub fn meta(name: &str, labels: &BTreeMap<String, String>) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), labels: Some(labels.clone()), ..ObjectMeta::default() }
}

/// A selector of exactly these labels.
pub fn selector(labels: &BTreeMap<String, String>) -> LabelSelector {
    LabelSelector { match_labels: Some(labels.clone()), match_expressions: None }
}

/// An identity without a token: pods of the data plane hold no cluster credentials.
pub fn service_account(name: &str, labels: &BTreeMap<String, String>) -> ServiceAccount {
    ServiceAccount {
        metadata: meta(name, labels),
        automount_service_account_token: Some(false),
        ..ServiceAccount::default()
    }
}

/// The certificate Secret.
pub fn identity_secret(name: &str, labels: &BTreeMap<String, String>, files: Files) -> Secret {
    Secret {
        metadata: meta(name, labels),
        data: Some(files.into_iter().map(|(file, bytes)| (file, ByteString(bytes))).collect()),
        type_: Some("Opaque".into()),
        ..Secret::default()
    }
}
