//! RBAC no wider than used: every permission of the chart was used by the operator in this run, and none was missing.

use std::collections::BTreeSet;

use anyhow::Context;
use serde_json::Value;

use super::{SYSTEM, Scene};
use crate::steps::Steps;
use crate::wait::secs;

/// While the operator is installed: nothing that it asked for was refused. (Once the chart is going, its permissions go as well.)
pub(super) async fn missing(scene: &Scene<'_>, steps: &mut Steps) -> Option<()> {
    steps
        .step("no permission is missing", secs(20), async {
            let refused: BTreeSet<String> =
                events(scene)?.iter().filter(|e| e["responseStatus"]["code"] == 403).map(asked).collect();
            anyhow::ensure!(refused.is_empty(), "the API server refused: {refused:?}");
            Ok(())
        })
        .await
}

/// At the end: every permission was used.
pub(super) async fn needless(scene: &Scene<'_>, steps: &mut Steps) -> Option<()> {
    steps
        .step("no permission is needless", secs(30), async {
            let events = events(scene)?;
            let allowed = || events.iter().filter(|e| e["responseStatus"]["code"] != 403);
            // An apply that makes an object needs `create` as well, though it is asked for as a patch.
            let made = allowed().filter(|e| e["verb"] == "patch" && e["responseStatus"]["code"] == 201);
            let used: BTreeSet<String> =
                allowed().map(asked).chain(made.map(|e| asked(e).replacen("patch", "create", 1))).collect();
            let granted = granted(scene).await?;
            anyhow::ensure!(granted.len() > 10, "the chart grants {granted:?}");
            let needless: Vec<_> = granted.difference(&used).collect();
            anyhow::ensure!(needless.is_empty(), "granted and not used: {needless:?}\nused: {used:?}");
            Ok(())
        })
        .await
}

/// What the operator asked for in the whole run, from the API server's audit log.
fn events(scene: &Scene<'_>) -> anyhow::Result<Vec<Value>> {
    let operator = format!("system:serviceaccount:{SYSTEM}:terrace-operator");
    let events: Vec<Value> =
        scene.machine.audit()?.into_iter().filter(|e| e["user"]["username"] == operator.as_str()).collect();
    anyhow::ensure!(!events.is_empty(), "no request of {operator}");
    Ok(events)
}

/// `verb group/resource` of one request.
fn asked(event: &Value) -> String {
    let object = &event["objectRef"];
    let part = |name: &str| object[name].as_str().unwrap_or_default();
    let resource = match part("subresource") {
        "" => part("resource").to_owned(),
        sub => format!("{}/{sub}", part("resource")),
    };
    format!("{} {}/{resource}", event["verb"].as_str().unwrap_or_default(), part("apiGroup"))
}

/// The same of every rule of the chart.
async fn granted(scene: &Scene<'_>) -> anyhow::Result<BTreeSet<String>> {
    let chart = scene.place.arg("charts/terrace");
    let text = scene
        .machine
        .helm(&["template", "terrace", &chart, "--namespace", SYSTEM, "--show-only", "templates/rbac.yaml"])
        .await?;
    let roles = scene.machine.as_json(&text).await?;
    let list = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut granted = BTreeSet::new();
    for rule in roles.iter().filter_map(|r| r["rules"].as_array()).flatten() {
        for group in list(&rule["apiGroups"]) {
            for resource in list(&rule["resources"]) {
                granted.extend(list(&rule["verbs"]).iter().map(|verb| format!("{verb} {group}/{resource}")));
            }
        }
    }
    (!granted.is_empty()).then_some(granted).context("the chart has no rules")
}
