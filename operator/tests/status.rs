//! What status says of a tier: facts in, conditions out.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod support;

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use terrace_crds::TierStatus;
use terrace_operator::apply::{Applied, Child, ChildKind};
use terrace_operator::credentials::Trouble;
use terrace_operator::outcome::Outcome;
use terrace_operator::problem::Invalid;
use terrace_operator::report::TierView;
use terrace_operator::tier::{Facts, status};

fn facts(pods: Vec<Value>) -> Facts {
    Facts {
        pods: pods.into_iter().map(|p| Arc::new(serde_json::from_value::<Pod>(p).unwrap())).collect(),
        agents: Vec::new(),
        files: None,
        credentials: Ok(()),
        gpu: Ok(()),
        host_paths_forbidden: false,
        reported: TierView::default(),
        now: Timestamp::from_second(1_000).unwrap(),
    }
}

fn pod(name: &str, status: Value) -> Value {
    json!({"metadata": {"name": name, "uid": name}, "spec": {"nodeName": format!("node-of-{name}"), "containers": []}, "status": status})
}

fn ready() -> Value {
    json!({"conditions": [{"type": "Ready", "status": "True"}]})
}

fn failed(reason: &str, message: &str) -> Value {
    let said = json!({"reason": reason, "message": message}).to_string();
    json!({"containerStatuses": [{"name": "agent", "image": "", "imageID": "", "ready": false, "restartCount": 3,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 1, "message": said}}}]})
}

fn applied(desired: i64) -> Outcome {
    let set = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "edge-tier"},
        "spec": {"selector": {}, "template": {}},
        "status": {"desiredNumberScheduled": desired, "currentNumberScheduled": desired, "numberMisscheduled": 0, "numberReady": 0,
            "updatedNumberScheduled": desired}});
    let object = serde_json::from_value(set).unwrap();
    Outcome::Applied(Applied { children: vec![Child { kind: ChildKind::DaemonSet, object }], writes: 0, pruned: 0 })
}

fn of(spec: Value, outcome: &Outcome, facts: &Facts) -> TierStatus {
    let tier = support::tier("edge", &spec);
    status(&tier.spec, "edge", 1, &[], outcome, facts, &TierStatus::default())
}

fn said(status: &TierStatus, kind: &str) -> (String, String) {
    let all: Vec<&str> = status.conditions.iter().map(|c| c.type_.as_str()).collect();
    assert_eq!(
        all,
        ["Accepted", "FieldsActive", "ModelAvailable", "GpuAvailable", "CredentialsResolved", "Reachable", "Ready"]
    );
    let found = status.conditions.iter().find(|c| c.type_ == kind).unwrap();
    (found.status.clone(), found.reason.clone())
}

fn is(status: &TierStatus, kind: &str, value: &str, reason: &str) {
    assert_eq!(said(status, kind), (value.to_owned(), reason.to_owned()), "{kind}");
}

fn fleet() -> Value {
    json!({"boundary": "Device", "backend": {"fleet": {"workload": "DaemonSet",
        "model": {"name": "m", "source": {"claim": {"name": "models", "path": "/m.gguf"}}}}}})
}

fn endpoint() -> Value {
    json!({"boundary": "Public", "backend": {"endpoint": {"url": "https://api.example.com/v1", "model": "big",
        "credentials": {"secretRef": {"name": "cloud", "key": "apiKey"}}}}})
}

#[test]
fn a_fleet_with_some_agents_serves_and_counts_them() {
    let status = of(fleet(), &applied(3), &facts(vec![pod("a", ready()), pod("b", json!({}))]));
    assert_eq!(status.devices.as_ref().unwrap().summary, "1/3");
    is(&status, "ModelAvailable", "True", "Loaded");
    is(&status, "GpuAvailable", "True", "NotApplicable");
    is(&status, "CredentialsResolved", "True", "NotApplicable");
    is(&status, "Reachable", "Unknown", "NoReports");
    is(&status, "Ready", "True", "SomeDevices");
    assert_eq!(
        status.selector.unwrap(),
        "app.kubernetes.io/component=agent,app.kubernetes.io/name=terrace,terrace.dev/tier=edge"
    );
}

