//! What is refused is refused by the Rust rules as well, with the same way out; what the rest of a case needs is taken.

#![allow(clippy::unwrap_used, clippy::panic, reason = "in a test a panic is the failure")]

use std::collections::BTreeSet;
use std::path::Path;

use terrace_crds::corpus::{Case, Where};
use terrace_crds::kinds::Kind;
use terrace_crds::yaml::{self, Manifest};
use terrace_crds::{RoutingPolicy, Tier, schema, validate, validate_change};

fn corpus() -> Vec<Case> {
    let cases = terrace_crds::corpus::read(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus"))).unwrap();
    assert!(cases.len() > 80, "only {} cases were found", cases.len());
    cases
}

/// Gives an object the UID and generation that an API server would.
fn stored(manifest: &Manifest) -> Manifest {
    let mut manifest = manifest.clone();
    let metadata = match &mut manifest {
        Manifest::Tier(o) => &mut o.metadata,
        Manifest::RoutingPolicy(o) => &mut o.metadata,
        Manifest::LatencyBudget(o) => &mut o.metadata,
        Manifest::Other(_) => return manifest,
    };
    metadata.uid = metadata.name.clone();
    manifest
}

/// What the Rust rules say of the last document; empty: it is taken.
fn refusal(case: &Case) -> String {
    let (last, first) = case.documents.split_last().unwrap();
    let before: Vec<Manifest> = first
        .iter()
        .flat_map(|text| yaml::read(&case.name, text).unwrap_or_else(|e| panic!("{}: {e}", case.name)))
        .map(|m| stored(&m))
        .collect();
    let objects = match yaml::read(&case.name, last) {
        Ok(objects) => objects,
        Err(problems) => return problems.to_string(),
    };
    match (&objects[..], &before[..]) {
        ([Manifest::Tier(new)], [Manifest::Tier(old)]) => {
            validate_change(&**new, old).err().map(|e| e.to_string()).unwrap_or_default()
        }
        ([Manifest::RoutingPolicy(policy)], _) => {
            let find = |name: &str, namespace: &str| {
                before.iter().find_map(|m| match m {
                    Manifest::Tier(t)
                        if t.metadata.name.as_deref() == Some(name)
                            && t.metadata.namespace.as_deref() == Some(namespace) =>
                    {
                        Some(&**t)
                    }
                    _ => None,
                })
            };
            let own = policy.metadata.namespace.clone().unwrap();
            let tiers: Vec<&Tier> =
                policy.spec.tiers.iter().filter_map(|r| find(r.name.as_str(), r.namespace_or(&own))).collect();
            compiled(policy, &tiers, case)
        }
        _ => String::new(),
    }
}

fn compiled(policy: &RoutingPolicy, tiers: &[&Tier], case: &Case) -> String {
    match terrace_crds::compile(policy, tiers, &[], "cluster", 1) {
        Ok(_) => String::new(),
        Err(refused) => {
            assert_eq!(refused.reason, case.reason, "{}", case.name);
            refused.to_string()
        }
    }
}

#[test]
fn the_corpus_is_refused_with_the_way_out() {
    // Needs what only the operator sees: its own flags, the order of creation.
    let operators = ["HostPathNotAllowed", "Conflict"];
    let mut wrong = Vec::new();
    for case in
        corpus().iter().filter(|case| case.refused_by != Where::ResolvedRefs && !operators.contains(&&*case.reason))
    {
        let said = refusal(case);
        if !said.contains(&case.says) {
            wrong.push(format!("{}: expected {:?}, got {said:?}", case.name, case.says));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_does_not_exist_yet_is_never_refused() {
    let cases = corpus();
    let missing: Vec<&Case> = cases.iter().filter(|case| case.refused_by == Where::ResolvedRefs).collect();
    assert!(missing.len() >= 4);
    for case in missing {
        assert_eq!(refusal(case), "", "{}", case.name);
    }
}

/// A rule that no case breaks may be wrong unseen, in the schema or in Rust.
#[test]
fn every_rule_of_the_schema_is_broken_by_a_case() {
    let mut said = BTreeSet::new();
    for case in corpus() {
        said.insert(refusal(&case));
    }
    let mut unbroken = BTreeSet::new();
    for kind in Kind::ALL {
        schema::walk(kind.schema(), &mut |schema| {
            for (_, message) in schema::rules(schema) {
                if !said.iter().any(|said| said.contains(message)) {
                    unbroken.insert(message.to_owned());
                }
            }
        });
    }
    assert!(unbroken.is_empty(), "no case breaks: {unbroken:#?}");
}

#[test]
fn every_pattern_compiles_and_every_list_has_a_bound() {
    for kind in Kind::ALL {
        let mut lists = 0;
        schema::walk(kind.schema(), &mut |schema| {
            for pattern in schema::rules(schema).filter_map(|(rule, _)| schema::patterns(rule)).flatten() {
                regex_automata::meta::Regex::new(pattern).unwrap_or_else(|e| panic!("{kind}: {pattern}: {e}"));
            }
            if schema["type"] == "array" {
                lists += 1;
                assert!(schema["maxItems"].is_u64(), "{kind}: a list without maxItems: {schema}");
            }
            assert_ne!(schema["type"], "number", "{kind}: a float: {schema}");
            assert!(!schema["format"].as_str().unwrap_or_default().starts_with("uint"), "{kind}: unsigned: {schema}");
        });
        assert!(lists > 0, "{kind}");
    }
}

/// A default that is stored would meet the other choice when someone adds it later, and refuse both.
#[test]
fn no_default_takes_one_of_two_choices() {
    for kind in Kind::ALL {
        let mut choices = 0;
        let mut defaults = serde_json::json!({});
        let spec = &kind.schema()["properties"]["spec"];
        schema::fill_defaults(spec, &mut defaults);
        schema::walk(spec, &mut |schema| {
            for (rule, _) in schema::rules(schema)
                .filter(|(rule, _)| rule.starts_with("has(self.") && rule.contains(") != has(self."))
            {
                choices += 1;
                assert!(schema.get("default").is_none(), "{kind}: {rule}: {}", schema["default"]);
            }
        });
        assert!(choices > 0 || kind == Kind::LatencyBudget, "{kind}");
        for path in ["/objective/preset", "/egressLedger/storage/emptyDir", "/access/anonymous"] {
            assert_eq!(defaults.pointer(path), None, "{kind}{path}");
        }
    }
}

#[test]
fn an_object_that_no_longer_parses_is_an_error_and_nothing_else() {
    let old = serde_json::json!({
        "apiVersion": "terrace.dev/v1alpha1", "kind": "Tier", "metadata": {"name": "edge"},
        "spec": {"boundary": "Edge", "backend": {"fleet": {"workload": 7}}},
    });
    let said = validate::read::<Tier>(&old).unwrap_err().to_string();
    assert!(said.contains("spec.boundary: \"Edge\" is not one of Device, Private, Public"), "{said}");
    assert!(said.contains("spec.backend.fleet.workload: is the number 7: put it in quotes"), "{said}");
}

#[test]
fn a_typo_is_named_with_the_nearest_field() {
    let text = "apiVersion: terrace.dev/v1alpha1\nkind: Teir\nmetadata: {name: edge}\n---\n\
        apiVersion: terrace.dev/v1alpha1\nkind: LatencyBudget\nmetadata: {name: b, lables: {}}\n\
        spec: {policyRef: {name: p}, fristToken: 1s, total: 2s}\n";
    let said = yaml::read("fleet.yaml", text).unwrap_err().to_string();
    assert!(
        said.contains(
            "fleet.yaml, document 1 (Teir edge): kind: Teir is not a kind of terrace.dev: did you mean Tier?"
        ),
        "{said}"
    );
    assert!(
        said.contains(
            "fleet.yaml, document 2 (LatencyBudget b): spec.fristToken: unknown field: did you mean firstToken?"
        ),
        "{said}"
    );
    assert!(said.contains("metadata.lables: unknown field: did you mean labels?"), "{said}");
    assert!(said.contains("spec.firstToken: is required"), "{said}");
}

#[test]
fn a_key_that_is_there_twice_is_refused() {
    let text = "apiVersion: terrace.dev/v1alpha1\nkind: Tier\nmetadata: {name: edge}\nspec: {boundary: Device, boundary: Public}\n";
    let said = yaml::read("f.yaml", text).unwrap_err().to_string();
    assert!(said.contains("duplicate"), "{said}");
}
