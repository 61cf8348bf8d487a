//! Everything that a namespace holds of Terrace, without what differs from one run to the next: what two runs are
//! compared by.

use std::collections::BTreeMap;

use anyhow::Context;
use serde_json::Value;

use super::super::rest::Rest;

/// The kinds, which give the names to UIDs.
const KINDS: [&str; 3] = ["tiers", "routingpolicies", "latencybudgets"];
/// What their children are, as paths below a namespace are made of.
const CHILDREN: [(&str, &str); 8] = [
    ("api/v1", "serviceaccounts"),
    ("api/v1", "secrets"),
    ("api/v1", "configmaps"),
    ("api/v1", "services"),
    ("apis/networking.k8s.io/v1", "networkpolicies"),
    ("apis/policy/v1", "poddisruptionbudgets"),
    ("apis/apps/v1", "daemonsets"),
    ("apis/apps/v1", "deployments"),
];
/// Members that no two runs share. `generation` stays: an object that was changed on the way is not the same.
const OWN: [&str; 13] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "managedFields",
    "clusterIP",
    "clusterIPs",
    "lastTransitionTime",
    "notAfter",
    "revision",
    "issuedAtUs",
    "signature",
    "terrace.dev/wanted",
    "since",
];

/// Objects by `resource/name`.
pub(super) type Objects = BTreeMap<String, Value>;

/// The path of a resource's list.
pub(super) fn path(group: &str, namespace: &str, resource: &str) -> String {
    format!("/{group}/namespaces/{namespace}/{resource}")
}

/// The group of Terrace's kinds, as paths have it.
pub(super) const TERRACE: &str = "apis/terrace.dev/v1alpha1";

/// All of them.
pub(super) async fn of(rest: &Rest, namespace: &str) -> anyhow::Result<Objects> {
    let mut lists = Vec::new();
    let mut names = vec![(namespace.to_owned(), "NAMESPACE".to_owned())];
    for resource in KINDS {
        let list = rest.get(&path(TERRACE, namespace, resource)).await?;
        for object in items(&list) {
            names.push((text(object, "uid")?, format!("UID-OF-{resource}-{}", text(object, "name")?)));
        }
        lists.push((resource, list));
    }
    for (group, resource) in CHILDREN {
        lists.push((resource, rest.get(&path(group, namespace, resource)).await?));
    }
    let mut objects = Objects::new();
    for (resource, list) in &lists {
        for object in items(list) {
            let told = names.iter().fold(object.to_string(), |told, (from, to)| told.replace(from, to));
            let mut plain: Value = serde_json::from_str(&told)?;
            scrub(resource, &mut plain)?;
            objects.insert(format!("{resource}/{}", text(object, "name")?), plain);
        }
    }
    Ok(objects)
}

/// What is not the same in both; none: nothing.
pub(super) fn difference(wanted: &Objects, have: &Objects) -> Option<String> {
    let differs = |key: &&String| wanted.get(*key) != have.get(*key);
    let key = wanted.keys().chain(have.keys()).find(differs)?;
    let (wanted, have) = (wanted.get(key), have.get(key));
    Some(match (wanted, have) {
        (Some(_), None) => format!("{key} is missing"),
        (None, _) => format!("{key} is too much"),
        (Some(wanted), Some(have)) => format!("{key} differs{}", first(wanted, have, String::new())),
    })
}

fn first(wanted: &Value, have: &Value, at: String) -> String {
    if let (Value::Object(a), Value::Object(b)) = (wanted, have) {
        let differs = |key: &&String| a.get(*key) != b.get(*key);
        if let Some(key) = a.keys().chain(b.keys()).find(differs) {
            let of = |map: &serde_json::Map<String, Value>| map.get(key).cloned().unwrap_or_default();
            return first(&of(a), &of(b), format!("{at}.{key}"));
        }
    }
    format!(" at {at}: wanted {wanted}, have {have}")
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list["items"].as_array().into_iter().flatten()
}

fn text(object: &Value, field: &str) -> anyhow::Result<String> {
    object["metadata"][field].as_str().map(str::to_owned).with_context(|| format!("no {field} in {object}"))
}

fn scrub(resource: &str, object: &mut Value) -> anyhow::Result<()> {
    match resource {
        // What controllers of Kubernetes say of their own work comes when it comes.
        "deployments" | "daemonsets" | "services" | "poddisruptionbudgets" => {
            object["status"].take();
        }
        "secrets" => {
            for (_, value) in object["data"].as_object_mut().into_iter().flatten() {
                value.take();
            }
        }
        "configmaps" => {
            if let Some(document) = object["data"]["snapshot.json"].as_str() {
                object["data"]["snapshot.json"] = serde_json::from_str(document)?;
            }
        }
        _ => {}
    }
    plain(object);
    Ok(())
}

fn plain(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, _| !OWN.contains(&key.as_str()));
            map.values_mut().for_each(plain);
        }
        Value::Array(items) => items.iter_mut().for_each(plain),
        _ => {}
    }
}
