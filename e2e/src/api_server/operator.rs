//! The operator as a process of this machine against the real API server, with the permissions of the chart and no others.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;
use tokio::process::{Child, Command};

use super::server::ApiServer;
use super::{SHOP, corpus};
use crate::steps::Steps;
use crate::wait::{self, secs};
use crate::{Place, shell};

const SYSTEM: &str = "terrace-system";

/// Without permissions; with the chart's; with the API server gone for a while.
pub(super) async fn steps(place: &Place, server: &mut ApiServer, steps: &mut Steps) -> Option<()> {
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
            server.kubectl(&["--namespace", SYSTEM, "create", "serviceaccount", "nobody"]).await
        })
        .await?;
    steps
        .step("an operator without permissions says which, and stays", secs(90), async {
            let operator = Operator::start(place, server, "nobody").await?;
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
            let operator = Operator::start(place, server, "terrace-operator").await?;
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
                let refs = policy["status"]["conditions"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .find(|c| c["type"] == "ResolvedRefs")
                    .cloned();
                ensure!(refs.as_ref().is_some_and(|c| c["status"] == "False"), "ResolvedRefs: {refs:?}");
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

/// A running operator; it ends when this value goes.
struct Operator {
    child: Child,
    admin: String,
}

impl Operator {
    /// Starts it with the token of a service account.
    async fn start(place: &Place, server: &ApiServer, account: &str) -> anyhow::Result<Operator> {
        let token = server.kubectl(&["--namespace", SYSTEM, "create", "token", account, "--duration=1h"]).await?;
        let file = |name: &str| server.folder().join(format!("{account}-{name}")).display().to_string();
        std::fs::write(file("kubeconfig"), server.kubeconfig_with(token.trim()))?;
        let log = std::fs::File::create(file("operator.log"))?;
        let mut command = Command::new(place.program("terrace-operator")?);
        command.env("KUBECONFIG", file("kubeconfig")).env_remove("POD_IP").args([
            "--namespace",
            SYSTEM,
            "--fleet-listen",
            "127.0.0.1:0",
            "--admin-listen",
            "127.0.0.1:0",
            "--port-file",
            &file("ports.json"),
            "--router-image",
            "localhost/terrace-router:test",
            "--agent-image",
            "localhost/terrace-agent:test",
        ]);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).kill_on_drop(true);
        let child = command.spawn().context("cannot start terrace-operator")?;
        let admin = wait::until("the operator's port file", secs(20), async || {
            let ports: Value = serde_json::from_str(&std::fs::read_to_string(file("ports.json"))?)?;
            ports["admin"].as_str().map(str::to_owned).context("no `admin` in the port file")
        })
        .await?;
        Ok(Operator { child, admin })
    }

    async fn ready(&self) -> anyhow::Result<()> {
        wait::until("the operator to be ready", secs(60), async || {
            let (code, body) = self.get("/readyz").await?;
            ensure!(code == 200, "{code} {body}");
            Ok(())
        })
        .await
    }

    /// Status and body of its admin port.
    async fn get(&self, path: &str) -> anyhow::Result<(u16, String)> {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--max-time", "5", "--write-out", "\n%{http_code}"])
            .arg(format!("http://{}{path}", self.admin));
        let printed = shell::run(curl, None, Duration::from_secs(10)).await?;
        let (body, code) = printed.rsplit_once('\n').context("curl printed no status")?;
        Ok((code.parse()?, body.to_owned()))
    }

    async fn stop(mut self) -> anyhow::Result<()> {
        let pid = self.child.id().context("the operator has ended by itself")?.to_string();
        let mut kill = Command::new("kill");
        kill.args(["-TERM", &pid]);
        shell::run(kill, None, secs(5)).await?;
        let status = tokio::time::timeout(secs(20), self.child.wait())
            .await
            .context("the operator did not end within 20 s of SIGTERM")??;
        ensure!(status.code() == Some(0), "the operator ended with {status}");
        Ok(())
    }
}
