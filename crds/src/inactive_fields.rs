//! Which fields have a behaviour yet. A field that has none is accepted and named in the condition
//! `FieldsActive=False/NotYetActive`, never silently ignored. At version 1.0 [`INACTIVE`] is empty.

use serde_json::Value;

use crate::kinds::{Kind, Object};
use crate::schema;

/// Fields whose behaviour is not built yet: a path (with everything under it), or a path and one value of it.
/// `[]` stands for each item of a list.
pub const INACTIVE: &[(Kind, &str)] = &[
    (Kind::Tier, "spec.backend.fleet.model.source.http.pull.maxParallelNodes"),
    (Kind::Tier, "spec.backend.fleet.gpu.memoryLimit"),
    (Kind::Tier, "spec.backend.fleet.rollout.canaryPercent"),
    (Kind::Tier, "spec.backend.fleet.rollout.autoRollback"),
    (Kind::Tier, "spec.backend.fleet.variants"),
    (Kind::RoutingPolicy, "spec.sensitivity.detector=Prism"),
    (Kind::RoutingPolicy, "spec.sensitivity.anonymise"),
    (Kind::RoutingPolicy, "spec.sensitivity.consent"),
    (Kind::RoutingPolicy, "spec.complexity.mode=Learned"),
    (Kind::RoutingPolicy, "spec.cascade"),
    (Kind::RoutingPolicy, "spec.learning"),
    (Kind::RoutingPolicy, "spec.egressLedger.storage.claim"),
    (Kind::RoutingPolicy, "spec.egressLedger.retention"),
];

/// Fields that have their behaviour: with [`INACTIVE`], every field of the schema. A test holds that.
pub const ACTIVE: &[(Kind, &str)] = &[
    (Kind::Tier, "spec.boundary"),
    (Kind::Tier, "spec.locality"),
    (Kind::Tier, "spec.region"),
    (Kind::Tier, "spec.processor"),
    (Kind::Tier, "spec.allowedPolicies"),
    (Kind::Tier, "spec.backend.endpoint"),
    (Kind::Tier, "spec.backend.fleet.workload"),
    (Kind::Tier, "spec.backend.fleet.replicas"),
    (Kind::Tier, "spec.backend.fleet.model.name"),
    (Kind::Tier, "spec.backend.fleet.model.sha256"),
    (Kind::Tier, "spec.backend.fleet.model.source.http.url"),
    (Kind::Tier, "spec.backend.fleet.model.source.http.secretRef"),
    (Kind::Tier, "spec.backend.fleet.model.source.http.pull.bytesPerSecond"),
    (Kind::Tier, "spec.backend.fleet.model.source.image"),
    (Kind::Tier, "spec.backend.fleet.model.source.claim"),
    (Kind::Tier, "spec.backend.fleet.model.source.hostPath"),
    (Kind::Tier, "spec.backend.fleet.engine"),
    (Kind::Tier, "spec.backend.fleet.gpu.resource"),
    (Kind::Tier, "spec.backend.fleet.gpu.resourceClaimTemplateName"),
    (Kind::Tier, "spec.backend.fleet.gpu.runtimeClassName"),
    (Kind::Tier, "spec.backend.fleet.placement"),
    (Kind::Tier, "spec.backend.fleet.rollout.maxUnavailable"),
    (Kind::Tier, "spec.backend.fleet.cache"),
    (Kind::Tier, "spec.cost"),
    (Kind::Tier, "spec.energy"),
    (Kind::Tier, "spec.capability"),
    (Kind::RoutingPolicy, "spec.tiers"),
    (Kind::RoutingPolicy, "spec.objective"),
    (Kind::RoutingPolicy, "spec.access"),
    (Kind::RoutingPolicy, "spec.clients"),
    (Kind::RoutingPolicy, "spec.listener"),
    (Kind::RoutingPolicy, "spec.sensitivity.unlabelled"),
    (Kind::RoutingPolicy, "spec.sensitivity.boundaries"),
    (Kind::RoutingPolicy, "spec.sensitivity.detector"),
    (Kind::RoutingPolicy, "spec.sensitivity.residency"),
    (Kind::RoutingPolicy, "spec.sensitivity.entities"),
    (Kind::RoutingPolicy, "spec.sensitivity.maxPolicyAge"),
    (Kind::RoutingPolicy, "spec.complexity"),
    (Kind::RoutingPolicy, "spec.selection"),
    (Kind::RoutingPolicy, "spec.overflow"),
    (Kind::RoutingPolicy, "spec.degrade"),
    (Kind::RoutingPolicy, "spec.egressLedger.storage.emptyDir"),
    (Kind::RoutingPolicy, "spec.egressLedger.onWriteFailure"),
    (Kind::RoutingPolicy, "spec.limits"),
    (Kind::RoutingPolicy, "spec.router"),
    (Kind::LatencyBudget, "spec.policyRef"),
    (Kind::LatencyBudget, "spec.features"),
    (Kind::LatencyBudget, "spec.firstToken"),
    (Kind::LatencyBudget, "spec.total"),
    (Kind::LatencyBudget, "spec.objective"),
    (Kind::LatencyBudget, "spec.window"),
    (Kind::LatencyBudget, "spec.onMiss"),
    (Kind::LatencyBudget, "spec.priority"),
    (Kind::LatencyBudget, "spec.chain"),
];

