//! Changes of a spec: what it no longer wants goes, and what it cannot have is named.

use serde_json::{Value, json};

use super::{SHOP, Scene};
use crate::conditions::condition;
use crate::steps::Steps;
use crate::wait::secs;

/// Routers as DaemonSet and back; a device that no node has; a reference to nothing.
pub(super) async fn steps(scene: &Scene<'_>, steps: &mut Steps) -> Option<()> {
    let machine = &scene.machine;
    steps
        .step("routers become a DaemonSet and a Deployment again, and what they were goes", secs(120), async {
            for (workload, other) in
                [("Deployment", "daemonset"), ("DaemonSet", "deployment"), ("Deployment", "daemonset")]
            {
                machine.apply(SHOP, &[policy(workload)]).await?;
                let wanted = format!("{}/second-router", workload.to_lowercase());
                machine.until(&wanted, &["--namespace", SHOP, &wanted], secs(40), |_| true).await?;
                let gone = |list: &Value| {
                    list["items"]
                        .as_array()
                        .is_some_and(|l| !l.iter().any(|o| o["metadata"]["name"] == "second-router"))
                };
                machine.until(&format!("no {other}"), &["--namespace", SHOP, other], secs(40), gone).await?;
            }
            machine.kubectl(&["--namespace", SHOP, "delete", "routingpolicy", "second"]).await
        })
        .await;
    steps
        .step("a tier that wants a device which no node has says so", secs(60), async {
            machine.apply(SHOP, &[gpu_tier()]).await?;
            let says = |tier: &Value| {
                condition(tier, "GpuAvailable")
                    .is_some_and(|c| c["status"] == "False" && c["reason"] == "RuntimeClassMissing")
            };
            machine.until("GpuAvailable=False", &["--namespace", SHOP, "tier", "gpu"], secs(30), says).await?;
            machine.kubectl(&["--namespace", SHOP, "delete", "tier", "gpu"]).await
        })
        .await;
    steps
        .step("a reference to nothing is ResolvedRefs=False, and heals by itself", secs(90), async {
            let budget = json!({"apiVersion": "terrace.dev/v1alpha1", "kind": "LatencyBudget", "metadata": {"name": "later"},
                "spec": {"policyRef": {"name": "second"}, "firstToken": "1s", "total": "10s", "objective": "99", "window": "720h", "onMiss": "Overflow", "priority": "Batch"}});
            machine.apply(SHOP, &[budget]).await?;
            let refs = |status: &'static str| move |b: &Value| condition(b, "ResolvedRefs").is_some_and(|c| c["status"] == status);
            let words = ["--namespace", SHOP, "latencybudget", "later"];
            machine.until("ResolvedRefs=False", &words, secs(30), refs("False")).await?;
            machine.apply(SHOP, &[policy("Deployment")]).await?;
            machine.until("ResolvedRefs=True", &words, secs(30), refs("True")).await?;
            machine.kubectl(&["--namespace", SHOP, "delete", "latencybudget/later", "routingpolicy/second"]).await
        })
        .await
        .map(drop)
}

fn policy(workload: &str) -> Value {
    let router = if workload == "Deployment" {
        json!({"workload": workload, "replicas": 1})
    } else {
        json!({"workload": workload})
    };
    json!({"apiVersion": "terrace.dev/v1alpha1", "kind": "RoutingPolicy", "metadata": {"name": "second"},
        "spec": {"tiers": [{"name": "edge"}], "objective": {"preset": "Balanced"}, "access": {"anonymous": {}}, "sensitivity": {"unlabelled": "Internal"}, "router": router}})
}

fn gpu_tier() -> Value {
    let sha = "0".repeat(64);
    json!({"apiVersion": "terrace.dev/v1alpha1", "kind": "Tier", "metadata": {"name": "gpu"},
        "spec": {"boundary": "Device", "region": "here", "processor": "Shop GmbH", "backend": {"fleet": {"workload": "DaemonSet",
            "model": {"name": "large", "source": {"http": {"url": "http://models.models.svc/large.gguf"}}, "sha256": sha},
            "engine": {"device": "Cuda"}, "gpu": {"resource": "nvidia.com/gpu", "runtimeClassName": "nowhere"}}}}})
}
