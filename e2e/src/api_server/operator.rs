//! The operator as a process of this machine against the real API server, with the permissions of the chart and no others.

use anyhow::ensure;
use serde_json::Value;

use super::process::{Operator, SYSTEM, Start};
use super::server::ApiServer;
use super::{SHOP, corpus};
use crate::Place;
use crate::conditions::condition;
use crate::steps::Steps;
use crate::wait::{self, secs};

/// What the operator may do: the chart's permissions, and an account without any.
pub(super) async fn permissions(place: &Place, server: &ApiServer, steps: &mut Steps) -> Option<()> {
    steps
        .step("the chart's permissions are applied", secs(60), async {
            server.kubectl(&["create", "namespace", SYSTEM]).await?;
            let chart = place.arg("charts/terrace");
            let mut words = vec!["template", "terrace", chart.as_str(), "--namespace", SYSTEM];
            for file in ["templates/rbac.yaml", "templates/serviceaccount.yaml", "templates/state.yaml"] {
                words.extend(["--show-only", file]);
            }
            let done = server.helm(&words).await?;
            ensure!(done.code == 0, "{}", done.stderr);
            server.apply(&done.stdout).await?;
            server.kubectl(&["--namespace", SYSTEM, "create", "serviceaccount", "nobody"]).await.map(drop)
        })
        .await
}

/// Without permissions; with the chart's; with the API server gone for a while.
pub(super) async fn steps(place: &Place, server: &mut ApiServer, steps: &mut Steps) -> Option<()> {
    let direct = |account| Start { account, name: account, through: None, port: 0 };
    steps
        .step("an operator without permissions says which, and stays", secs(90), async {
            let operator = Operator::start(place, server, direct("nobody")).await?;
            let said = wait::until("readiness that names what is refused", secs(40), async || {
                let (code, body) = operator.get("/readyz").await?;
                ensure!(code != 200 && body.contains("forbidden"), "{code} {body}");
                Ok(body)
            })
            .await?;
            ensure!(operator.get("/livez").await?.0 == 200, "it is not alive; /readyz said {said}");
            Ok(())
        })
        .await;
    let operator = steps
        .step("with the chart's permissions it becomes ready", secs(90), async {
            let operator = Operator::start(place, server, direct("terrace-operator")).await?;
            operator.ready().await?;
            Ok(operator)
        })
        .await?;
    corpus::refused_in_status(place, server, steps).await;
    steps
        .step("the quick start becomes its children", secs(90), async {
            server.kubectl(&["--namespace", SHOP, "apply", "-f", &place.arg("examples/quickstart")]).await?;
            for child in [
                "daemonset/edge-tier",
                "deployment/private-tier",
                "deployment/assistant-router",
                "service/assistant",
                "networkpolicy/assistant-router",
                "poddisruptionbudget/assistant-router",
            ] {
                exists(server, child).await?;
            }
            Ok(())
        })
        .await;
    steps
        .step("a child that someone deletes or changes comes back as it was", secs(60), async {
            let read = async || -> anyhow::Result<Value> {
                Ok(serde_json::from_str(
                    &server.kubectl(&["--namespace", SHOP, "get", "daemonset", "edge-tier", "-o", "json"]).await?,
                )?)
            };
            let before = read().await?;
            server.kubectl(&["--namespace", SHOP, "delete", "daemonset", "edge-tier"]).await?;
            exists(server, "daemonset/edge-tier").await?;
            let image = |set: &Value| set["spec"]["template"]["spec"]["containers"][0]["image"].clone();
            ensure!(image(&read().await?) == image(&before), "another image");
            server.kubectl(&["--namespace", SHOP, "set", "image", "daemonset/edge-tier", "agent=elsewhere:1"]).await?;
            wait::until("the image to be as it was", secs(20), async || {
                ensure!(image(&read().await?) == image(&before), "the changed image stays");
                Ok(())
            })
            .await
        })
        .await;
    steps
        .step("the operator outlives the API server", secs(150), async {
            server.stop_api_server().await?;
            wait::until("readiness that says the API server is away", secs(60), async || {
                let (code, body) = operator.get("/livez").await?;
                ensure!(code == 200, "not alive: {body}");
                Ok(())
            })
            .await?;
            server.start_api_server().await?;
            server.kubectl(&["--namespace", SHOP, "delete", "tier", "private", "--wait=false"]).await?;
            wait::until("the deletion to be seen", secs(60), async || {
                let policy: Value = serde_json::from_str(
                    &server.kubectl(&["--namespace", SHOP, "get", "routingpolicy", "assistant", "-o", "json"]).await?,
                )?;
                let refs = condition(&policy, "ResolvedRefs");
                ensure!(refs.is_some_and(|c| c["status"] == "False"), "ResolvedRefs: {refs:?}");
                Ok(())
            })
            .await
        })
        .await;
    steps.step("on SIGTERM it ends with 0", secs(30), operator.stop()).await
}

async fn exists(server: &ApiServer, object: &str) -> anyhow::Result<()> {
    wait::until(object, secs(40), async || server.kubectl(&["--namespace", SHOP, "get", object]).await.map(drop)).await
}
