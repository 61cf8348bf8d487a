//! The processes of one run: agents, then a router that is told of them by a signed snapshot. They end with this program.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http_body_util::Empty;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use terrace_contract::snapshot::Snapshot;
use terrace_contract::tier::{Backend, Device as Pod};
use terrace_identity::authority::{Authority, Usage};
use terrace_identity::signing::SnapshotKey;
use terrace_identity::spiffe::Identity;
use terrace_simulate::world::{Device, Places, Rung};
use terrace_telemetry::time::now_us;
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

use crate::backup;

/// UID that stands for the cluster in identities.
pub const CLUSTER: &str = "c-confirm";
/// How long a program may take until it serves.
const PATIENCE: Duration = Duration::from_secs(60);

/// Everything that runs.
pub struct Fleet {
    /// Where the router serves clients.
    pub router: SocketAddr,
    children: Vec<Child>,
    backup: CancellationToken,
    _folder: tempfile::TempDir,
}

/// Who issues identities, and where they are written.
struct Papers {
    folder: PathBuf,
    authority: Authority,
    key: SnapshotKey,
}

impl Fleet {
    /// Starts them; each is ready when this returns.
    ///
    /// # Errors
    /// A program is missing or does not come up: where its log is.
    pub async fn start(mut snapshot: Snapshot, near: &Rung, far: &Rung) -> Result<Self> {
        let (Places::Devices(devices), Backend::Fleet(spec)) = (&near.places, &near.tier.backend) else {
            bail!("the nearest tier must be a fleet");
        };
        let folder = tempfile::tempdir()?;
        let papers = Papers {
            folder: folder.path().to_owned(),
            authority: Authority::generate(CLUSTER, SystemTime::now())?,
            key: SnapshotKey::generate()?,
        };
        let stop = CancellationToken::new();
        let at = backup::serve(stop.clone()).await?;
        for tier in snapshot.tiers.iter_mut().filter(|tier| tier.uid == far.tier.uid) {
            if let Backend::Endpoint(endpoint) = &mut tier.backend {
                endpoint.url = format!("http://{at}/v1");
            }
        }
        let identity = Identity::tier(CLUSTER, &near.tier.namespace, &near.tier.name);
        let papers_of_tier = papers.issue("tier", &identity)?;
        let mut children = Vec::new();
        for device in devices {
            children.push(papers.agent(device, &spec.model, near.tier.capability.context_tokens, &papers_of_tier)?);
        }
        for (device, child) in devices.iter().zip(&mut children) {
            let address = papers.ready(&device.node, child).await?;
            snapshot.devices.push(Pod::process(&near.tier.uid, &device.node, address, identity.uri()));
        }
        snapshot.issued_at_us = now_us();
        snapshot.revision = snapshot.digest();
        papers.key.sign(&mut snapshot);
        let mut child = papers.router(&snapshot)?;
        let router = papers.ready("router", &mut child).await?;
        served(router).await?;
        // Ended first.
        children.insert(0, child);
        Ok(Self { router, children, backup: stop, _folder: folder })
    }

    /// Ends them, the router first.
    pub async fn stop(mut self) {
        for child in &mut self.children {
            // One that has ended by itself is as good.
            let _ = child.kill().await;
        }
        self.backup.cancel();
    }
}

