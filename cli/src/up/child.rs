//! One program that `terrace up` runs: started, waited for, and ended with its parent.

use std::collections::HashSet;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tokio::process::{Child, Command};
use tokio::time::Instant;

use super::log::{self, Weight};
use crate::out;

/// The variable that names a collector, see `terrace_telemetry::Options::from_env`.
const OTLP: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// After so long it is said what a program that is not ready yet is doing.
const PATIENCE: Duration = Duration::from_secs(3);
/// How often its log is looked at until it is ready.
const LOOK: Duration = Duration::from_millis(500);

/// Waits before a program is started again begin here and double up to [`LONGEST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// What ran for so long is not one that does not hold.
const HOLDS: Duration = Duration::from_secs(60);

/// A started program.
#[derive(Debug)]
pub struct Running {
    /// What it is called in messages.
    pub name: String,
    child: Child,
    launch: Launch,
    /// Where it serves, once it does.
    listen: Option<SocketAddr>,
    next_step: Option<String>,
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

/// All that is needed to start it, and to start it again.
#[derive(Debug)]
struct Launch {
    program: String,
    name: String,
    port_file: PathBuf,
    log: PathBuf,
    traces: Traces,
    arguments: Vec<String>,
}

impl Launch {
    fn spawn(&self) -> Result<Child> {
        let Launch { program, name, port_file, log, .. } = self;
        let _ = std::fs::remove_file(port_file);
        let file = std::fs::File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = Command::new(beside(program)?);
        command
            .args(&self.arguments)
            .arg("--port-file")
            .arg(port_file)
            .arg("--end-with-parent")
            .env("POD_NAME", name)
            .env("POD_UID", name)
            .env("NODE_NAME", name)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            .kill_on_drop(true);
        match &self.traces {
            Traces::Files(folder) => {
                command.env_remove(OTLP).env("TERRACE_TRACE_FILE", folder.join(format!("{name}.jsonl")))
            }
            Traces::Collector(url) => command.env(OTLP, url),
        };
        // A terminal sends Ctrl-C to the whole group; the children end when this program tells them to, in order.
        command.process_group(0);
        command.spawn().with_context(|| format!("cannot start {program}"))
    }

    /// Has the next start serve at this address, where the others look for it.
    fn listen_at(&mut self, address: SocketAddr) {
        let value = self.arguments.iter().position(|a| a == "--listen").map(|at| at + 1);
        if let Some(value) = value.and_then(|at| self.arguments.get_mut(at)) {
            *value = address.to_string();
        }
    }
}

impl Running {
    /// Starts `program` from the folder of this one. Its log goes to `<folder>/<name>.log`; its spans to a collector, or
    /// to `<name>.jsonl`.
    ///
    /// # Errors
    /// The program is not beside this one, or cannot be started.
    pub fn start(program: &str, name: &str, folder: &Path, traces: &Traces, arguments: &[String]) -> Result<Running> {
        let launch = Launch {
            program: program.to_owned(),
            name: name.to_owned(),
            port_file: folder.join(format!("{name}.ports")),
            log: folder.join(format!("{name}.log")),
            traces: traces.clone(),
            arguments: arguments.to_vec(),
        };
        let child = launch.spawn()?;
        Ok(Running { name: name.to_owned(), child, launch, listen: None, next_step: None })
    }

    /// Waits until it serves.
    ///
    /// # Errors
    /// It ended first, or it took longer than `limit`: with the reason.
    pub async fn ready(&mut self, limit: Duration) -> Result<Ports> {
        let (begun, mut looked, mut told) = (Instant::now(), Duration::ZERO, HashSet::new());
        loop {
            if let Ok(bytes) = std::fs::read(&self.launch.port_file) {
                let ports: Value = serde_json::from_slice(&bytes).context("a port file is damaged")?;
                let listen =
                    ports["listen"].as_str().and_then(|a| a.parse().ok()).context("a port file has no address")?;
                self.listen = Some(listen);
                return Ok(Ports { listen });
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended with {status} before it was ready: {}", self.name, self.reason());
            }
            if begun.elapsed() > limit {
                bail!("{} is not ready after {} s: {}", self.name, limit.as_secs(), self.reason());
            }
            if begun.elapsed() >= looked + LOOK {
                looked = begun.elapsed();
                self.tell(looked, &mut told);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Starts it again whenever it ends by itself, where it served before: after a moment, and after ever longer ones if
    /// it does not hold.
    pub async fn keep_up(&mut self) -> Infallible {
        let mut wait = FIRST_WAIT;
        let mut begun = Instant::now();
        loop {
            let status = self.child.wait().await.map_or_else(|e| e.to_string(), |s| s.to_string());
            if begun.elapsed() >= HOLDS {
                wait = FIRST_WAIT;
            }
            let (name, reason) = (&self.name, self.reason());
            out::note(format_args!("{name} ended with {status} ({reason}); starting it again in {} s", wait.as_secs()));
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
            begun = Instant::now();
            if let Err(error) = self.again().await {
                out::note(format_args!("{}: {error:#}", self.name));
            }
        }
    }

    async fn again(&mut self) -> Result<()> {
        if let Some(address) = self.listen {
            self.launch.listen_at(address);
        }
        self.child = self.launch.spawn()?;
        // One that takes long is waited for; of one that ends first the caller says why.
        if self.ready(Duration::MAX).await.is_ok() {
            out::note(format_args!("{} serves again", self.name));
        }
        Ok(())
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

    /// Adds what to do if what it needs cannot be reached.
    pub fn or_else(mut self, next_step: Option<String>) -> Running {
        self.next_step = next_step;
        self
    }

    fn log_text(&self) -> String {
        // A log that cannot be read says nothing.
        std::fs::read(&self.launch.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// Why it ended or is not ready, and what to do.
    fn reason(&self) -> String {
        let reason = log::reason(&self.log_text());
        let next_step = self.next_step.as_ref().filter(|_| !reason_is_here(&reason));
        next_step.map_or_else(|| reason.clone(), |step| format!("{reason}; {step}"))
    }

    /// Says what is new: what is in its way at once, what it does only when it takes a while.
    fn tell(&self, waited: Duration, told: &mut HashSet<String>) {
        let log = self.log_text();
        let mut seen = told.clone();
        for said in log::news(&log, &mut seen) {
            // Why it ends is said when it has.
            let now = said.weight == Weight::Warning || said.weight == Weight::Note && waited >= PATIENCE;
            if now {
                let step = self.next_step.as_ref().filter(|step| {
                    said.weight == Weight::Warning && !reason_is_here(&said.text) && told.insert((*step).clone())
                });
                out::note(match step {
                    Some(step) => format!("{}: {}; {step}", self.name, said.text),
                    None => format!("{}: {}", self.name, said.text),
                });
                told.insert(said.text);
            }
        }
        if let Some(step) = self.next_step.as_ref().filter(|_| waited >= PATIENCE)
            && told.insert(step.clone())
        {
            out::note(format_args!("{} is not ready yet; if the model's source cannot be reached, {step}", self.name));
        }
    }
}

/// Whether a program fails for a reason of its own, whatever can be reached.
fn reason_is_here(reason: &str) -> bool {
    !["cannot be reached", "answers HTTP", "asking for the model", "said nothing"].iter().any(|t| reason.contains(t))
}
