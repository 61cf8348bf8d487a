//! Labels of children and pods.

use std::collections::BTreeMap;

/// The tier that a pod serves.
pub const TIER: &str = "terrace.dev/tier";
/// The policy that a pod routes for.
pub const POLICY: &str = "terrace.dev/policy";
/// What a pod is: `agent` or `router`.
pub const COMPONENT: &str = "app.kubernetes.io/component";

/// What selects the pods of one tier.
pub fn tier(name: &str) -> BTreeMap<String, String> {
    of("agent", TIER, name)
}

/// What selects the pods of one policy.
pub fn policy(name: &str) -> BTreeMap<String, String> {
    of("router", POLICY, name)
}

fn of(component: &str, key: &str, name: &str) -> BTreeMap<String, String> {
    [("app.kubernetes.io/name", "terrace"), (COMPONENT, component), (key, name)]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
}

/// What selects all routers of a namespace.
pub fn routers() -> BTreeMap<String, String> {
    [("app.kubernetes.io/name", "terrace"), (COMPONENT, "router")].map(|(k, v)| (k.to_owned(), v.to_owned())).into()
}

/// Labels as a selector in one string.
pub fn selector_text(labels: &BTreeMap<String, String>) -> String {
    labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
}
