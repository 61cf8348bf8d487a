//! The operator as a process of this machine.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use tokio::process::{Child, Command};

use super::server::ApiServer;
use super::told;
use crate::wait::{self, secs};
use crate::{Place, shell};

/// The operator's own namespace.
pub(super) const SYSTEM: &str = "terrace-system";

/// How an operator is started.
pub(super) struct Start<'a> {
    /// The service account whose token it shows.
    pub account: &'a str,
    /// Its name in the Lease, and of its files.
    pub name: &'a str,
    /// Where it reaches the API server; none: directly.
    pub through: Option<String>,
    /// Its fleet port; 0: any. One that comes back under its name and port is the same to the Lease, as a container that
    /// is restarted in its pod is.
    pub port: u16,
}

/// A running operator; it ends when this value goes.
pub(super) struct Operator {
    child: Child,
    admin: String,
    /// `ip:port` of its fleet port.
    pub fleet: String,
    /// What its token is called in the audit log.
    pub token: String,
    log: String,
}

impl Operator {
    /// Starts it with a token of its own.
    pub async fn start(place: &Place, server: &ApiServer, start: Start<'_>) -> anyhow::Result<Operator> {
        let words = ["--namespace", SYSTEM, "create", "token", start.account, "--duration=1h"];
        let token = server.kubectl(&words).await?.trim().to_owned();
        let file = |name: &str| server.folder().join(format!("{}-{name}", start.name)).display().to_string();
        let kubeconfig = match &start.through {
            Some(url) => server.kubeconfig_at(url, &token),
            None => server.kubeconfig_with(&token),
        };
        std::fs::write(file("kubeconfig"), kubeconfig)?;
        let _ = std::fs::remove_file(file("ports.json"));
        let log = std::fs::File::options().create(true).append(true).open(file("operator.log"))?;
        let mut command = Command::new(place.program("terrace-operator")?);
        command.env("KUBECONFIG", file("kubeconfig")).env_remove("POD_IP").args([
            "--namespace",
            SYSTEM,
            "--pod-name",
            start.name,
            "--fleet-listen",
            &format!("127.0.0.1:{}", start.port),
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
        let ports = wait::until("the operator's port file", secs(20), async || {
            Ok(serde_json::from_str::<Value>(&std::fs::read_to_string(file("ports.json"))?)?)
        })
        .await?;
        let port = |name: &str| {
            ports[name].as_str().map(str::to_owned).with_context(|| format!("no `{name}` in the port file"))
        };
        Ok(Operator {
            child,
            admin: port("admin")?,
            fleet: port("listen")?,
            token: jti(&token)?,
            log: file("operator.log"),
        })
    }

    /// Waits until it is ready.
    pub async fn ready(&self) -> anyhow::Result<()> {
        wait::until("the operator to be ready", secs(60), async || {
            let (code, body) = self.get("/readyz").await?;
            ensure!(code == 200, "{code} {body}");
            Ok(())
        })
        .await
        .with_context(|| self.tail())
    }

    /// Status and body of its admin port.
    pub async fn get(&self, path: &str) -> anyhow::Result<(u16, String)> {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--max-time", "5", "--write-out", "\n%{http_code}"])
            .arg(format!("http://{}{path}", self.admin));
        let printed = shell::run(curl, None, Duration::from_secs(10)).await?;
        let (body, code) = printed.rsplit_once('\n').context("curl printed no status")?;
        Ok((code.parse()?, body.to_owned()))
    }

    /// The sum of a metric over all labels that hold `label` (all for an empty one).
    pub async fn metric(&self, name: &str, label: &str) -> anyhow::Result<u64> {
        let (code, text) = self.get("/metrics").await?;
        ensure!(code == 200, "/metrics: {code} {text}");
        Ok(told::samples(&text, name, label).sum::<f64>() as u64)
    }

    /// Ends it as Kubernetes does.
    pub async fn stop(self) -> anyhow::Result<()> {
        let tail = || told::tail("the operator", &self.log);
        shell::terminate("the operator", self.child, secs(20)).await.with_context(tail)
    }

    /// Ends it as a crash does: SIGKILL.
    pub async fn kill(mut self) -> anyhow::Result<()> {
        ensure!(self.child.try_wait()?.is_none(), "the operator has ended by itself\n{}", self.tail());
        self.child.kill().await.context("cannot kill the operator")
    }

    /// The end of its log, for a failure.
    pub fn tail(&self) -> String {
        told::tail("the operator", &self.log)
    }
}

/// The identifier in a token.
fn jti(token: &str) -> anyhow::Result<String> {
    let claims = token.split('.').nth(1).context("not a token")?;
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims)?)?;
    claims["jti"].as_str().map(str::to_owned).context("the token has no jti")
}
