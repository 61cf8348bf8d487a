//! Layer 3: a real API server without nodes: the kinds and their refusals, the charts, the operator and its permissions.

mod charts;
mod operator;
mod server;

use std::process::ExitCode;

use crate::Place;
use crate::steps::Steps;
use crate::wait::secs;
use server::ApiServer;

/// Runs the suite.
pub async fn run(place: &Place) -> anyhow::Result<ExitCode> {
    let mut steps = Steps::new("api-server", None);
    let Some(mut server) = steps.step("a real API server is ready", secs(150), ApiServer::up()).await else {
        return Ok(steps.end());
    };
    charts::steps(place, &server, &mut steps).await;
    if kinds(place, &server, &mut steps).await.is_some() {
        let _ = operator::steps(place, &mut server, &mut steps).await;
    }
    Ok(steps.end())
}

/// The kinds are accepted, within the API server's limits for CEL, and established.
async fn kinds(place: &Place, server: &ApiServer, steps: &mut Steps) -> Option<()> {
    steps
        .step("the API server takes the kinds", secs(60), async {
            server.kubectl(&["apply", "--server-side", "-f", &place.arg("charts/terrace-crds/templates")]).await?;
            let words = [
                "wait",
                "--for=condition=Established",
                "--timeout=20s",
                "crd/tiers.terrace.dev",
                "crd/routingpolicies.terrace.dev",
                "crd/latencybudgets.terrace.dev",
            ];
            server.kubectl(&words).await.map(drop)
        })
        .await?;
    steps
        .step("it takes the quick start as it is", secs(30), async {
            server
                .kubectl(&["apply", "--dry-run=server", "--validate=strict", "-f", &place.arg("examples/quickstart")])
                .await
                .map(drop)
        })
        .await?;
    steps
        .step("a manifest with a typo is refused by name", secs(30), async {
            let manifest = std::fs::read_to_string(place.at("examples/quickstart/policy.yaml"))?
                .replace("sensitivity:", "sensitivty:");
            let command = server.command(&["create", "--dry-run=server", "-f", "-"]);
            let done = crate::shell::output(command, Some(&manifest), secs(20)).await?;
            anyhow::ensure!(
                done.code != 0 && done.stderr.contains("spec.sensitivty"),
                "{}{}",
                done.stdout,
                done.stderr
            );
            Ok(())
        })
        .await;
    steps
        .step("it takes the three-tier manifests as they are", secs(30), async {
            server
                .kubectl(&[
                    "apply",
                    "--dry-run=server",
                    "--validate=strict",
                    "-f",
                    &place.arg("e2e/manifests/three-tiers.yaml"),
                ])
                .await
                .map(drop)
        })
        .await
}
