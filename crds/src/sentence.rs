//! What is said when a rule is broken: what was wrong and what to write instead. The CEL rules and their Rust twins
//! use these same sentences.

/// The rule of an object's name, on its root.
pub const NAME_RULE: &str = "self.metadata.name.matches('^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$')";
/// Name of an object.
pub const NAME: &str =
    "write a name of at most 40 lower-case letters, digits and dashes that begins with a letter, such as edge";
/// `from` and `selector`.
pub const NAMESPACE_SELECTOR: &str = "selector goes with from: Selector, and from: Selector needs a selector";
/// `emptyDir` and `claim`.
pub const ONE_STORAGE: &str = "give exactly one of emptyDir and claim";

// Tier
/// `fleet` and `endpoint`.
pub const ONE_BACKEND: &str =
    "give exactly one of backend.fleet (agents that Terrace runs) and backend.endpoint (a URL)";
/// Switching them.
pub const BACKEND_IMMUTABLE: &str =
    "a tier cannot switch between backend.fleet and backend.endpoint: create a new tier and put it into the policy";
/// Changing the boundary.
pub const BOUNDARY_IMMUTABLE: &str =
    "boundary cannot be changed: create a new tier with the other boundary and put it into the policy";
/// A Device tier with an endpoint.
pub const DEVICE_IS_FLEET: &str =
    "boundary Device needs backend.fleet: an endpoint is Private (inside your own network) or Public";
/// Locality elsewhere.
pub const LOCALITY_IS_DEVICE: &str = "locality is for boundary Device: remove it, or make this a Device tier";
/// Plain http to a public endpoint.
pub const PUBLIC_HTTPS: &str = "an endpoint at boundary Public needs https: write backend.endpoint.url with https://";
/// Endpoints used from elsewhere.
pub const ENDPOINT_SAME: &str =
    "an endpoint tier serves its own namespace only: remove allowedPolicies or write namespaces: {from: Same}";
/// A model named auto.
pub const MODEL_AUTO: &str =
    "a model cannot be named auto: clients use auto to leave the choice to the policy; write the model's own name";
/// Replicas on a DaemonSet.
pub const REPLICAS: &str = "replicas goes with workload: Deployment; a DaemonSet has one pod a node: remove replicas";
/// Source of a model.
pub const ONE_SOURCE: &str = "give exactly one of http, image, claim and hostPath as the source of the model";
/// Digest of a download.
pub const HTTP_SHA256: &str = "a model from http needs sha256: run sha256sum on the file and write its 64 digits";
/// GPU.
pub const ONE_GPU: &str = "give exactly one of gpu.resource (such as nvidia.com/gpu) and gpu.resourceClaimTemplateName";
/// GPU with a CPU engine.
pub const GPU_CPU: &str = "gpu is set but engine.device is Cpu: remove gpu, or write device: Auto";

// RoutingPolicy
/// A tier twice.
pub const TIER_TWICE: &str = "a tier is named twice in tiers: name each tier of the ladder once";
/// Preset and weights.
pub const ONE_OBJECTIVE: &str = "give exactly one of objective.preset (such as Balanced) and objective.weights";
/// Sum of weights.
pub const WEIGHTS_SUM: &str =
    "the weights do not add to 100: for example quality: 30, latency: 30, cost: 20, privacy: 10, availability: 10";
/// Access.
pub const ACCESS: &str = "say who may call: access: {apiKeys: {secretRef: {name: assistant-keys}}}, or access: {anonymous: {}} for everyone who reaches the Service";
/// Unlabelled.
pub const UNLABELLED: &str = "say how sensitive a request without a label is: sensitivity: {unlabelled: Internal} keeps it inside your own network, {unlabelled: Public} lets it go to any tier";
/// Restricted to Public.
pub const RESTRICTED: &str =
    "a restricted request never leaves the private boundary: write boundaries.restricted: Private or Device";
/// Monotone boundaries.
pub const MONOTONE: &str = "a higher class may not have a wider boundary than a lower one: order them public, internal, confidential, restricted from wide to narrow";
/// Anonymise Restricted.
pub const ANONYMISE_RESTRICTED: &str = "Restricted is never anonymised to go further: remove it from anonymise.classes";
/// Consent for Restricted.
pub const CONSENT_RESTRICTED: &str =
    "a restricted request never leaves the private boundary, with consent or without: remove it from consent.classes";
/// Cascade.
pub const CASCADE: &str = "minConfidencePercent goes with mode: Threshold and targetErrorPercent with mode: Calibrated: give the one that the mode needs and remove the other";
/// Learning.
pub const CANARY_PERCENT: &str =
    "canaryPercent goes with learning.mode: Canary, and Canary needs it: for example {mode: Canary, canaryPercent: 10}";
/// Traffic of routers.
pub const TRAFFIC_LOCAL: &str = "trafficPolicy: Local needs workload: DaemonSet, a router on every node that has clients: else clients of the other nodes get no answer";

// LatencyBudget
/// First token after the end.
pub const FIRST_TOKEN: &str =
    "firstToken is longer than total: the first token cannot come after the end; write firstToken at most total";
