//! Plain objects for pure tests, and golden files.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::path::Path;

use serde_json::{Value, json};
use terrace_contract::snapshot::Snapshot;
use terrace_crds::{RoutingPolicy, Tier};
use terrace_operator::apply::Owner;
use terrace_operator::children::Site;
use terrace_operator::credentials::Entry;
use terrace_operator::pki::Files;
use terrace_operator::policy::{Credentials, ValidPolicy};
use terrace_operator::{policy, tier as tiers};

pub fn site() -> Site {
    Site {
        namespace: "terrace-system".into(),
        router_image: "localhost/terrace-router:test".into(),
        agent_image: "localhost/terrace-agent:test".into(),
        agent_cuda_image: "localhost/terrace-agent-cuda:test".into(),
        otlp_endpoint: Some("http://jaeger:4318".into()),
        allowed_host_paths: vec!["/models/".into()],
    }
}

pub fn owner(kind: &str, name: &str) -> Owner {
    Owner {
        api_version: "terrace.dev/v1alpha1".into(),
        kind: kind.into(),
        namespace: "shop".into(),
        name: name.into(),
        uid: format!("uid-of-{name}"),
    }
}

pub fn files() -> Files {
    ["ca.crt", "tls.crt", "tls.key"].map(|name| (name.to_owned(), name.as_bytes().to_vec())).into()
}

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "terrace.dev/v1alpha1", "kind": kind,
        "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-of-{name}"), "generation": 1},
        "spec": spec,
    })
}

pub fn tier(name: &str, spec: &Value) -> Tier {
    serde_json::from_value(object("Tier", name, spec)).unwrap()
}

pub fn tier_children(name: &str, spec: &Value) -> Vec<Value> {
    let valid = tiers::validate(owner("Tier", name), &tier(name, spec), &site()).unwrap();
    tiers::build(&valid, files(), &site()).to_json()
}

pub fn policy_children(name: &str, spec: &Value) -> Vec<Value> {
    let parsed: RoutingPolicy = serde_json::from_value(object("RoutingPolicy", name, spec)).unwrap();
    let valid = ValidPolicy {
        owner: owner("RoutingPolicy", name),
        api_keys_secret: parsed.spec.access.api_keys.as_ref().map(|k| k.secret_ref.name.to_string()),
        tls_secret: parsed.spec.listener.as_ref().map(|l| l.tls.secret_ref.name.to_string()),
        spec: parsed.spec,
        mounted: snapshot(),
        credentials: vec![Credentials {
            tier_uid: "uid-of-cloud".into(),
            entries: vec![Entry { secret: "cloud".into(), key: "apiKey".into(), file: "apiKey".into() }],
        }],
    };
    policy::build(&valid, files(), &site()).to_json()
}

fn snapshot() -> Snapshot {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/contract/tests/golden/snapshot.json");
    serde_json::from_str(&std::fs::read_to_string(golden).unwrap()).unwrap()
}

/// Compares children with a golden file.
pub fn compare(name: &str, children: &[Value]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.json"));
    let text = serde_json::to_string_pretty(children).unwrap() + "\n";
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        text == golden,
        "{name} differs: run UPDATE_GOLDEN=1 cargo test --release -p terrace-operator --test build, and read the difference\n{}",
        first_difference(&golden, &text)
    );
}

fn first_difference(golden: &str, text: &str) -> String {
    let at = golden.lines().zip(text.lines()).position(|(a, b)| a != b).unwrap_or(0);
    let line = |text: &str| text.lines().nth(at).unwrap_or_default().to_owned();
    format!("line {}:\n- {}\n+ {}", at + 1, line(golden), line(text))
}
