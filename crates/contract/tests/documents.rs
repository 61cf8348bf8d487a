//! Each document has a checked-in JSON Schema and a golden; `UPDATE_SCHEMA=1` rewrites the schemas.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use terrace_contract::explanation::Explanation;
use terrace_contract::reason::Reason;
use terrace_contract::report::Report;
use terrace_contract::snapshot::Snapshot;
use terrace_contract::status::{AgentStatus, Termination};
use terrace_contract::{SCHEMA_VERSION, check_version};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn document<T: Serialize + DeserializeOwned + JsonSchema>(name: &str) -> T {
    let golden = folder().join(format!("tests/golden/{name}.json"));
    let text = std::fs::read_to_string(&golden).unwrap();
    let read: T = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
    let written = serde_json::to_value(&read).unwrap();
    let golden: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(written, golden, "{name}: what is written is not what was read");

    let mut more = golden.clone();
    more["aFieldOfALaterVersion"] = Value::Bool(true);
    serde_json::from_value::<T>(more).unwrap_or_else(|e| panic!("{name}: unknown fields are ignored: {e}"));

    let schema = serde_json::to_value(schemars::schema_for!(T)).unwrap();
    let path = folder().join(format!("schema/{name}.schema.json"));
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(&path, serde_json::to_string_pretty(&schema).unwrap() + "\n").unwrap();
    }
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap_or_default()).unwrap_or_default();
    assert_eq!(
        kept, schema,
        "{name}: run UPDATE_SCHEMA=1 cargo test --release -p terrace-contract, and read the difference"
    );
    read
}

#[test]
fn snapshot() {
    let snapshot: Snapshot = document("snapshot");
    assert_eq!(snapshot.revision, snapshot.digest(), "the golden carries its own revision");
    let mut moved = snapshot.clone();
    moved.devices[0].address = "10.0.0.9".into();
    moved.issued_at_us += 1;
    assert_eq!(moved.digest(), snapshot.digest(), "devices and time are not part of the revision");
    moved.policy.limits.concurrency += 1;
    assert_ne!(moved.digest(), snapshot.digest());
}

#[test]
fn report() {
    document::<Report>("report");
}

#[test]
fn status() {
    document::<AgentStatus>("status");
}

#[test]
fn termination() {
    document::<Termination>("termination");
}

#[test]
fn explanation() {
    document::<Explanation>("explanation");
}

#[test]
fn every_reason_has_a_sentence() {
    for reason in Reason::ALL {
        let said = reason.sentence();
        assert!(said.ends_with('.') && said.starts_with(char::is_uppercase), "{reason}: {said}");
    }
}

#[test]
fn an_unknown_version_is_refused_by_name() {
    assert!(check_version(SCHEMA_VERSION).is_ok());
    assert!(check_version(7).unwrap_err().to_string().contains("schemaVersion 7"));
}

#[test]
fn a_snapshot_older_in_any_generation_is_older() {
    let snapshot: Snapshot = document("snapshot");
    let mut newer = snapshot.generations.clone();
    assert!(!snapshot.generations.older_than(&newer));
    newer.policy += 1;
    assert!(snapshot.generations.older_than(&newer));
    let mut mixed = newer.clone();
    for generation in mixed.tiers.values_mut() {
        *generation -= 1;
    }
    assert!(mixed.older_than(&newer), "one older tier is enough");
}
