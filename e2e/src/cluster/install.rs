//! Images, what stands outside, charts, and the quick start's manifests.

use anyhow::Context;
use serde_json::{Value, json};

use super::{KEY, OUTSIDE, SHOP, SYSTEM, Scene};
use crate::certificates;
use crate::steps::Steps;
use crate::wait::{self, secs};

/// Everything up to Ready tiers and a Ready policy.
pub(super) async fn steps(scene: &Scene<'_>, steps: &mut Steps) -> Option<()> {
    let machine = &scene.machine;
    steps.step("images are imported on both nodes", secs(240), images(scene)).await?;
    steps.step("Jaeger answers", secs(60), jaeger(scene)).await?;
    steps.step("a file server and a cloud run outside Terrace", secs(90), outside(scene)).await?;
    steps
        .step(
            "helm installs terrace-crds",
            secs(60),
            machine.helm(&["install", "terrace-crds", &scene.place.arg("charts/terrace-crds")]),
        )
        .await?;
    steps.step("helm installs terrace under restricted Pod Security", secs(200), terrace(scene)).await?;
    steps.step("helm test passes", secs(90), machine.helm(&["test", "terrace", "--namespace", SYSTEM])).await?;
    steps.step("kubectl applies the quick start", secs(30), quickstart(scene)).await?;
    let tiers = async {
        machine.condition(SHOP, "tier/edge", "Ready", secs(150)).await?;
        machine.condition(SHOP, "tier/private", "Ready", secs(60)).await
    };
    steps.step("both fleet tiers are Ready", secs(230), tiers).await?;
    let policy = async {
        machine.condition(SHOP, "routingpolicy/assistant", "Programmed", secs(60)).await?;
        machine.condition(SHOP, "routingpolicy/assistant", "Ready", secs(60)).await
    };
    steps.step("the policy is Ready and every router runs it", secs(140), policy).await
}

async fn images(scene: &Scene<'_>) -> anyhow::Result<()> {
    for name in ["operator", "router", "agent", "fixture"] {
        scene.machine.import(&scene.place.arg(format!("target/images/{name}.tar"))).await?;
    }
    Ok(())
}

async fn jaeger(scene: &Scene<'_>) -> anyhow::Result<()> {
    scene.machine.background(&["jaeger", "--config", &scene.place.arg("e2e/cluster/jaeger.yaml")], "jaeger.log")?;
    wait::until("Jaeger's query API", secs(40), async || {
        scene.machine.http(&["http://10.77.0.1:16686/api/services"]).await
    })
    .await
    .map(drop)
}

async fn outside(scene: &Scene<'_>) -> anyhow::Result<()> {
    let machine = &scene.machine;
    machine
        .apply(
            "default",
            &[namespace(OUTSIDE, "privileged"), namespace(SHOP, "restricted"), namespace(SYSTEM, "restricted")],
        )
        .await?;
    let cloud = certificates::server(&["cloud.outside.svc", "cloud.outside.svc.cluster.local"])?;
    let server = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cloud-server"},
        "stringData": {"tls.crt": cloud.certificate, "tls.key": cloud.key, "api-key": "sk-cloud"}});
    machine.apply(OUTSIDE, &[server]).await?;
    let credential = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cloud", "annotations": {"terrace.dev/allowed-hosts": "cloud.outside.svc"}},
        "stringData": {"apiKey": "sk-cloud", "ca.crt": cloud.ca}});
    let keys = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "assistant-keys"}, "stringData": {"ci": KEY}});
    machine.apply(SHOP, &[credential, keys]).await?;
    for file in ["models", "cloud"] {
        machine.apply_text(if file == "cloud" { OUTSIDE } else { file }, &manifest(scene, file)?).await?;
    }
    machine.condition("models", "pod/models", "Ready", secs(60)).await?;
    machine.condition(OUTSIDE, "pod/cloud", "Ready", secs(60)).await
}

fn namespace(name: &str, level: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"pod-security.kubernetes.io/enforce": level}}})
}

/// A manifest of `e2e/manifests`, with the images' tag and the model cache put in.
fn manifest(scene: &Scene<'_>, name: &str) -> anyhow::Result<String> {
    let models = crate::programs()?.parent().context("the cache has no parent")?.join("terrace/models");
    let text = std::fs::read_to_string(scene.place.at(format!("e2e/manifests/{name}.yaml")))?;
    Ok(text.replace("${TAG}", &scene.tag).replace("${MODELS}", &models.display().to_string()))
}

/// `helm` arguments that name this build's images and the collector.
pub(super) fn values(scene: &Scene<'_>) -> Vec<String> {
    let mut words = vec!["--set".to_owned(), "otlp.endpoint=http://10.77.0.1:4318".to_owned()];
    for name in ["operator", "router", "agent"] {
        words.extend(["--set-string".to_owned(), format!("images.{name}.tag={}", scene.tag)]);
    }
    words
}

/// Installs the chart, or brings it to what `extra` says.
pub(super) async fn chart(scene: &Scene<'_>, verb: &str, extra: &[&str]) -> anyhow::Result<String> {
    let (chart, values) = (scene.place.arg("charts/terrace"), values(scene));
    let words: Vec<&str> = [verb, "terrace", chart.as_str(), "--namespace", SYSTEM, "--wait", "--timeout", "150s"]
        .into_iter()
        .chain(values.iter().map(String::as_str))
        .chain(extra.iter().copied())
        .collect();
    scene.machine.helm(&words).await
}

async fn terrace(scene: &Scene<'_>) -> anyhow::Result<()> {
    chart(scene, "install", &[]).await.map(drop)
}

async fn quickstart(scene: &Scene<'_>) -> anyhow::Result<()> {
    scene.machine.apply_files(SHOP, &scene.place.arg("examples/quickstart")).await
}