/// The fields of an object that are set to something else than their default and have no behaviour yet.
pub fn inactive_fields<T: Object>(object: &T) -> Vec<String> {
    let value = serde_json::to_value(object).unwrap_or(Value::Null);
    let mut used = Vec::new();
    for (_, entry) in INACTIVE.iter().filter(|(kind, _)| *kind == T::KIND) {
        let (path, only) = entry.split_once('=').map_or((*entry, None), |(path, only)| (path, Some(only)));
        let names: Vec<&str> = path.split('.').collect();
        find(T::KIND.schema(), &value, &names, "", only, &mut used);
    }
    used
}

fn find(schema: &Value, value: &Value, names: &[&str], path: &str, only: Option<&str>, used: &mut Vec<String>) {
    let Some((name, rest)) = names.split_first() else {
        match only {
            Some(only) if value.as_str() == Some(only) => used.push(format!("{path}={only}")),
            Some(_) => {}
            None if differs(schema, value) => used.push(path.to_owned()),
            None => {}
        }
        return;
    };
    let (name, each) = name.strip_suffix("[]").map_or((*name, false), |name| (name, true));
    let (Some(schema), Some(value)) = (schema.get("properties").and_then(|p| p.get(name)), value.get(name)) else {
        return;
    };
    let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match (each, value.as_array(), schema.get("items")) {
        (true, Some(items), Some(schema)) => {
            for (index, item) in items.iter().enumerate() {
                find(schema, item, rest, &format!("{path}[{index}]"), only, used);
            }
        }
        _ => find(schema, value, rest, &path, only, used),
    }
}

/// Whether a value says something else than its default.
fn differs(schema: &Value, value: &Value) -> bool {
    match schema.get("default") {
        Some(default) => {
            let mut default = default.clone();
            schema::fill_defaults(schema, &mut default);
            default != *value
        }
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{LatencyBudget, RoutingPolicy, Tier};

    /// Paths of every field under `spec` that holds no further fields of its own.
    fn leaves(schema: &Value, path: &str, out: &mut Vec<String>) {
        let inner = if schema.get("items").is_some() { &schema["items"] } else { schema };
        let path = if schema.get("items").is_some() { format!("{path}[]") } else { path.to_owned() };
        let mut any = false;
        for (name, schema) in schema::properties(inner) {
            any = true;
            leaves(schema, &format!("{path}.{name}"), out);
        }
        if !any {
            out.push(path);
        }
    }

    fn covers(entry: &str, leaf: &str) -> bool {
        leaf.strip_prefix(entry).is_some_and(|rest| rest.is_empty() || rest.starts_with('.') || rest.starts_with("[]"))
    }

    #[test]
    fn every_field_has_a_behaviour_or_is_in_the_table() {
        for kind in Kind::ALL {
            let mut all = Vec::new();
            leaves(&kind.schema()["properties"]["spec"], "spec", &mut all);
            assert!(all.len() > 5, "{kind}: {all:?}");
            let of = |table: &'static [(Kind, &'static str)]| {
                table.iter().filter(move |(k, _)| *k == kind).map(|(_, path)| *path)
            };
            for leaf in &all {
                let active = of(ACTIVE).any(|entry| covers(entry, leaf));
                let inactive = of(INACTIVE).any(|entry| !entry.contains('=') && covers(entry, leaf));
                assert!(
                    active != inactive,
                    "{kind} {leaf}: active {active}, inactive {inactive}: put it into exactly one table"
                );
            }
            for entry in of(ACTIVE).chain(of(INACTIVE)) {
                let path = entry.split('=').next().unwrap();
                assert!(all.iter().any(|leaf| covers(path, leaf)), "{kind} {entry}: there is no such field");
            }
        }
    }

    #[test]
    fn a_field_is_named_only_when_it_is_used() {
        let policy = |spec: Value| {
            let mut base = json!({"tiers": [{"name": "edge"}], "access": {"anonymous": {}}, "sensitivity": {"unlabelled": "Internal"}});
            base.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
            serde_json::from_value::<RoutingPolicy>(json!({
                "apiVersion": "terrace.dev/v1alpha1", "kind": "RoutingPolicy", "metadata": {"name": "p"}, "spec": base,
            }))
            .unwrap()
        };
        assert_eq!(inactive_fields(&policy(json!({}))), Vec::<String>::new());
        assert_eq!(inactive_fields(&policy(json!({"learning": {"mode": "Disabled"}}))), Vec::<String>::new());
        assert_eq!(inactive_fields(&policy(json!({"learning": {"mode": "Shadow"}}))), ["spec.learning"]);
        assert_eq!(
            inactive_fields(&policy(json!({"complexity": {"mode": "Learned"}}))),
            ["spec.complexity.mode=Learned"]
        );
        assert_eq!(inactive_fields(&policy(json!({"complexity": {"mode": "Static"}}))), Vec::<String>::new());
        let budget: LatencyBudget = serde_json::from_value(json!({
            "apiVersion": "terrace.dev/v1alpha1", "kind": "LatencyBudget", "metadata": {"name": "b"},
            "spec": {"policyRef": {"name": "p"}, "firstToken": "100ms", "total": "1s", "chain": {"total": "5s"}},
        }))
        .unwrap();
        assert_eq!(inactive_fields(&budget), Vec::<String>::new());
        let tier: Tier = serde_json::from_value(json!({
            "apiVersion": "terrace.dev/v1alpha1", "kind": "Tier", "metadata": {"name": "edge"},
            "spec": {"boundary": "Device", "backend": {"fleet": {
                "workload": "DaemonSet",
                "model": {"name": "m", "source": {"hostPath": {"path": "/m.gguf"}}},
                "rollout": {"maxUnavailable": 2, "autoRollback": true},
            }}},
        }))
        .unwrap();
        assert_eq!(inactive_fields(&tier), ["spec.backend.fleet.rollout.autoRollback"]);
    }
}
