//! Layer 3: a real API server without nodes: the kinds and their refusals, the charts, the operator and its permissions,
//! the operator stopped and cut off wherever it can be, and two of it; agents behind a stock inference gateway.

mod audit;
mod charts;
mod corpus;
mod gateway;
mod kubelet;
mod operator;
mod process;
mod replicas;
mod rest;
mod server;
mod told;

use std::process::ExitCode;

use anyhow::ensure;

use crate::steps::Steps;
use crate::wait::secs;
use crate::{Place, shell};
use server::ApiServer;

/// The namespace that the corpus and the quick start live in.
const SHOP: &str = "shop";

/// A part of the suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// The charts as Helm sees them.
    Charts,
    /// What the API server refuses.
    Corpus,
    /// One operator.
    Operator,
    /// One operator that is stopped after each write, and whose API server is slow, cut off or away.
    Faults,
    /// Two operators.
    Replicas,
    /// Agents behind Envoy and the stock endpoint picker of the Gateway API Inference Extension.
    Gateway,
}

/// Runs the suite, or one part of it.
pub async fn run(place: &Place, only: Option<Part>, until: Option<String>) -> anyhow::Result<ExitCode> {
    let wanted = |part: Part| only.is_none_or(|only| only == part);
    let mut steps = Steps::new("api-server", until);
    let Some(mut server) = steps.step("a real API server is ready", secs(150), ApiServer::up(place)).await else {
        return Ok(steps.end());
    };
    if wanted(Part::Charts) {
        charts::steps(place, &server, &mut steps).await;
    }
    if kinds(place, &server, &mut steps).await.is_none() {
        return Ok(steps.end());
    }
    if wanted(Part::Corpus) {
        corpus::refused_at_apply(place, &server, &mut steps).await;
    }
    if operator::permissions(place, &server, &mut steps).await.is_none() {
        return Ok(steps.end());
    }
    if wanted(Part::Operator) {
        operator::steps(place, &mut server, &mut steps).await;
    }
    if wanted(Part::Faults) {
        replicas::faults(place, &server, &mut steps).await;
    }
    if wanted(Part::Replicas) {
        replicas::pair(place, &server, &mut steps).await;
    }
    if wanted(Part::Gateway) {
        gateway::steps(place, &server, &mut steps).await;
    }
    Ok(steps.end())
}

/// The kinds are accepted, within the API server's limits for CEL, and established; manifests are taken or refused.
async fn kinds(place: &Place, server: &ApiServer, steps: &mut Steps) -> Option<()> {
    let established = async {
        let done = server.helm(&["template", "terrace-crds", &place.arg("charts/terrace-crds")]).await?;
        ensure!(done.code == 0, "{}", done.stderr);
        server.apply(&done.stdout).await?;
        let kinds = ["crd/tiers.terrace.dev", "crd/routingpolicies.terrace.dev", "crd/latencybudgets.terrace.dev"];
        server.kubectl(&[&["wait", "--for=condition=Established", "--timeout=20s"], kinds.as_slice()].concat()).await?;
        // `platform` is another team's, of which the corpus tells.
        server.kubectl(&["create", "namespace", "platform"]).await?;
        server.kubectl(&["create", "namespace", SHOP]).await
    };
    steps.step("the API server takes the kinds", secs(60), established).await?;
    for (name, path) in [
        ("it takes the quick start as it is", "examples/quickstart"),
        ("it takes the three-tier manifests as they are", "e2e/manifests/three-tiers.yaml"),
    ] {
        let path = place.arg(path);
        let words = ["apply", "--namespace", SHOP, "--dry-run=server", "--validate=strict", "-f", &path];
        steps.step(name, secs(30), server.kubectl(&words)).await;
    }
    let typo = async {
        let manifest = std::fs::read_to_string(place.at("examples/quickstart/policy.yaml"))?;
        let manifest = manifest.replace("sensitivity:", "sensitivty:");
        let command = server.command(&["create", "--namespace", SHOP, "--dry-run=server", "-f", "-"]);
        let done = shell::output(command, Some(&manifest), secs(20)).await?;
        ensure!(done.code != 0 && done.stderr.contains("spec.sensitivty"), "{}{}", done.stdout, done.stderr);
        Ok(())
    };
    steps.step("a manifest with a typo is refused by name", secs(30), typo).await
}
