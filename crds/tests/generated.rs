//! What is generated is what is checked in; what is checked in as an example is taken.

#![allow(clippy::unwrap_used, clippy::panic, reason = "in a test a panic is the failure")]

use std::path::{Path, PathBuf};

use terrace_crds::yaml::{self, Manifest};
use terrace_crds::{LatencyBudget, RoutingPolicy, Tier, inactive_fields, render};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn manifests(folder: &Path) -> Vec<Manifest> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "yaml"));
    files.sort();
    files
        .iter()
        .flat_map(|path| {
            yaml::read(&path.display().to_string(), &std::fs::read_to_string(path).unwrap())
                .unwrap_or_else(|e| panic!("{e}"))
        })
        .collect()
}

/// An example as an API server stores it, in a namespace.
fn parts(manifests: Vec<Manifest>) -> (Vec<Tier>, Vec<RoutingPolicy>, Vec<LatencyBudget>) {
    let (mut tiers, mut policies, mut budgets) = (Vec::new(), Vec::new(), Vec::new());
    for manifest in manifests {
        match manifest {
            Manifest::Tier(o) => tiers.push(*o),
            Manifest::RoutingPolicy(o) => policies.push(*o),
            Manifest::LatencyBudget(o) => budgets.push(*o),
            Manifest::Other(_) => {}
        }
    }
    let metadata = tiers.iter_mut().map(|o| &mut o.metadata);
    let metadata =
        metadata.chain(policies.iter_mut().map(|o| &mut o.metadata)).chain(budgets.iter_mut().map(|o| &mut o.metadata));
    for metadata in metadata {
        metadata.uid = metadata.name.as_ref().map(|name| format!("uid-of-{name}"));
        metadata.generation = Some(1);
        metadata.namespace.get_or_insert_with(|| "shop".to_owned());
    }
    (tiers, policies, budgets)
}

fn compiled(tiers: &[Tier], policy: &RoutingPolicy, budgets: &[LatencyBudget]) -> String {
    let find = |name: &str| tiers.iter().find(|t| t.metadata.name.as_deref() == Some(name)).unwrap();
    let ladder: Vec<&Tier> = policy.spec.tiers.iter().map(|r| find(r.name.as_str())).collect();
    let snapshot = terrace_crds::compile(policy, &ladder, &budgets.iter().collect::<Vec<_>>(), "cluster-1", 2).unwrap();
    assert_eq!(snapshot.revision, snapshot.digest());
    serde_json::to_string_pretty(&snapshot).unwrap() + "\n"
}

/// Compares with a checked-in file; with `UPDATE_GOLDEN=1` writes it.
fn same_as(path: &Path, text: &str, command: &str) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, text).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert!(kept == text, "{} is not what the code makes: run `{command}` and look at the difference", path.display());
}

#[test]
fn the_chart_holds_the_generated_definitions() {
    const COMMAND: &str = "cargo run --release -p terrace-crds --bin crdgen -- --chart charts/terrace-crds/templates";
    let files = render::files();
    assert_eq!(files.len(), 3);
    for (name, text) in files {
        assert!(text.contains("helm.sh/resource-policy: keep"), "{name}");
        assert!(!text.contains("{{"), "{name}: Helm would take this for a template");
        same_as(&root().join("charts/terrace-crds/templates").join(name), &text, COMMAND);
    }
}

#[test]
fn the_reference_holds_every_field() {
    const COMMAND: &str = "cargo run --release -p terrace-crds --bin crdgen -- --reference docs/fields.md";
    same_as(&root().join("docs/fields.md"), &terrace_crds::reference::reference(), COMMAND);
}

#[test]
fn definitions_survive_yaml() {
    let text = terrace_crds::render();
    let documents = yaml::documents("crds", &text).unwrap();
    let definitions: Vec<_> = render::definitions().iter().map(|d| serde_json::to_value(d).unwrap()).collect();
    assert_eq!(documents.into_iter().map(|(_, value)| value).collect::<Vec<_>>(), definitions);
}

#[test]
fn the_examples_are_taken_and_every_field_in_them_is_active() {
    for folder in ["examples/quickstart", "examples/with-cloud"] {
        let (tiers, policies, budgets) = parts(manifests(&root().join(folder)));
        assert!(!tiers.is_empty() && !policies.is_empty(), "{folder}");
        let inactive = tiers
            .iter()
            .map(inactive_fields)
            .chain(policies.iter().map(inactive_fields))
            .chain(budgets.iter().map(inactive_fields));
        assert_eq!(inactive.flatten().collect::<Vec<_>>(), Vec::<String>::new(), "{folder}");
    }
}

#[test]
fn the_examples_compile_to_the_golden_snapshots() {
    const COMMAND: &str = "UPDATE_GOLDEN=1 cargo test --release -p terrace-crds --test generated";
    let golden = root().join("crds/tests/golden");
    let (mut tiers, policies, budgets) = parts(manifests(&root().join("examples/quickstart")));
    same_as(&golden.join("quickstart.json"), &compiled(&tiers, &policies[0], &budgets), COMMAND);
    let (cloud, policies, _) = parts(manifests(&root().join("examples/with-cloud")));
    tiers.extend(cloud);
    same_as(&golden.join("with-cloud.json"), &compiled(&tiers, &policies[0], &budgets), COMMAND);
}

#[test]
fn every_field_of_the_reference_compiles_to_the_golden_snapshot() {
    const COMMAND: &str = "UPDATE_GOLDEN=1 cargo test --release -p terrace-crds --test generated";
    let folder = root().join("crds/tests/golden");
    let (tiers, policies, budgets) = parts(manifests(&folder));
    same_as(&folder.join("full.json"), &compiled(&tiers, &policies[0], &budgets), COMMAND);
}

#[test]
fn the_revision_hangs_on_what_is_compiled_and_not_on_time_or_devices() {
    let (tiers, mut policies, budgets) = parts(manifests(&root().join("examples/quickstart")));
    let before = compiled(&tiers, &policies[0], &budgets);
    assert_eq!(before, compiled(&tiers, &policies[0], &budgets));
    policies[0].spec.overflow.max_percent = 7;
    assert_ne!(before, compiled(&tiers, &policies[0], &budgets));
}
