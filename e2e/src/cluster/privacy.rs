//! Fail closed: what may not leave does not leave, however few tiers are left; and a control that the cloud is reached when it may be.

use super::answers::empty;
use super::{OUTSIDE, SHOP, Scene};
use crate::client::nonce;
use crate::steps::Steps;
use crate::wait::{self, secs};

/// Three tiers; then the edge gone; then the private tier gone as well.
pub(super) async fn steps(scene: &Scene<'_>, steps: &mut Steps) -> Option<()> {
    third_tier(scene, steps).await?;
    steps
        .step("without a key: 401 invalid_api_key", secs(60), async {
            wait::until("a refusal", secs(30), async || {
                scene.ask_one(|q| q.with("--key", "sk-wrong"), "Hello").await?.refused(401, "invalid_api_key").map(drop)
            })
            .await
        })
        .await;
    steps
        .step("with the edge gone a Restricted request is answered by the private tier", secs(150), async {
            empty(scene, "edge", true).await?;
            let mark = nonce();
            let answer = wait::until("an answer of the private tier", secs(60), async || {
                let answer = scene
                    .ask_one(|q| q.header("x-terrace-class", "Restricted"), &format!("My account is frozen. {mark}"))
                    .await?;
                answer.from("private")?;
                Ok(answer)
            })
            .await?;
            anyhow::ensure!(answer.header("x-terrace-boundary") == "Private", "{answer:?}");
            received(scene, &mark, 0).await
        })
        .await;
    steps
        .step("with the private tier gone too: 503 permitted_tiers_unavailable, and nothing leaves", secs(200), async {
            empty(scene, "private", true).await?;
            let mark = nonce();
            wait::until("a refusal", secs(60), async || {
                let answer = scene
                    .ask_one(|q| q.header("x-terrace-class", "Restricted"), &format!("My account is frozen. {mark}"))
                    .await?;
                let answer = answer.refused(503, "permitted_tiers_unavailable")?;
                anyhow::ensure!(answer.header("x-should-retry") == "false", "{answer:?}");
                Ok(())
            })
            .await?;
            received(scene, &mark, 0).await?;
            denied(scene, 0).await.map(drop)
        })
        .await;
    steps
        .step("a card number in an unlabelled request does not leave either", secs(120), async {
            let (mark, before) = (nonce(), denied(scene, 0).await?);
            let answer = scene
                .ask_one(|q| q.header("x-terrace-class", "Public"), &format!("Charge 4111 1111 1111 1111. {mark}"))
                .await?;
            answer.refused(503, "permitted_tiers_unavailable")?;
            received(scene, &mark, 0).await?;
            denied(scene, before).await.map(drop)
        })
        .await;
    steps
        .step("a Public request is answered by the cloud, which sees exactly one body", secs(60), async {
            let mark = nonce();
            scene
                .ask_one(|q| q.header("x-terrace-class", "Public"), &format!("What is a lighthouse? {mark}"))
                .await?
                .from("cloud")?;
            received(scene, &mark, 1).await?;
            let headers = scene.machine.http(&[&control(scene).await?]).await?["headers"].to_string();
            for forbidden in [
                "traceparent",
                "tracestate",
                "baggage",
                "x-terrace-class",
                "x-terrace-session",
                "x-terrace-deadline-ms",
            ] {
                anyhow::ensure!(!headers.contains(forbidden), "the cloud received {forbidden}: {headers}");
            }
            Ok(())
        })
        .await;
    steps
        .step("both tiers come back", secs(240), async {
            empty(scene, "edge", false).await?;
            empty(scene, "private", false).await?;
            wait::until("an answer of the edge", secs(60), async || {
                scene.ask_one(|q| q, "Hello").await?.from("edge").map(drop)
            })
            .await
        })
        .await
}

/// A public endpoint becomes the last tier of the ladder.
pub(super) async fn third_tier(scene: &Scene<'_>, steps: &mut Steps) -> Option<()> {
    let machine = &scene.machine;
    steps
        .step("a cloud joins as the third tier, with a credential", secs(120), async {
            machine.apply_files(SHOP, &scene.place.arg("e2e/manifests/three-tiers.yaml")).await?;
            machine.condition(SHOP, "tier/cloud", "CredentialsResolved", secs(60)).await?;
            wait::until("the three-tier ladder", secs(60), async || {
                let list = machine.get(&["--namespace", SHOP, "routingpolicy", "assistant"]).await?;
                anyhow::ensure!(list["status"]["ladder"] == "edge>private>cloud", "{}", list["status"]["ladder"]);
                Ok(())
            })
            .await?;
            machine.condition(SHOP, "routingpolicy/assistant", "Programmed", secs(60)).await
        })
        .await
}

/// Waits until the policy's status counts more denied requests than `before`: the operator has then warned of them.
async fn denied(scene: &Scene<'_>, before: u64) -> anyhow::Result<u64> {
    wait::until("a denial in the policy's status", secs(45), async || {
        let policy = scene.machine.get(&["--namespace", SHOP, "routingpolicy", "assistant"]).await?;
        let counts = policy["status"]["denied"].as_array().into_iter().flatten().filter_map(|d| d["count"].as_u64());
        let sum: u64 = counts.sum();
        anyhow::ensure!(sum > before, "{sum} denied, {before} before: {}", policy["status"]["denied"]);
        Ok(sum)
    })
    .await
}

async fn control(scene: &Scene<'_>) -> anyhow::Result<String> {
    Ok(format!("http://{}:9090/received", scene.machine.address(OUTSIDE, "cloud").await?))
}

async fn received(scene: &Scene<'_>, mark: &str, bodies: u64) -> anyhow::Result<()> {
    let got = scene.machine.http(&[&format!("{}?contains={mark}", control(scene).await?)]).await?;
    anyhow::ensure!(got["bodies"] == bodies, "the cloud received {} bodies with {mark}, not {bodies}", got["bodies"]);
    Ok(())
}