/// Waits until a router has its policy.
async fn served(router: SocketAddr) -> Result<()> {
    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = client.get(format!("http://{router}/v1/models").parse()?).await;
        match answer {
            Ok(answer) if answer.status().is_success() => return Ok(()),
            _ if Instant::now() > deadline => bail!("the router has no policy after {} s", PATIENCE.as_secs()),
            _ => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// A program of this build: this one is an example, and lies in a folder beside the programs.
fn program(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot tell where this program lies")?;
    let built = own.ancestors().nth(2).map(|folder| folder.join(name)).unwrap_or_default();
    if !built.exists() {
        bail!("{} is not there: scripts/confirm-selection.sh builds it", built.display());
    }
    Ok(built)
}

impl Papers {
    /// Issues an identity into a folder of its own.
    fn issue(&self, name: &str, identity: &Identity) -> Result<PathBuf> {
        let folder = self.inner(&format!("identity-{name}"))?;
        let leaf = self.authority.issue(identity, Usage::Both, &[], &[], SystemTime::now())?;
        let key = self.key.public_base64();
        for (file, text) in [
            ("tls.crt", leaf.cert_pem.as_str()),
            ("tls.key", &leaf.key_pem),
            ("ca.crt", self.authority.cert_pem()),
            ("snapshot.pub", &key),
        ] {
            std::fs::write(folder.join(file), text)?;
        }
        Ok(folder)
    }

    fn inner(&self, name: &str) -> Result<PathBuf> {
        let folder = self.folder.join(name);
        std::fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    fn spawn(&self, name: &str, mut command: Command) -> Result<Child> {
        let log = std::fs::File::create(self.folder.join(format!("{name}.log")))?;
        command.arg("--port-file").arg(self.folder.join(format!("{name}.ports")));
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).kill_on_drop(true);
        command.env_remove("OTEL_EXPORTER_OTLP_ENDPOINT").env("TERRACE_LOG", "warn");
        command.spawn().with_context(|| format!("{name} does not start"))
    }

    fn agent(&self, device: &Device, model: &str, context_tokens: u32, identity: &Path) -> Result<Child> {
        let mut command = Command::new(program("examples/slowed")?);
        command.args(["--name", &device.node, "--model-name", model]).arg("--identity-dir").arg(identity);
        for (flag, value) in [
            ("--prefill-rate", device.prefill_rate),
            ("--step-base-us", device.step_base_us),
            ("--step-per-sequence-us", device.step_per_sequence_us),
            ("--context-tokens", context_tokens.into()),
            ("--max-sequences", device.slots.into()),
            ("--queue-limit", device.queue_limit.into()),
        ] {
            command.args([flag, &value.to_string()]);
        }
        self.spawn(&device.node, command)
    }

    fn router(&self, snapshot: &Snapshot) -> Result<Child> {
        let policy = &snapshot.policy;
        let identity = self.issue("router", &Identity::policy(CLUSTER, &policy.namespace, &policy.name))?;
        let file = self.folder.join("snapshot.json");
        std::fs::write(&file, serde_json::to_vec(snapshot)?)?;
        let mut command = Command::new(program("terrace-router")?);
        command.args(["--policy", &policy.name, "--namespace", &policy.namespace, "--end-with-parent"]);
        command.args(["--allow-loopback", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
        for (flag, path) in [
            ("--snapshot", file),
            ("--identity-dir", identity),
            ("--credentials-dir", self.inner("credentials")?),
            ("--api-keys-dir", self.inner("api-keys")?),
            ("--state-dir", self.inner("state")?),
        ] {
            command.arg(flag).arg(path);
        }
        self.spawn("router", command)
    }

    /// Waits until it serves.
    async fn ready(&self, name: &str, child: &mut Child) -> Result<SocketAddr> {
        let deadline = Instant::now() + PATIENCE;
        let file = self.folder.join(format!("{name}.ports"));
        loop {
            if let Ok(bytes) = std::fs::read(&file) {
                let ports: serde_json::Value = serde_json::from_slice(&bytes).context("a port file is damaged")?;
                let listen = ports["listen"].as_str().and_then(|address| address.parse().ok());
                return listen.context("a port file has no address");
            }
            let ended = child.try_wait()?;
            if ended.is_some() || Instant::now() > deadline {
                let log = std::fs::read_to_string(self.folder.join(format!("{name}.log"))).unwrap_or_default();
                bail!("{name} does not serve: {}", log.lines().last().unwrap_or("it says nothing"));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
