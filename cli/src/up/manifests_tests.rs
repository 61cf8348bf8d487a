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

#[test]
fn a_part_of_a_fleet_is_checked_for_what_it_is() {
    for (part, told) in [
        (vec![TIER], 0),
        (vec![TIER, NEXT], 0),
        (vec![POLICY], 1),
        (vec![BUDGET], 1),
        (vec![POLICY, BUDGET], 1),
        (vec![TIER, BUDGET], 1),
        (vec!["apiVersion: v1\nkind: Namespace\nmetadata: {name: n}\n"], 0),
    ] {
        let manifests = manifests(&part).unwrap();
        let said = manifests.part().unwrap();
        assert_eq!(said.iter().filter(|line| !line.contains("does nothing yet")).count(), told, "{said:?}");
        assert!(manifests.check().is_err(), "`up` takes no part: {part:?}");
    }
    let said = manifests(&[TIER, POLICY]).unwrap().part().unwrap_err().to_string();
    assert!(said.contains("tier default/private is not in the manifests"), "{said}");
    let astray = BUDGET.replace("policyRef: {name: assistant}", "policyRef: {name: asistant}");
    assert!(manifests(&[POLICY, &astray]).unwrap().part().is_err());
    assert!(manifests(&[&astray]).unwrap().part().is_ok());
}

/// It answered plain HTTP whatever the policy said.
#[test]
fn a_listeners_certificate_is_the_routers_or_its_lack_is_said() {
    let policy = POLICY.replacen("spec:\n", "spec:\n  listener: {tls: {secretRef: {name: site}}}\n", 1);
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: site}\nstringData: {tls.crt: CERT, tls.key: KEY}\n";
    let folder = Folder::new(false).unwrap();
    let tls = |texts: &[&str]| {
        let manifests = manifests(texts).unwrap();
        manifests.write_tls(manifests.policy(None).unwrap(), &folder)
    };
    assert_eq!(tls(&[TIER, NEXT, POLICY]).unwrap(), None);
    let at = tls(&[TIER, NEXT, &policy, secret]).unwrap().unwrap();
    assert_eq!(
        (std::fs::read(at.join("tls.crt")).unwrap(), std::fs::read(at.join("tls.key")).unwrap()),
        (b"CERT".into(), b"KEY".into())
    );
    for lack in ["", "apiVersion: v1\nkind: Secret\nmetadata: {name: site}\nstringData: {tls.crt: CERT}\n"] {
        let said = tls(&[TIER, NEXT, &policy, lack]).unwrap_err().to_string();
        assert!(said.contains("Secret default/site") && said.contains("spec.listener.tls"), "{said}");
    }
}
