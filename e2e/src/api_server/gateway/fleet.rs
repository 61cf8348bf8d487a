//! The agents: real processes, each at the address that its pod's status names. No kubelet is here to start them.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, ensure};
use serde_json::Value;
use tokio::process::{Child, Command};

use super::super::kubelet;
use super::super::rest::Rest;
use super::super::server::ApiServer;
use super::super::told;
use super::SPACE;
use crate::wait::{self, secs};
use crate::{Place, shell};

/// What the agents call their model.
pub(super) const MODEL: &str = "small";

/// The agents, and the pods that stand for them. They end when this value goes.
pub(super) struct Fleet<'a> {
    place: &'a Place,
    server: &'a ApiServer,
    rest: Rest,
    model: String,
    /// The pool's target port, the same at each address.
    port: u16,
    /// How many there ever were: each has an address of its own.
    count: u8,
    pub agents: Vec<Agent>,
}

/// One agent.
pub(super) struct Agent {
    pub pod: String,
    /// Its pod's address, one of the loopback.
    pub ip: String,
    /// `ip:port` of its door for gateways.
    pub address: String,
    child: Child,
    log: PathBuf,
}

/// A port that is free at every address.
pub(super) fn port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("0.0.0.0:0")?.local_addr()?.port())
}

impl<'a> Fleet<'a> {
    /// None yet.
    pub(super) async fn new(place: &'a Place, server: &'a ApiServer, port: u16) -> anyhow::Result<Fleet<'a>> {
        let mut script = Command::new(place.at("scripts/model.sh"));
        script.arg("smollm2");
        let model = shell::run(script, None, secs(120)).await?.trim().to_owned();
        Ok(Fleet { place, server, rest: server.rest()?, model, port, count: 0, agents: Vec::new() })
    }

    /// Starts an agent for each pod of the Deployment that has none, and says that it is ready once it is.
    pub(super) async fn follow(&mut self, replicas: usize) -> anyhow::Result<()> {
        let all = format!("/api/v1/namespaces/{SPACE}/pods");
        let pods = wait::until("the Deployment's pods", secs(40), async || {
            let list = self.rest.get(&all).await?;
            let pods =
                list["items"].as_array().into_iter().flatten().filter_map(|pod| pod["metadata"]["name"].as_str());
            let pods: Vec<String> = pods.map(str::to_owned).collect();
            ensure!(pods.len() == replicas, "{pods:?}, not {replicas}");
            Ok(pods)
        })
        .await?;
        for pod in pods {
            if self.agents.iter().all(|agent| agent.pod != pod) {
                let agent = self.start(pod).await?;
                kubelet::state(&self.rest, SPACE, &agent.pod, &agent.ip, true).await?;
                self.agents.push(agent);
            }
        }
        Ok(())
    }

    async fn start(&mut self, pod: String) -> anyhow::Result<Agent> {
        self.count += 1;
        let ip = format!("127.0.0.{}", self.count + 1);
        let (folder, address) = (self.server.folder(), format!("{ip}:{}", self.port));
        let file = |name: &str| folder.join(format!("agent-{ip}.{name}"));
        let (log, ports) = (file("log"), file("ports"));
        let out = std::fs::File::create(&log)?;
        let mut command = Command::new(self.place.program("terrace-agent")?);
        command.args(["--model", &self.model, "--model-name", MODEL, "--gateway-listen", &address]);
        command.args(["--admin-listen", "127.0.0.1:0", "--device", "cpu", "--threads", "1", "--max-sequences", "1"]);
        command.arg("--port-file").arg(&ports).arg("--termination-log").arg(file("end"));
        command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out).kill_on_drop(true);
        let child = command.spawn().context("cannot start terrace-agent")?;
        let mut agent = Agent { pod, ip, address, child, log };
        wait::until("an agent's port file", secs(60), async || {
            Ok(serde_json::from_slice::<Value>(&std::fs::read(&ports)?)?)
        })
        .await
        .with_context(|| agent.tail())?;
        ensure!(agent.child.try_wait()?.is_none(), "{}", agent.tail());
        Ok(agent)
    }

    /// Says that a pod is not ready, as its kubelet would.
    pub(super) async fn not_ready(&self, pod: &str, ip: &str) -> anyhow::Result<()> {
        kubelet::state(&self.rest, SPACE, pod, ip, false).await
    }

    /// Deletes an agent's pod; its process is left alone.
    pub(super) async fn delete(&self, at: usize) -> anyhow::Result<()> {
        self.rest.delete(&format!("/api/v1/namespaces/{SPACE}/pods/{}", self.agents[at].pod)).await.map(drop)
    }
}

impl Agent {
    /// Ends it as a kubelet does, and waits until it has finished what it had.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        let tail = || told::tail("the agent", &self.log);
        shell::terminate("the agent", self.child, secs(40)).await.with_context(tail)
    }

    /// Ends it as a crash does.
    pub(super) async fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill().await.with_context(|| format!("cannot kill the agent\n{}", self.tail()))
    }

    /// The end of its log, for a failure.
    pub(super) fn tail(&self) -> String {
        told::tail("the agent", &self.log)
    }
}
