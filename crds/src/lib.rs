//! Terrace's kinds: Tier, RoutingPolicy, LatencyBudget; their validation and their compilation to a snapshot.
//!
//! | module | what |
//! | --- | --- |
//! | [`tier`], [`routing_policy`], [`latency_budget`] | the kinds, with their CEL rules |
//! | [`shared`], [`text`] | what more than one kind uses; strings with a form |
//! | [`agent`] | engine settings as the flags of an agent |
//! | [`sentence`] | what is said when a rule is broken |
//! | [`render`] | the definitions for the API server and the chart |
//! | [`yaml`] | the one way to read and write manifests |

pub mod agent;
mod choice;
pub mod latency_budget;
pub mod render;
pub mod routing_policy;
pub mod sentence;
pub mod shared;
pub mod text;
pub mod tier;
pub mod yaml;

pub use latency_budget::{LatencyBudget, LatencyBudgetSpec, LatencyBudgetStatus};
pub use routing_policy::{RoutingPolicy, RoutingPolicySpec, RoutingPolicyStatus};
pub use tier::{Tier, TierSpec, TierStatus};

/// The API group of the kinds.
pub const GROUP: &str = "terrace.dev";
/// Their version.
pub const VERSION: &str = "v1alpha1";
/// Label of a tier's children.
pub const TIER_LABEL: &str = "terrace.dev/tier";
/// Label of a policy's children.
pub const POLICY_LABEL: &str = "terrace.dev/policy";
/// Annotation of a Secret with a credential: the hosts that it may be sent to, comma separated.
pub const ALLOWED_HOSTS: &str = "terrace.dev/allowed-hosts";

/// Name of a tier's children.
pub fn tier_child(tier: &str) -> String {
    format!("{tier}-tier")
}

/// Name of a policy's children, but for its client Service, which bears the bare name.
pub fn router_child(policy: &str) -> String {
    format!("{policy}-router")
}