#[test]
fn what_an_agent_left_when_it_ended_is_the_reason() {
    let status =
        of(fleet(), &applied(1), &facts(vec![pod("a", failed("DigestMismatch", "the file has another digest"))]));
    is(&status, "ModelAvailable", "False", "DigestMismatch");
    is(&status, "Ready", "False", "NoDevices");
    let problem = &status.problems[0];
    assert_eq!((problem.node.as_str(), problem.message.as_str()), ("node-of-a", "the file has another digest"));
}

#[test]
fn a_revoked_key_does_not_look_ready() {
    let mut facts = facts(Vec::new());
    facts.reported.reach = vec![("r1".into(), String::new()), ("r2".into(), "CredentialRejected".into())];
    let status = of(endpoint(), &Outcome::Applied(Applied::default()), &facts);
    is(&status, "Reachable", "False", "CredentialRejected");
    is(&status, "Ready", "False", "CredentialRejected");
    assert_eq!(status.conditions[5].message, "1 of 2 routers say so");
}

#[test]
fn a_secret_that_allows_another_host_is_named() {
    let mut facts = facts(Vec::new());
    facts.credentials = Err(Trouble { reason: "HostNotAllowed", message: "annotate it".into() });
    let status = of(endpoint(), &Outcome::Applied(Applied::default()), &facts);
    is(&status, "CredentialsResolved", "False", "HostNotAllowed");
    is(&status, "Ready", "False", "HostNotAllowed");
}

#[test]
fn a_tier_that_is_refused_keeps_what_it_has() {
    let tier = support::tier("edge", &fleet());
    let facts = facts(vec![pod("a", ready())]);
    let before = status(&tier.spec, "edge", 1, &[], &applied(3), &facts, &TierStatus::default());
    let refused = Outcome::Refused(Invalid::new("HostPathNotAllowed", "use http"));
    let after = status(&tier.spec, "edge", 2, &["spec.x".into()], &refused, &facts, &before);
    is(&after, "Accepted", "False", "HostPathNotAllowed");
    is(&after, "FieldsActive", "False", "NotYetActive");
    is(&after, "Ready", "False", "HostPathNotAllowed");
    assert_eq!(after.devices.unwrap().summary, "1/3");
    assert!(after.conditions.iter().all(|c| c.observed_generation == Some(2)));
}

#[test]
fn a_replica_that_has_just_begun_keeps_what_the_last_one_heard() {
    let tier = support::tier("edge", &fleet());
    let heard = |reach: &[(&str, &str)], early| {
        let mut facts = facts(vec![pod("a", ready())]);
        facts.reported.reach = reach.iter().map(|(router, why)| ((*router).to_owned(), (*why).to_owned())).collect();
        facts.reported.saturated = u32::try_from(reach.len()).unwrap();
        facts.reported.early = early;
        facts
    };
    let said = |facts: &Facts, old: &TierStatus, generation| {
        status(&tier.spec, "edge", generation, &[], &applied(1), facts, old)
    };
    let mut before = said(&heard(&[("r1", "")], false), &TierStatus::default(), 1);
    before.model.as_mut().unwrap().digest = "sha256:seen".into();
    let taken_over = said(&heard(&[], true), &before, 1);
    assert_eq!(taken_over, before, "nothing changed, so nothing may be written");
    is(&said(&heard(&[("r1", "Timeout")], true), &before, 1), "Reachable", "False", "Timeout");
    is(&said(&heard(&[], false), &before, 1), "Reachable", "Unknown", "NoReports");
    is(&said(&heard(&[], true), &before, 2), "Reachable", "Unknown", "NoReports");
}
