//! The stock endpoint picker of the Gateway API Inference Extension as a process, and what it says that it sees.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, ensure};
use tokio::process::{Child, Command};

use super::super::server::{ApiServer, free_ports};
use super::super::told;
use super::ask::Client;
use super::{POOL, SPACE};
use crate::programs;
use crate::wait::{self, secs};

/// A running picker; it ends when this value goes.
pub(super) struct Picker<'a> {
    child: Child,
    client: &'a Client,
    /// Where Envoy asks it.
    pub grpc: u16,
    metrics: String,
    log: PathBuf,
}

impl Picker<'_> {
    /// Starts it for the pool, with this configuration of its plugins.
    pub(super) async fn start<'a>(server: &ApiServer, client: &'a Client, config: &str) -> anyhow::Result<Picker<'a>> {
        let program = programs()?.join("bin/epp");
        ensure!(program.exists(), "{} is not built: e2e/cluster/build.sh api-server", program.display());
        let [grpc, health, metrics] = free_ports()?;
        let log = server.folder().join("epp.log");
        let out = std::fs::File::create(&log)?;
        let mut command = Command::new(program);
        command.env("KUBECONFIG", server.kubeconfig()).env("HOME", server.folder()).args([
            &format!("--pool-name={POOL}"),
            &format!("--pool-namespace={SPACE}"),
            &format!("--grpc-port={grpc}"),
            &format!("--grpc-health-port={health}"),
            &format!("--metrics-port={metrics}"),
            "--metrics-endpoint-auth=false",
            // How often its own metrics follow what it read.
            "--refresh-prometheus-metrics-interval=200ms",
            "--tracing=false",
            "--enable-pprof=false",
            &format!("--config-text={config}"),
        ]);
        command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out).kill_on_drop(true);
        let child = command.spawn().context("cannot start epp")?;
        let picker = Picker { child, client, grpc, metrics: format!("127.0.0.1:{metrics}"), log };
        wait::until("the picker's metrics", secs(60), async || picker.text().await.map(drop))
            .await
            .with_context(|| picker.tail())?;
        Ok(picker)
    }

    /// Whether it still runs, with the end of its log if it does not.
    pub(super) fn lives(&mut self) -> anyhow::Result<()> {
        ensure!(self.child.try_wait()?.is_none(), "the picker has ended by itself\n{}", self.tail());
        Ok(())
    }

    /// Pods whose metrics it has read within the last two seconds.
    pub(super) async fn fresh(&self) -> anyhow::Result<f64> {
        self.sample("inference_pool_ready_pods", &format!("name=\"{POOL}\"")).await
    }

    /// The mean of a figure over those pods.
    pub(super) async fn average(&self, figure: &str) -> anyhow::Result<f64> {
        self.sample(&format!("inference_pool_average_{figure}"), &format!("name=\"{POOL}\"")).await
    }

    /// Requests that wait at a pod, as the picker has read it.
    pub(super) async fn queue(&self, pod: &str) -> anyhow::Result<f64> {
        self.sample("inference_pool_per_pod_queue_size", &format!("model_server_pod=\"{pod}")).await
    }

    /// Whether it may send anything to a pod.
    pub(super) async fn knows(&self, pod: &str) -> anyhow::Result<bool> {
        let text = self.text().await?;
        ensure!(text.contains("inference_pool_ready_pods"), "no metrics of the pool: {text}");
        Ok(text.contains(&format!("model_server_pod=\"{pod}")))
    }

    /// One of its metrics.
    pub(super) async fn sample(&self, name: &str, label: &str) -> anyhow::Result<f64> {
        let text = self.text().await?;
        told::samples(&text, name, label).next().with_context(|| format!("the picker shows no {name} with {label}"))
    }

    async fn text(&self) -> anyhow::Result<String> {
        let said = self.client.get(&self.metrics, "/metrics").await?;
        ensure!(said.status == 200, "{} {}", said.status, said.text());
        Ok(said.text())
    }

    /// What it could not take from an agent's metrics.
    pub(super) fn complaints(&self) -> anyhow::Result<Vec<String>> {
        let log = std::fs::read_to_string(&self.log)?;
        Ok(log.lines().filter(|line| line.contains("extract failed")).map(str::to_owned).collect())
    }

    /// The end of its log, for a failure.
    pub(super) fn tail(&self) -> String {
        told::tail("the picker", &self.log)
    }
}
