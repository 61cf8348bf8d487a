//! A tier's fleet: the agents that Terrace runs, their model, their engine, where they are placed.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::choice::choice;
use crate::sentence;
use crate::shared::{ClaimTemplate, EmptyDir, Resources, SecretKeyRef, SecretRef, Workload};
use crate::text::{Bytes, DiskPart, ImageReference, ModelName, ObjectName, Path, ResourceName, Sha256, Url, Word};

/// Agents that Terrace runs, one model on each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.workload == 'Deployment' || !has(self.replicas)").message(sentence::REPLICAS).field_path(".replicas"),
    validation = Rule::new("!has(self.gpu) || self.engine.device != 'Cpu'").message(sentence::GPU_CPU).field_path(".gpu"),
)]
pub struct Fleet {
    /// DaemonSet: one agent on each node that `placement` selects. Deployment: `replicas` agents.
    pub workload: Workload,
    /// Agents of a Deployment; absent: 1, or what the scale subresource says.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub replicas: Option<i32>,
    /// The model.
    pub model: Model,
    /// How the model runs.
    #[serde(default)]
    pub engine: Engine,
    /// The GPU that each agent gets; absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<Gpu>,
    /// Which nodes, and what each agent may use of one.
    #[serde(default)]
    pub placement: Placement,
    /// How a change is rolled out.
    #[serde(default)]
    pub rollout: Rollout,
    /// Smaller or larger forms of the model, by the memory they need; absent: only `model`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub variants: Vec<Variant>,
    /// Where the model's file is kept on the node; absent: in a volume that lives as long as the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<Cache>,
}

/// A model and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.source.http) || has(self.sha256)").message(sentence::HTTP_SHA256).field_path(".sha256"))]
pub struct Model {
    /// The name that clients and traces see; never `auto`.
    #[x_kube(validation = Rule::new("self != 'auto'").message(sentence::MODEL_AUTO))]
    pub name: ModelName,
    /// Where its file comes from.
    pub source: ModelSource,
    /// SHA-256 of the file, required for http; checked before the first load and on every cache hit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Sha256>,
}

/// Where a model's file comes from: exactly one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("[has(self.http), has(self.image), has(self.claim), has(self.hostPath)].exists_one(x, x)").message(sentence::ONE_SOURCE))]
pub struct ModelSource {
    /// A download.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpSource>,
    /// An image that holds the file: the node's own cache keeps it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageSource>,
    /// A claim that holds the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim: Option<ModelClaim>,
    /// A file on the node, under a path that the operator was started with (`--allowed-host-paths`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_path: Option<HostPath>,
}

/// A download.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpSource {
    /// Where from.
    pub url: Url,
    /// A bearer token for it; absent: none is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretKeyRef>,
    /// How hard the download may be on the network; absent: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull: Option<Pull>,
}

/// How hard a download may be on the network.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pull {
    /// Nodes that download at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub max_parallel_nodes: Option<i32>,
    /// Bytes a second and node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<Bytes>,
}

/// An image that holds a model's file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageSource {
    /// The image with its digest.
    pub reference: ImageReference,
    /// Secrets to pull it with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub pull_secrets: Vec<SecretRef>,
    /// The file inside it.
    pub path: Path,
}

/// A claim that holds a model's file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelClaim {
    /// Name of the PersistentVolumeClaim in the tier's namespace.
    pub name: ObjectName,
    /// The file inside it.
    pub path: Path,
}

/// A file on the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostPath {
    /// The file.
    pub path: Path,
}

choice! {
    /// What a model runs on.
    #[derive(Default)]
    EngineDevice {
        /// The GPU if one is given, else the CPU.
        #[default]
        Auto,
        /// CUDA.
        Cuda,
        /// Vulkan.
        Vulkan,
        /// The CPU.
        Cpu,
    }
}

/// How a model runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Engine {
    /// What it runs on. With `gpu` set, Auto never falls back to the CPU.
    #[serde(default)]
    pub device: EngineDevice,
    /// Prompt and answer together, in tokens.
    #[serde(default = "context_tokens")]
    #[schemars(range(min = 128, max = 1_048_576))]
    pub context_tokens: i32,
    /// Sequences that one agent runs at once.
    #[serde(default = "max_sequences")]
    #[schemars(range(min = 1, max = 256))]
    pub max_sequences: i32,
    /// Memory for keys and values of all sequences; absent: what `contextTokens` and `maxSequences` need.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_cache: Option<Bytes>,
}

fn context_tokens() -> i32 {
    4096
}

fn max_sequences() -> i32 {
    8
}

impl Default for Engine {
    fn default() -> Self {
        Self {
            device: EngineDevice::Auto,
            context_tokens: context_tokens(),
            max_sequences: max_sequences(),
            kv_cache: None,
        }
    }
}

/// The GPU that each agent gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.resource) != has(self.resourceClaimTemplateName)").message(sentence::ONE_GPU))]
pub struct Gpu {
    /// The device plugin's resource, such as `nvidia.com/gpu` or `nvidia.com/gpu.shared`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<ResourceName>,
    /// A template of a resource claim, for dynamic resource allocation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_claim_template_name: Option<ObjectName>,
    /// Memory of a shared GPU that one agent may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<Bytes>,
    /// The runtime class that gives a container the driver, such as `nvidia` on k3s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_class_name: Option<ObjectName>,
}

/// Which nodes, and what each agent may use of one. Nodes that are not ready or unreachable are always tolerated:
/// an edge node that is cut off keeps its agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    /// Labels that a node must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub node_selector: BTreeMap<String, String>,
    /// Taints that are tolerated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "atomic"))]
    pub tolerations: Vec<Toleration>,
    /// What each agent is given and may use.
    #[serde(default)]
    pub resources: Resources,
}

/// How a change is rolled out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    /// Agents that may be down at once.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1000))]
    pub max_unavailable: i32,
    /// Share of the agents that get a change first and are watched; absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 99))]
    pub canary_percent: Option<i32>,
    /// Whether a change that makes agents fail is taken back.
    #[serde(default)]
    pub auto_rollback: bool,
}

fn one() -> i32 {
    1
}

impl Default for Rollout {
    fn default() -> Self {
        Self { max_unavailable: 1, canary_percent: None, auto_rollback: false }
    }
}

/// Where a model's file is kept on the node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.emptyDir) != has(self.claim)").message(sentence::ONE_STORAGE))]
pub struct Cache {
    /// In a volume that lives as long as the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub empty_dir: Option<EmptyDir>,
    /// In a volume that outlives the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim: Option<ClaimTemplate>,
    /// What a download leaves free on the disk that the volume is on, such as `15%`, `2Gi` or `"0"`; absent: a tenth of it,
    /// 10Gi at most. With less than a tenth free a kubelet evicts pods from the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_reserve: Option<DiskPart>,
}

/// A smaller or larger form of the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.source.http) || has(self.sha256)").message(sentence::HTTP_SHA256).field_path(".sha256"))]
pub struct Variant {
    /// Its name, such as `q4`.
    pub name: Word,
    /// Memory that a node needs for it.
    pub memory: Bytes,
    /// How much of the full model's quality it keeps.
    #[schemars(range(min = 1, max = 100))]
    pub quality_retention_percent: i32,
    /// Where its file comes from.
    pub source: ModelSource,
    /// SHA-256 of the file, required for http.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Sha256>,
}
