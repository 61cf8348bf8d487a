use super::*;

const TIER: &str = include_str!("../../../examples/quickstart/edge.yaml");
const NEXT: &str = include_str!("../../../examples/quickstart/private.yaml");
const POLICY: &str = include_str!("../../../examples/quickstart/policy.yaml");
const BUDGET: &str = include_str!("../../../examples/quickstart/budget.yaml");

/// The manifests of files `0.yaml`, `1.yaml` and so on.
fn manifests(texts: &[&str]) -> Result<Manifests> {
    let folder = tempfile::tempdir().unwrap();
    for (index, text) in texts.iter().enumerate() {
        std::fs::write(folder.path().join(format!("{index}.yaml")), text).unwrap();
    }
    read(&[folder.path().to_owned()])
}

#[test]
fn an_object_that_is_given_twice_is_refused_with_both_files() {
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n";
    for (text, object) in [
        (TIER, "Tier default/edge"),
        (POLICY, "RoutingPolicy default/assistant"),
        (BUDGET, "LatencyBudget default/default"),
        (secret, "Secret default/s"),
    ] {
        let said = format!("{:#}", manifests(&[text, NEXT, text]).unwrap_err());
        assert!(said.contains("2.yaml: ") && said.contains("0.yaml: leave"), "{said}");
        assert!(said.contains(object), "{said}");
    }
    let twice = format!("{TIER}\n---\n{TIER}");
    assert!(manifests(&[&twice]).unwrap_err().to_string().contains("is there twice"));
    let elsewhere = TIER.replace("{name: edge}", "{name: edge, namespace: other}");
    assert!(manifests(&[TIER, &elsewhere]).is_ok());
}

#[test]
fn a_budget_for_a_policy_that_is_not_there_is_refused_by_name() {
    let astray = BUDGET.replace("policyRef: {name: assistant}", "policyRef: {name: asistant}");
    let said = manifests(&[TIER, NEXT, POLICY, &astray]).unwrap().check().unwrap_err().to_string();
    assert!(said.starts_with("LatencyBudget default: policy default/asistant is not in the manifests"), "{said}");
    assert!(said.contains("default/assistant"), "{said}");
    let elsewhere = BUDGET.replace("{name: default}", "{name: default, namespace: other}");
    assert!(manifests(&[TIER, NEXT, POLICY, &elsewhere]).unwrap().check().is_err());
    assert!(manifests(&[TIER, NEXT, POLICY, BUDGET]).unwrap().check().is_ok());
}
