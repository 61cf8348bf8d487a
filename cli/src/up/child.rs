//! One program that `terrace up` runs: started, waited for, and ended with its parent.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::Instant;

/// The variable that names a collector, see `terrace_telemetry::Options::from_env`.
const OTLP: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// A started program.
#[derive(Debug)]
pub struct Running {
    /// What it is called in messages.
    pub name: String,
    child: Child,
    port_file: PathBuf,
    log: PathBuf,
}

/// Where the programs' spans go.
#[derive(Debug, Clone)]
pub enum Traces {
    /// A file each, in this folder.
    Files(PathBuf),
    /// A collector at this base address.
    Collector(String),
}

impl Traces {
    /// Folder of the files; empty when they go to a collector.
    pub fn files(&self) -> &Path {
        match self {
            Traces::Files(folder) => folder,
            Traces::Collector(_) => Path::new(""),
        }
    }
}

/// Addresses that a program has bound, as it wrote them to its port file.
#[derive(Debug, Clone, Copy)]
pub struct Ports {
    /// Where it serves.
    pub listen: SocketAddr,
}

/// Folder of this program: its siblings lie beside it.
fn beside(program: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot tell where this program lies")?;
    let path = own.with_file_name(program);
    if !path.exists() {
        bail!(
            "{} is not there: build it with `cargo build --release`, or install all of Terrace's programs in one folder",
            path.display()
        );
    }
    Ok(path)
}

impl Running {
    /// Starts `program` from the folder of this one. Its log goes to `<folder>/<name>.log`; its spans to a collector, or
    /// to `<name>.jsonl`.
    ///
    /// # Errors
    /// The program is not beside this one, or cannot be started.
    pub fn start(program: &str, name: &str, folder: &Path, traces: &Traces, arguments: &[String]) -> Result<Running> {
        let port_file = folder.join(format!("{name}.ports"));
        let log = folder.join(format!("{name}.log"));
        let _ = std::fs::remove_file(&port_file);
        let file = std::fs::File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = Command::new(beside(program)?);
        command
            .args(arguments)
            .arg("--port-file")
            .arg(&port_file)
            .arg("--end-with-parent")
            .env("POD_NAME", name)
            .env("POD_UID", name)
            .env("NODE_NAME", name)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            .kill_on_drop(true);
        match traces {
            Traces::Files(folder) => {
                command.env_remove(OTLP).env("TERRACE_TRACE_FILE", folder.join(format!("{name}.jsonl")))
            }
            Traces::Collector(url) => command.env(OTLP, url),
        };
        // A terminal sends Ctrl-C to the whole group; the children end when this program tells them to, in order.
        command.process_group(0);
        let child = command.spawn().with_context(|| format!("cannot start {program}"))?;
        Ok(Running { name: name.to_owned(), child, port_file, log })
    }

    /// Waits until it serves.
    ///
    /// # Errors
    /// It ended first (its last log lines are shown), or it took longer than `limit`.
    pub async fn ready(&mut self, limit: Duration) -> Result<Ports> {
        let deadline = Instant::now() + limit;
        loop {
            if let Ok(bytes) = std::fs::read(&self.port_file) {
                let ports: Value = serde_json::from_slice(&bytes).context("a port file is damaged")?;
                let listen =
                    ports["listen"].as_str().and_then(|a| a.parse().ok()).context("a port file has no address")?;
                return Ok(Ports { listen });
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended with {status} before it was ready:\n{}", self.name, self.last_words().await);
            }
            if Instant::now() > deadline {
                bail!("{} is not ready after {} s:\n{}", self.name, limit.as_secs(), self.last_words().await);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Resolves when it ends by itself.
    pub async fn ended(&mut self) -> String {
        let status = self.child.wait().await.map_or_else(|e| e.to_string(), |s| s.to_string());
        format!("{} ended with {status}:\n{}", self.name, self.last_words().await)
    }

    /// Tells it to end, and after `grace` makes it.
    pub async fn stop(mut self, grace: Duration) {
        if let Some(pid) =
            self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw)
        {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        if tokio::time::timeout(grace, self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
    }

    /// The last lines of its log that say something.
    async fn last_words(&self) -> String {
        let Ok(file) = tokio::fs::File::open(&self.log).await else { return String::new() };
        let mut lines = BufReader::new(file).lines();
        let mut last = std::collections::VecDeque::new();
        while let Ok(Some(line)) = lines.next_line().await {
            last.push_back(format!("    {}", plain(&line)));
            if last.len() > 6 {
                last.pop_front();
            }
        }
        last.make_contiguous().join("\n")
    }
}

/// A structured log line as a sentence.
fn plain(line: &str) -> String {
    let Ok(value) = serde_json::from_str::<Value>(line) else { return line.to_owned() };
    let message = value.pointer("/fields/message").or_else(|| value.get("message")).and_then(Value::as_str);
    let error = value.pointer("/fields/error").or_else(|| value.get("error")).and_then(Value::as_str);
    match (message, error) {
        (Some(message), Some(error)) => format!("{message}: {error}"),
        (Some(message), None) => message.to_owned(),
        _ => line.to_owned(),
    }
}
