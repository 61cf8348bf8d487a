//! Charts as Helm sees them, before anything runs.

use anyhow::ensure;

use super::server::ApiServer;
use crate::Place;
use crate::steps::Steps;
use crate::wait::secs;

/// Lint, template, and values that are refused.
pub(super) async fn steps(place: &Place, server: &ApiServer, steps: &mut Steps) {
    let chart = place.arg("charts/terrace");
    steps
        .step("helm lint has nothing to say", secs(60), async {
            for chart in [place.arg("charts/terrace"), place.arg("charts/terrace-crds")] {
                let done = server.helm(&["lint", "--strict", &chart]).await?;
                ensure!(done.code == 0, "{}{}", done.stdout, done.stderr);
            }
            Ok(())
        })
        .await;
    steps
        .step("values with a typo are refused by name", secs(60), async {
            for typo in [
                "replica=2",
                "images.operator.tagg=1",
                "otlp.endpont=http://x:1",
                "images.operator.digest=sha256:12",
                "otlp.endpoint=collector:4317",
                "replicas=0",
            ] {
                let done = server.helm(&["template", "terrace", &chart, "--set", typo]).await?;
                let field = typo.split('=').next().and_then(|f| f.rsplit('.').next()).unwrap_or_default();
                ensure!(
                    done.code != 0 && done.stderr.contains(field),
                    "--set {typo} gave {}: {}",
                    done.code,
                    done.stderr
                );
            }
            Ok(())
        })
        .await;
    steps
        .step("an image by digest wins over its tag", secs(30), async {
            let digest = format!("sha256:{}", "a".repeat(64));
            let done = server
                .helm(&[
                    "template",
                    "terrace",
                    &chart,
                    "--set",
                    "images.operator.tag=v1",
                    "--set",
                    &format!("images.operator.digest={digest}"),
                ])
                .await?;
            ensure!(
                done.code == 0 && done.stdout.contains(&format!("image: localhost/terrace-operator@{digest}")),
                "{}{}",
                done.stdout,
                done.stderr
            );
            ensure!(!done.stdout.contains("localhost/terrace-operator:v1"), "{}", done.stdout);
            Ok(())
        })
        .await;
    steps
        .step(
            "the API server takes the rendered chart under restricted Pod Security without a warning",
            secs(60),
            async {
                server.kubectl(&["create", "namespace", "terrace-dry"]).await?;
                server
                    .kubectl(&[
                        "label",
                        "namespace",
                        "terrace-dry",
                        "pod-security.kubernetes.io/enforce=restricted",
                        "pod-security.kubernetes.io/warn=restricted",
                    ])
                    .await?;
                let done = server.helm(&["template", "terrace", &chart, "--namespace", "terrace-dry"]).await?;
                let command = server.command(&["apply", "--dry-run=server", "--validate=strict", "-f", "-"]);
                let applied = crate::shell::output(command, Some(&done.stdout), secs(30)).await?;
                ensure!(
                    applied.code == 0 && !applied.stderr.contains("Warning"),
                    "{}{}",
                    applied.stdout,
                    applied.stderr
                );
                Ok(())
            },
        )
        .await;
}
