//! Taking it down: the operator first, with the routers going on; then kinds and charts, of which only the definitions stay.

use serde_json::Value;

use super::install::chart;
use super::{SHOP, SYSTEM, Scene};
use crate::steps::Steps;
use crate::wait::{self, secs};

/// Uninstall, reinstall, delete, uninstall.
pub(super) async fn steps(scene: &Scene<'_>, steps: &mut Steps) -> Option<()> {
    let machine = &scene.machine;
    steps
        .step("kubectl get tr,rp,lb fills its columns", secs(60), async {
            let table = machine.kubectl(&["--namespace", SHOP, "get", "tr,rp,lb", "-o", "wide"]).await?;
            for column in ["BOUNDARY", "BACKEND", "LADDER", "ATTAINED", "edge>private>cloud", "DaemonSet", "Endpoint"] {
                anyhow::ensure!(table.to_lowercase().contains(&column.to_lowercase()), "no {column} in\n{table}");
            }
            std::fs::write(scene.place.at("target/e2e/kubectl-get.txt"), table)?;
            Ok(())
        })
        .await;
    steps
        .step("with the operator uninstalled the routers go on", secs(150), async {
            machine.helm(&["uninstall", "terrace", "--namespace", SYSTEM, "--wait"]).await?;
            gone(scene, &["--namespace", SYSTEM, "pods"]).await?;
            for _ in 0..3 {
                scene.ask_one(|q| q, "Are you there?").await?.from("edge")?;
            }
            Ok(())
        })
        .await?;
    steps
        .step("reinstalled, the operator takes up what it built", secs(240), async {
            chart(scene, "install", &[]).await?;
            wait::until("a Ready policy and an answer", secs(60), async || {
                machine.condition(SHOP, "routingpolicy/assistant", "Programmed", secs(10)).await?;
                scene.ask_one(|q| q, "Hello again").await?.from("edge").map(drop)
            })
            .await
        })
        .await;
    steps
        .step("with the kinds deleted their children go", secs(150), async {
            machine
                .run(
                    &[
                        "kubectl",
                        "--namespace",
                        SHOP,
                        "delete",
                        "routingpolicies,latencybudgets,tiers",
                        "--all",
                        "--wait",
                        "--timeout=60s",
                    ],
                    secs(70),
                )
                .await?;
            gone(scene, &["--namespace", SHOP, "all,networkpolicies,poddisruptionbudgets"]).await?;
            let left = names(&machine.get(&["--namespace", SHOP, "secrets,configmaps,serviceaccounts"]).await?);
            let ours: Vec<_> = left
                .iter()
                .filter(|n| !["cloud", "assistant-keys", "kube-root-ca.crt", "default"].contains(&n.as_str()))
                .collect();
            anyhow::ensure!(ours.is_empty(), "left in {SHOP}: {ours:?}");
            Ok(())
        })
        .await;
    steps.step("with the chart uninstalled only the definitions are left", secs(120), async {
        machine.helm(&["uninstall", "terrace", "--namespace", SYSTEM, "--wait"]).await?;
        gone(scene, &["--namespace", SYSTEM, "all,leases,secrets,roles,rolebindings,poddisruptionbudgets"]).await?;
        let cluster = names(&machine.get(&["clusterroles,clusterrolebindings,validatingwebhookconfigurations,mutatingwebhookconfigurations"]).await?);
        let ours: Vec<_> = cluster.iter().filter(|n| n.contains("terrace")).collect();
        anyhow::ensure!(ours.is_empty(), "left: {ours:?}");
        let kinds = names(&machine.get(&["customresourcedefinitions"]).await?);
        anyhow::ensure!(kinds.iter().filter(|n| n.ends_with(".terrace.dev")).count() == 3, "definitions: {kinds:?}");
        Ok(())
    }).await
}

async fn gone(scene: &Scene<'_>, words: &[&str]) -> anyhow::Result<()> {
    wait::until(&format!("no {}", words.join(" ")), secs(60), async || {
        let left = names(&scene.machine.get(words).await?);
        anyhow::ensure!(left.is_empty(), "left: {left:?}");
        Ok(())
    })
    .await
}

fn names(list: &Value) -> Vec<String> {
    list["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|i| i["metadata"]["name"].as_str())
        .map(str::to_owned)
        .collect()
}
