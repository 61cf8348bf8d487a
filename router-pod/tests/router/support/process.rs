//! The router as its own process, with everything that it says kept.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::World;

/// A router's process. Killed when dropped.
pub struct Process {
    pub child: Child,
    pub listen: SocketAddr,
    pub admin: SocketAddr,
    pub log: PathBuf,
    pub traces: PathBuf,
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn command(world: &World) -> Command {
    let dir = |name: &str| world.path(name).display().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_terrace-router"));
    command
        .args(["--policy=assistant", "--namespace=shop", "--allow-loopback"])
        .arg(format!("--identity-dir={}", dir("identity")))
        .arg(format!("--credentials-dir={}", dir("credentials")))
        .arg(format!("--api-keys-dir={}", dir("api-keys")))
        .arg(format!("--state-dir={}", dir("state")))
        .arg(format!("--snapshot={}", dir("snapshot.json")))
        .env_remove("OTEL_EXPORTER_OTLP_ENDPOINT")
        .env("TERRACE_LOG_FORMAT", "json");
    command
}

/// Publishes the snapshot and starts a router that follows it, logging everything.
pub async fn start(world: &mut World) -> Process {
    start_with(world, &[]).await
}

/// The same with more flags.
pub async fn start_with(world: &mut World, more: &[&str]) -> Process {
    world.publish();
    let (log, traces, ports) = (world.path("log"), world.path("traces"), world.path("ports"));
    let child = command(world)
        .args(["--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0"])
        .arg(format!("--port-file={}", ports.display()))
        .args(more)
        .env("TERRACE_TRACE_FILE", &traces)
        .env("TERRACE_LOG", "trace")
        .stderr(Stdio::from(std::fs::File::create(&log).unwrap()))
        .spawn()
        .unwrap();
    running(world, child).await
}

/// A router's process once it is ready, with its port file, log and traces where [`World::path`] says.
pub async fn running(world: &World, child: Child) -> Process {
    let (log, traces, ports) = (world.path("log"), world.path("traces"), world.path("ports"));
    let said = || std::fs::read_to_string(&log).unwrap_or_default();
    let deadline = Instant::now() + Duration::from_secs(30);
    while !ports.exists() {
        assert!(Instant::now() < deadline, "no port file: {}", said());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let addresses: Value = serde_json::from_slice(&std::fs::read(&ports).unwrap()).unwrap();
    let address = |name: &str| addresses[name].as_str().unwrap().parse().unwrap();
    let process = Process { child, listen: address("listen"), admin: address("admin"), log: log.clone(), traces };
    while super::get(process.admin, "/readyz", &[]).await.status != 200 {
        assert!(Instant::now() < deadline, "never ready: {}", process.log());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    process
}

impl Process {
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Spans so far, one JSON object each.
    pub fn spans(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.traces).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Asks it to end, as Kubernetes does.
    pub fn terminate(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }
}
