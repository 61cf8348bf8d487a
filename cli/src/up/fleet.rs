//! The processes of a run: agents first, then a router for each policy, told where the agents are by a signed snapshot.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use terrace_contract::tier::Device;
use terrace_crds::shared::Workload;
use terrace_crds::tier::Fleet as FleetSpec;
use terrace_identity::authority::Authority;
use terrace_identity::signing::SnapshotKey;
use terrace_identity::spiffe::Identity;
use terrace_telemetry::time::now_us;

use super::child::{Running, Traces};
use super::folder::{Folder, write};
use super::manifests::Manifests;
use super::models;
use crate::out;

/// UID that stands for the cluster in identities.
const CLUSTER: &str = "terrace-up";

/// Everything that runs.
#[derive(Debug, Default)]
pub struct Fleet {
    agents: Vec<Running>,
    routers: Vec<Running>,
}

impl Fleet {
    /// Starts agents and routers. Answers each policy's name and URL.
    ///
    /// # Errors
    /// A program does not come up: its last words are in the message.
    pub async fn start(
        &mut self,
        manifests: &Manifests,
        folder: &Folder,
        traces: &Traces,
        models: &Path,
        listen: SocketAddr,
        limit: Duration,
    ) -> Result<Vec<(String, String)>> {
        let authority = Authority::generate(CLUSTER, SystemTime::now())?;
        let key = SnapshotKey::generate()?;
        let devices = self.agents(manifests, folder, traces, models, &authority, &key, limit).await?;
        let mut urls = Vec::new();
        for (index, (policy, object)) in manifests.policies().enumerate() {
            let mut snapshot = manifests.compile(object, CLUSTER, now_us())?;
            snapshot.devices =
                devices.iter().filter(|d| snapshot.tiers.iter().any(|t| t.uid == d.tier)).cloned().collect();
            key.sign(&mut snapshot);
            let file = folder.path().join(format!("{}.snapshot.json", policy.name));
            write(&file, &serde_json::to_vec(&snapshot)?)?;
            let name = format!("router-{}", policy.name);
            let identity = Identity::policy(CLUSTER, &policy.namespace, &policy.name);
            let identity = folder.identity(&name, &authority, &identity, &key.public_base64())?;
            let secrets = manifests.write_secrets(object, &snapshot, folder)?;
            let listen = if index == 0 { listen } else { SocketAddr::new(listen.ip(), 0) };
            let arguments = flags(&[
                ("--policy", &policy.name),
                ("--namespace", &policy.namespace),
                ("--snapshot", &file.display().to_string()),
                ("--listen", &listen.to_string()),
                ("--admin-listen", "127.0.0.1:0"),
                ("--identity-dir", &identity.display().to_string()),
                ("--credentials-dir", &secrets.credentials.display().to_string()),
                ("--api-keys-dir", &secrets.api_keys.display().to_string()),
                ("--state-dir", &folder.inner(&format!("{name}-state"))?.display().to_string()),
            ]);
            let tls = manifests.write_tls(object, folder)?;
            let scheme = if tls.is_some() { "https" } else { "http" };
            let tls = tls.map(|at| flags(&[("--tls-dir", &at.display().to_string())])).unwrap_or_default();
            let arguments = [arguments, tls, vec!["--allow-loopback".to_owned()]].concat();
            let mut router = Running::start("terrace-router", &name, folder.path(), traces, &arguments)?;
            let ready = router.ready(limit).await;
            self.routers.push(router);
            urls.push((policy.name.clone(), format!("{scheme}://{}", ready?.listen)));
        }
        Ok(urls)
    }

    #[expect(clippy::too_many_arguments, reason = "one call; a struct would only name them twice")]
    async fn agents(
        &mut self,
        manifests: &Manifests,
        folder: &Folder,
        traces: &Traces,
        models: &Path,
        authority: &Authority,
        key: &SnapshotKey,
        limit: Duration,
    ) -> Result<Vec<Device>> {
        let mut started = Vec::new();
        for (tier, spec) in manifests.fleets() {
            let identity = Identity::tier(CLUSTER, &tier.namespace, &tier.name);
            let held = folder.identity(
                &format!("tier-{}-{}", tier.namespace, tier.name),
                authority,
                &identity,
                &key.public_base64(),
            )?;
            for index in 0..agents_of(spec) {
                let name = format!("{}-{index}", tier.name);
                out::note(format_args!("tier {}: starting agent {name} with {}", tier.name, spec.model.name));
                let arguments = [
                    models::flags(&tier.name, spec, models)?,
                    terrace_crds::agent::engine_flags(spec),
                    flags(&[
                        ("--listen", "127.0.0.1:0"),
                        ("--admin-listen", "127.0.0.1:0"),
                        ("--identity-dir", &held.display().to_string()),
                    ]),
                ]
                .concat();
                started.push((tier.clone(), identity.uri()));
                let next_step = models::next_step(spec, models);
                if let (Some(_), Some(source)) = (&next_step, &spec.model.source.http) {
                    let models = models.display();
                    out::note(format_args!("{name}: its model is not in {models}: asking {}", source.url));
                }
                let agent = Running::start("terrace-agent", &name, folder.path(), traces, &arguments)?;
                self.agents.push(agent.or_else(next_step));
            }
        }
        let ready = self.agents.iter_mut().map(|agent| agent.ready(limit));
        let ports = futures::future::try_join_all(ready).await?;
        let devices = started.iter().zip(&self.agents).zip(ports);
        Ok(devices
            .map(|(((tier, uri), agent), at)| Device::process(&tier.uid, &agent.name, at.listen, uri.clone()))
            .collect())
    }

    /// Starts again what ends by itself, for as long as this is waited for.
    pub async fn keep_up(&mut self) {
        let all = self.agents.iter_mut().chain(&mut self.routers).map(Running::keep_up);
        futures::future::join_all(all).await;
    }

    /// Ends routers, then agents.
    pub async fn stop(self) {
        for group in [self.routers, self.agents] {
            futures::future::join_all(group.into_iter().map(|p| p.stop(Duration::from_secs(10)))).await;
        }
    }
}

/// A DaemonSet is one agent here; a Deployment its replicas.
pub fn agents_of(spec: &FleetSpec) -> usize {
    match spec.workload {
        Workload::DaemonSet => 1,
        Workload::Deployment => usize::try_from(spec.replicas.unwrap_or(1)).unwrap_or(0),
    }
}

fn flags(pairs: &[(&str, &str)]) -> Vec<String> {
    pairs.iter().flat_map(|(flag, value)| [(*flag).to_owned(), (*value).to_owned()]).collect()
}

/// Folders of a router's secrets.
#[derive(Debug, Clone)]
pub struct SecretFolders {
    /// One folder a tier.
    pub credentials: PathBuf,
    /// One file a caller.
    pub api_keys: PathBuf,
}

impl SecretFolders {
    /// Makes them.
    ///
    /// # Errors
    /// They cannot be made.
    pub fn new(folder: &Folder, policy: &str) -> Result<Self> {
        let credentials = folder.inner(&format!("credentials-{policy}")).context("credentials")?;
        Ok(Self { credentials, api_keys: folder.inner(&format!("api-keys-{policy}"))? })
    }
}
