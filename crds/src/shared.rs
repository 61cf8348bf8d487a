//! What more than one kind uses: references, who may use something, resources, claims, quantiles.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use terrace_contract::trust;

use crate::choice::choice;
use crate::sentence;
use crate::text::{Bytes, ObjectName, SecretKey};

choice! {
    /// How sensitive a request is. A higher class is never allowed further than a lower one.
    Class => trust::Class {
        /// May be read by anyone.
        Public,
        /// For the organisation.
        Internal,
        /// Personal or confidential.
        Confidential,
        /// Never leaves the private boundary.
        Restricted,
    }
}

choice! {
    /// How far data travels to reach a tier, nearest first.
    Boundary => trust::Boundary {
        /// On the device's own node.
        Device,
        /// Inside the organisation's own network.
        Private,
        /// Anywhere.
        Public,
    }
}

choice! {
    /// Whose namespaces are meant.
    #[derive(Default)]
    NamespacesFrom {
        /// The object's own namespace.
        #[default]
        Same,
        /// Every namespace.
        All,
        /// Namespaces with matching labels.
        Selector,
    }
}

/// A set of namespaces.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("(self.from == 'Selector') == has(self.selector)").message(sentence::NAMESPACE_SELECTOR))]
pub struct Namespaces {
    /// Which namespaces.
    #[serde(default)]
    pub from: NamespacesFrom,
    /// With `from: Selector`: labels of the namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

/// Who may use something.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Allowed {
    /// The namespaces that may.
    #[serde(default)]
    pub namespaces: Namespaces,
}

/// A reference to an object of Terrace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    /// Its name.
    pub name: ObjectName,
    /// Its namespace; absent: the namespace of the object that refers to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<ObjectName>,
}

impl ObjectRef {
    /// The namespace that is meant in an object of `own` namespace.
    pub fn namespace_or<'a>(&'a self, own: &'a str) -> &'a str {
        self.namespace.as_ref().map_or(own, |n| n.as_str())
    }
}

/// One entry of a Secret in the same namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretKeyRef {
    /// Name of the Secret.
    pub name: ObjectName,
    /// Key of the entry.
    pub key: SecretKey,
}

/// A whole Secret in the same namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretRef {
    /// Name of the Secret.
    pub name: ObjectName,
}

/// Where a secret value comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretSource {
    /// The entry of a Secret.
    pub secret_ref: SecretKeyRef,
}

/// Where a certificate and its key come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretObject {
    /// The Secret.
    pub secret_ref: SecretRef,
}

/// Requests and limits of a container.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Resources {
    /// What the container is given at least.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub requests: BTreeMap<String, Quantity>,
    /// What it may use at most.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub limits: BTreeMap<String, Quantity>,
}

/// A volume that lives as long as the pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EmptyDir {
    /// How much it may hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_limit: Option<Bytes>,
}

/// A volume that outlives the pod, claimed for each pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimTemplate {
    /// The storage class; absent: the cluster's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<ObjectName>,
    /// How much it holds.
    pub size: Bytes,
}

/// Where files are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.emptyDir) != has(self.claim)").message(sentence::ONE_STORAGE))]
pub struct Storage {
    /// In a volume that lives as long as the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub empty_dir: Option<EmptyDir>,
    /// In a volume that outlives the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim: Option<ClaimTemplate>,
}

impl Storage {
    /// Whether it says what an absent one means. Such a value is kept out of the schema's defaults: a stored `emptyDir`
    /// would meet the `claim` that someone adds later.
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for Storage {
    fn default() -> Self {
        Self { empty_dir: Some(EmptyDir::default()), claim: None }
    }
}

choice! {
    /// What runs the pods.
    #[derive(Default)]
    Workload {
        /// A number of replicas, anywhere.
        #[default]
        Deployment,
        /// One a node.
        DaemonSet,
    }
}

/// Quantiles of a latency, as durations for people.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Quantiles {
    /// Median.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 32))]
    pub p50: String,
    /// 95th percentile.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 32))]
    pub p95: String,
    /// 99th percentile.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 32))]
    pub p99: String,
}
