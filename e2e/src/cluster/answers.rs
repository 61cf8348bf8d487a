//! Answers that the burn agents made, through the SDK; and the second tier when the first is full or gone.

use super::{SHOP, Scene};
use crate::client::nonce;
use crate::conditions::condition;
use crate::steps::Steps;
use crate::wait::{self, secs};

/// Plain, streamed, saturated, gone and back.
pub(super) async fn steps(scene: &Scene<'_>, steps: &mut Steps) -> Option<()> {
    steps
        .step("a plain answer comes from the edge", secs(90), async {
            let answer = scene.ask_one(|q| q, &format!("What is the capital of France? {}", nonce())).await?;
            answer.from("edge")?;
            anyhow::ensure!(
                answer.header("x-terrace-boundary") == "Device" && !answer.header("x-terrace-reason").is_empty(),
                "{answer:?}"
            );
            anyhow::ensure!(
                !answer.header("x-terrace-request-id").is_empty() && answer.header("x-terrace-quality") == "full",
                "{answer:?}"
            );
            Ok(())
        })
        .await?;
    steps
        .step("a streamed answer comes piece by piece", secs(90), async {
            let answer = scene.ask_one(|q| q.streamed(), &format!("Name three colours. {}", nonce())).await?;
            answer.from("edge")?;
            anyhow::ensure!(answer.chunks > 1 && answer.usage.is_some() && answer.finish.is_some(), "{answer:?}");
            Ok(())
        })
        .await?;
    steps
        .step("a model that is not there is named, with those that are", secs(60), async {
            let answer = scene.ask_one(|q| q.with("--model", "gpt-nine"), "Hello").await?;
            answer.refused(404, "model_not_found")?;
            anyhow::ensure!(
                answer.message.as_deref().unwrap_or_default().contains("smollm2-135m-instruct"),
                "{answer:?}"
            );
            Ok(())
        })
        .await;
    steps
        .step("with the edge saturated by real requests the private tier answers too", secs(240), saturated(scene))
        .await;
    steps
        .step("with the edge's agents gone the private tier answers", secs(120), async {
            empty(scene, "edge", true).await?;
            wait::until("an answer of the private tier", secs(40), async || {
                scene.ask_one(|q| q, &format!("Say hello. {}", nonce())).await?.from("private").map(drop)
            })
            .await
        })
        .await;
    steps
        .step("and the edge again when they are back", secs(120), async {
            empty(scene, "edge", false).await?;
            wait::until("an answer of the edge", secs(90), async || {
                scene.ask_one(|q| q, &format!("Say hello. {}", nonce())).await?.from("edge").map(drop)
            })
            .await
        })
        .await
}

async fn saturated(scene: &Scene<'_>) -> anyhow::Result<()> {
    // Simple, so that the edge is where it belongs: a complex one would go to the private tier by itself. Long enough that
    // the first answer is not through before the last question is there.
    let question = "What colour is the sky?";
    let machine = &scene.machine;
    machine.apply_files(SHOP, &scene.place.arg("e2e/manifests/patient.yaml")).await?;
    machine.condition(SHOP, "latencybudget/patient", "Accepted", secs(20)).await?;
    machine.condition(SHOP, "routingpolicy/assistant", "Programmed", secs(30)).await?;
    let answers = scene
        .ask(
            |q| {
                q.header("x-terrace-prefer", "privacy")
                    .header("x-terrace-feature", "patient")
                    .with("--parallel", "44")
                    .with("--max-tokens", "64")
                    .with("--retries", "2")
                    .with("--timeout", "200")
            },
            question,
        )
        .await?;
    let lost: Vec<_> = answers.iter().filter(|a| !a.ok).collect();
    anyhow::ensure!(
        lost.is_empty(),
        "{} of {} requests got no answer, the first: {:?}",
        lost.len(),
        answers.len(),
        lost.first()
    );
    let of = |tier: &str| answers.iter().filter(|a| a.tier() == tier).count();
    let reasons: Vec<_> = answers.iter().map(|a| format!("{}: {}", a.tier(), a.header("x-terrace-reason"))).collect();
    let overflowed =
        answers.iter().filter(|a| a.tier() == "private" && a.header("x-terrace-reason").contains("overflow_")).count();
    anyhow::ensure!(of("edge") > 0 && overflowed > 0 && of("edge") + of("private") == answers.len(), "{reasons:#?}");
    Ok(())
}

/// Takes all agents of a fleet tier away (a place that no node is), or gives them back; waits until the workload has none, or is whole.
pub(super) async fn empty(scene: &Scene<'_>, tier: &str, gone: bool) -> anyhow::Result<()> {
    let machine = &scene.machine;
    let selector = if gone { r#"{"nowhere":"yes"}"# } else { r#"null"# };
    let patch = format!(r#"{{"spec":{{"backend":{{"fleet":{{"placement":{{"nodeSelector":{selector}}}}}}}}}}}"#);
    machine.kubectl(&["--namespace", SHOP, "patch", "tier", tier, "--type=merge", "--patch", &patch]).await?;
    let selector = format!("terrace.dev/tier={tier}");
    let words = ["--namespace", SHOP, "pods", "--selector", selector.as_str()];
    let ready = |pod: &serde_json::Value| condition(pod, "Ready").is_some_and(|c| c["status"] == "True");
    let what = if gone { format!("no agent of {tier} is Ready") } else { format!("agents of {tier} are Ready") };
    let limit = secs(90);
    machine
        .until(&what, &words, limit, |list| {
            let items = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
            if gone { !items.iter().any(ready) } else { !items.is_empty() && items.iter().all(ready) }
        })
        .await
        .map(drop)
}
