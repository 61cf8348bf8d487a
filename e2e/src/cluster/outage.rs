//! A node cut off, and an upgrade under load.

use super::fault::node;
use super::install::chart;
use super::{SHOP, Scene};
use crate::steps::Steps;
use crate::wait::secs;

/// n2 is cut off and healed; then the operator is upgraded while clients ask.
pub(super) async fn steps(scene: &Scene<'_>, steps: &mut Steps) -> Option<()> {
    let machine = &scene.machine;
    steps
        .step("with n2 cut off the answers go on", secs(200), async {
            machine.run(&["ip", "link", "set", "v2", "down"], secs(5)).await?;
            // Until n2 is NotReady its router still gets a share of the connections: clients are SDKs with their usual retries.
            let answers = scene
                .ask(
                    |q| {
                        q.with("--parallel", "2")
                            .with("--retries", "4")
                            .with("--timeout", "20")
                            .with("--max-tokens", "4")
                    },
                    "Say yes.",
                )
                .await?;
            anyhow::ensure!(answers.iter().all(|a| a.ok), "{answers:?}");
            node(scene, "Unknown").await?;
            let answers = scene
                .ask(|q| q.with("--parallel", "4").with("--retries", "2").with("--max-tokens", "4"), "Say no.")
                .await?;
            anyhow::ensure!(answers.iter().all(|a| a.ok), "{answers:?}");
            Ok(())
        })
        .await;
    steps
        .step("n2 heals and its agent is Ready again", secs(120), async {
            machine.run(&["ip", "link", "set", "v2", "up"], secs(5)).await?;
            node(scene, "True").await?;
            machine.condition(SHOP, "tier/edge", "Ready", secs(60)).await
        })
        .await?;
    steps
        .step("helm upgrades the operator under load and no request fails", secs(220), async {
            let load = scene.ask(
                |q| {
                    q.with("--parallel", "12")
                        .with("--max-tokens", "24")
                        .with("--retries", "2")
                        .with("--timeout", "180")
                },
                "Tell me about the sea.",
            );
            let upgrade = chart(scene, "upgrade", &["--set", "logLevel=debug"]);
            let (answers, upgraded) = tokio::join!(load, upgrade);
            upgraded?;
            let answers = answers?;
            anyhow::ensure!(answers.iter().all(|a| a.ok), "{answers:?}");
            Ok(())
        })
        .await
}
