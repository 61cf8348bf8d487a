//! Terrace's kinds: Tier, RoutingPolicy, LatencyBudget; their validation and their compilation to a snapshot.
//!
//! | module | what |
//! | --- | --- |
//! | [`tier`], [`routing_policy`], [`latency_budget`] | the kinds, with their CEL rules |
//! | [`shared`], [`text`], [`units`] | what more than one kind uses; strings with a form, and as integers |
//! | [`agent`] | engine settings as the flags of an agent |
//! | [`sentence`] | what is said when a rule is broken |
//! | [`kinds`], [`schema`] | the kinds as one thing; what the API server does with a schema, in Rust |
//! | [`validate`] | the Rust twins of the CEL rules, and what CEL cannot check |
//! | [`inactive_fields`] | which fields have a behaviour yet |
//! | [`compile`] | kinds to snapshot |
//! | [`mod@render`] | the definitions for the API server and the chart |
//! | [`reference`] | every field in one document |
//! | [`yaml`] | the one way to read and write manifests |
//! | [`corpus`] | manifests that must be refused, and how: for tests |

pub mod agent;
mod choice;
pub mod compile;
pub mod corpus;
pub mod inactive_fields;
pub mod kinds;
pub mod latency_budget;
pub mod reference;
pub mod render;
pub mod routing_policy;
pub mod schema;
pub mod sentence;
pub mod shared;
pub mod text;
pub mod tier;
pub mod units;
pub mod validate;
pub mod yaml;

pub use compile::{Refused, compile};
pub use inactive_fields::inactive_fields;
pub use kinds::{Kind, Object};
pub use latency_budget::{LatencyBudget, LatencyBudgetSpec, LatencyBudgetStatus};
pub use render::render;
pub use routing_policy::{RoutingPolicy, RoutingPolicySpec, RoutingPolicyStatus};
pub use tier::{Tier, TierSpec, TierStatus};
pub use validate::{Invalid, Violation, validate, validate_change};

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
