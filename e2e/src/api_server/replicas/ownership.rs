//! What is Terrace's and what is not: children that a changed spec no longer wants go, what belongs to others is left alone.

use anyhow::ensure;
use serde_json::{Value, json};

use super::super::audit::Request;
use super::objects::{self, path};
use super::pair::Pair;
use super::proxy::Fault;
use super::{apply_quick_start, condition, make_namespace, quick_start, quiet};
use crate::steps::Steps;
use crate::wait::{self, secs};

/// Prune and conflicts of names.
pub(super) async fn steps(pair: &mut Pair<'_>, steps: &mut Steps) {
    steps
        .step("a child that a changed spec no longer wants goes, and what is not ours stays", secs(90), prune(pair))
        .await;
    steps
        .step(
            "a name that something else has is Accepted=False/NameConflict, and heals when that goes",
            secs(90),
            conflict(pair),
        )
        .await;
    steps.step("something that takes a name in the very moment is not adopted", secs(60), race(pair)).await;
}

async fn prune(pair: &Pair<'_>) -> anyhow::Result<()> {
    let namespace = "prune";
    make_namespace(&pair.rest, namespace).await?;
    // Someone else's: one says that it is ours, but no object of ours owns it.
    let label = json!({"app.kubernetes.io/managed-by": "terrace-operator"});
    let meta = json!({"name": "theirs", "labels": label});
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta,
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"of": "theirs"}}}});
    pair.rest.post(&path("apis/policy/v1", namespace, "poddisruptionbudgets"), &budget).await?;
    apply_quick_start(pair.place, pair.server, namespace).await?;
    let deployed = [
        "daemonsets/edge-tier",
        "deployments/assistant-router",
        "deployments/private-tier",
        "poddisruptionbudgets/assistant-router",
        "poddisruptionbudgets/theirs",
    ];
    workloads(pair, namespace, &deployed).await?;
    let change = async |workload: &str, replicas: Value| -> anyhow::Result<()> {
        let fleet = json!({"workload": workload, "replicas": replicas});
        let tier = path(objects::TERRACE, namespace, "tiers/private");
        pair.rest.patch(&tier, &json!({"spec": {"backend": {"fleet": fleet}}})).await?;
        let policy = path(objects::TERRACE, namespace, "routingpolicies/assistant");
        pair.rest.patch(&policy, &json!({"spec": {"router": fleet}})).await.map(drop)
    };
    change("DaemonSet", Value::Null).await?;
    let everywhere = [
        "daemonsets/assistant-router",
        "daemonsets/edge-tier",
        "daemonsets/private-tier",
        "poddisruptionbudgets/theirs",
    ];
    workloads(pair, namespace, &everywhere).await?;
    change("Deployment", json!(1)).await?;
    workloads(pair, namespace, &deployed).await
}

/// Waits until a namespace has exactly these, in this order, of the kinds that come and go.
async fn workloads(pair: &Pair<'_>, namespace: &str, wanted: &[&str]) -> anyhow::Result<()> {
    wait::until("the children that are wanted, and no others", secs(40), async || {
        let all = objects::of(&pair.rest, namespace).await?;
        let comes =
            |key: &&str| ["daemonsets/", "deployments/", "poddisruptionbudgets/"].iter().any(|k| key.starts_with(k));
        let have: Vec<&str> = all.keys().map(String::as_str).filter(comes).collect();
        ensure!(have == wanted, "wanted {wanted:?}, have {have:?}");
        Ok(())
    })
    .await
}

async fn conflict(pair: &Pair<'_>) -> anyhow::Result<()> {
    let namespace = "taken";
    make_namespace(&pair.rest, namespace).await?;
    let port = json!({"ports": [{"port": 80}]});
    let strangers = [
        ("services", json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "assistant"}, "spec": port})),
        // What an earlier installation may have left: our labels, and no owner.
        (
            "serviceaccounts",
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata":
                {"name": "private-tier", "labels": {"app.kubernetes.io/managed-by": "terrace-operator"}}}),
        ),
    ];
    for (resource, object) in &strangers {
        pair.rest.post(&path("api/v1", namespace, resource), object).await?;
    }
    let stranger = async |at: usize| {
        let (resource, object) = &strangers[at];
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let path = path("api/v1", namespace, &format!("{resource}/{name}"));
        anyhow::Ok((pair.rest.get(&path).await?, path))
    };
    let before = [stranger(0).await?.0, stranger(1).await?.0];
    apply_quick_start(pair.place, pair.server, namespace).await?;
    let objects =
        [("routingpolicies/assistant", "Service \"assistant\""), ("tiers/private", "ServiceAccount \"private-tier\"")];
    for (object, said) in objects {
        conflicts(pair, namespace, object, said).await?;
    }
    accepted(pair, namespace, "tiers/edge").await?;
    // No watch shows strangers, so only looking again finds that they went.
    quiet(&pair.audit, 0, secs(1)).await?;
    let mark = pair.audit.mark()?;
    wait::until("two more looks at the name", secs(20), async || {
        let looks = |r: &Request| r.verb == "get" && r.namespace == namespace && r.resource == "/services";
        let looks = pair.audit.since(mark)?.into_iter().filter(looks).count();
        ensure!(looks >= 2, "{looks} looks");
        Ok(())
    })
    .await?;
    for (at, before) in before.iter().enumerate() {
        let (now, _) = stranger(at).await?;
        ensure!(now == *before, "it was changed: {before} is now {now}");
    }
    for at in 0..2 {
        pair.rest.delete(&stranger(at).await?.1).await?;
    }
    for (object, _) in objects {
        accepted(pair, namespace, object).await?;
    }
    let (service, _) = stranger(0).await?;
    ensure!(service["metadata"]["ownerReferences"][0]["kind"] == "RoutingPolicy", "the Service is {service}");
    Ok(())
}

/// The operator has just read that nothing has the name.
async fn race(pair: &Pair<'_>) -> anyhow::Result<()> {
    let namespace = "race";
    let service = path("api/v1", namespace, "services/assistant");
    let proxy = pair.proxy(pair.settled().await?);
    proxy.arm(Fault::Held(service.clone()));
    quick_start(pair.place, pair.server, namespace).await?;
    wait::until("the operator to look for the name", secs(20), async || {
        ensure!(proxy.held() > 0, "it has not yet");
        Ok(())
    })
    .await?;
    let stranger = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "assistant"},
        "spec": {"ports": [{"name": "theirs", "port": 8080}]}});
    let before = pair.rest.post(&path("api/v1", namespace, "services"), &stranger).await?;
    proxy.arm(Fault::None);
    conflicts(pair, namespace, "routingpolicies/assistant", "Service \"assistant\"").await?;
    let now = pair.rest.get(&service).await?;
    ensure!(now == before, "it was changed: {before} is now {now}");
    Ok(())
}

async fn conflicts(pair: &Pair<'_>, namespace: &str, object: &str, said: &str) -> anyhow::Result<()> {
    wait::until("Accepted=False/NameConflict", secs(20), async || {
        let (status, reason, message) = condition(&pair.rest, namespace, object, "Accepted").await?;
        ensure!(status == "False" && reason == "NameConflict" && message.contains(said), "{status} {reason} {message}");
        Ok(())
    })
    .await
}

async fn accepted(pair: &Pair<'_>, namespace: &str, object: &str) -> anyhow::Result<()> {
    wait::until("Accepted=True", secs(30), async || {
        let said = condition(&pair.rest, namespace, object, "Accepted").await?;
        ensure!(said.0 == "True", "{object}: {said:?}");
        Ok(())
    })
    .await
}
