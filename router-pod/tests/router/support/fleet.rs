//! An authority, a signed snapshot, tiers on real sockets, and a router that follows them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use clap::Parser as _;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use terrace_contract::policy::*;
use terrace_contract::snapshot::{Generations, Snapshot};
use terrace_contract::tier::{
    Backend, Capability, Cost, Device, Endpoint, EndpointLimits, Energy, Feature, Fleet, Tier,
};
use terrace_contract::trust::{Boundaries, Boundary, Class};
use terrace_identity::authority::Usage;
use terrace_identity::{Authority, Identity, IdentityStore, SnapshotKey};
use terrace_router::args::Args;
use terrace_router::run::{self, Running};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::tier::Scripted;
use super::until;

pub const CLUSTER: &str = "c-1";

/// Everything that a router needs around it.
pub struct World {
    pub dir: tempfile::TempDir,
    pub authority: Authority,
    pub key: SnapshotKey,
    pub snapshot: Snapshot,
    /// Ends the tiers, and with them the router.
    pub shutdown: CancellationToken,
    /// Ends the router alone.
    pub router_shutdown: CancellationToken,
    pub running: Option<Running>,
    pub listen: SocketAddr,
    pub admin: SocketAddr,
}

pub fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64
}

fn policy() -> Policy {
    Policy {
        uid: "p-1".into(),
        name: "assistant".into(),
        namespace: "shop".into(),
        weights: Weights::PRIVACY_FIRST,
        access: Access::Anonymous,
        listener_tls: false,
        sensitivity: Sensitivity {
            unlabelled: Class::Public,
            boundaries: Boundaries::default(),
            detector: Detector::Score,
            anonymise: None,
            consent: None,
            residency: vec![],
            entities: vec![],
            max_policy_age_us: 3_600_000_000,
        },
        complexity: Complexity { mode: ComplexityMode::Static, max_prompt_tokens: 100_000 },
        cascade: Cascade::Disabled,
        selection: Strategy::ShortestExpectedCompletion,
        hedge: Hedge::default(),
        overflow: Overflow { mode: OverflowMode::Predicted, max_percent: 100 },
        degrade: Degrade::Mark,
        learning: LearningMode::Disabled,
        canary_percent: 0,
        ledger_on_write_failure: OnWriteFailure::Deny,
        limits: Limits { request_bytes: 1 << 20, max_output_tokens: 256, concurrency: 64, spend_per_day_micros: None },
        trace_sample_percent: 100,
    }
}

impl World {
    pub fn new() -> Self {
        terrace_identity::install_crypto_provider();
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::generate(CLUSTER, SystemTime::now()).unwrap();
        let key = SnapshotKey::generate().unwrap();
        for name in ["identity", "credentials", "api-keys", "state", "mounted"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        let world = Self {
            snapshot: Snapshot {
                schema_version: 1,
                cluster_uid: CLUSTER.into(),
                revision: String::new(),
                generations: Generations { policy: 1, tiers: BTreeMap::new(), budgets: BTreeMap::new() },
                issued_at_us: now_us(),
                policy: policy(),
                tiers: vec![],
                budgets: vec![],
                routers: 1,
                devices: vec![],
                signature: String::new(),
            },
            dir,
            authority,
            key,
            shutdown: CancellationToken::new(),
            router_shutdown: CancellationToken::new(),
            running: None,
            listen: "127.0.0.1:1".parse().unwrap(),
            admin: "127.0.0.1:1".parse().unwrap(),
        };
        let leaf = world
            .authority
            .issue(&Identity::policy(CLUSTER, "shop", "assistant"), Usage::Call, &[], &[], SystemTime::now())
            .unwrap();
        let identity = world.path("identity");
        std::fs::write(identity.join("tls.crt"), leaf.cert_pem).unwrap();
        std::fs::write(identity.join("tls.key"), leaf.key_pem).unwrap();
        std::fs::write(identity.join("ca.crt"), world.authority.cert_pem()).unwrap();
        std::fs::write(identity.join("snapshot.pub"), world.key.public_base64()).unwrap();
        world
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn tier(&mut self, name: &str, boundary: Boundary, backend: Backend) {
        let uid = format!("uid-{name}");
        self.snapshot.generations.tiers.insert(uid.clone(), 1);
        self.snapshot.tiers.push(Tier {
            uid,
            generation: 1,
            name: name.into(),
            namespace: "shop".into(),
            boundary,
            topology_key: None,
            region: "eu".into(),
            processor: "Shop".into(),
            backend,
            cost: Cost {
                currency: "USD".into(),
                per_million_input_micros: 1_000_000,
                per_million_output_micros: 2_000_000,
                per_device_hour_micros: 0,
            },
            energy: Energy::default(),
            capability: Capability {
                features: vec![Feature::Tools, Feature::Logprobs],
                context_tokens: 4096,
                quality: 60,
                tasks: vec![],
            },
        });
    }

    /// Adds a fleet tier with one agent a script; a second call with the same name adds a device.
    pub async fn agents(&mut self, name: &str, boundary: Boundary, agents: &[&Arc<Scripted>]) {
        let identity = Identity::tier(CLUSTER, "shop", name);
        self.tier(
            name,
            boundary,
            Backend::Fleet(Fleet {
                model: agents.first().map_or("small", |a| &a.model).to_owned(),
                max_sequences: 1,
                service: String::new(),
                port: 8443,
                server_name: identity.uri(),
            }),
        );
        for (i, agent) in agents.iter().enumerate() {
            let address = self.serve_agent(&identity, agent).await;
            let pod_uid = format!("pod-{name}-{i}");
            *agent.pod_uid.lock().unwrap() = pod_uid.clone();
            self.snapshot.devices.push(Device {
                tier: format!("uid-{name}"),
                pod_uid,
                pod: format!("{name}-{i}"),
                node: format!("node-{name}-{i}"),
                domain: String::new(),
                address: address.ip().to_string(),
                port: address.port(),
                server_name: identity.uri(),
                ready: true,
            });
        }
    }

    /// What a tier added before can do.
    pub fn can(&mut self, name: &str, features: &[Feature]) {
        let tier = self.snapshot.tiers.iter_mut().find(|tier| tier.name == name).unwrap();
        tier.capability.features = features.to_vec();
    }

    /// Serves an agent over mutual TLS with the identity of a tier.
    pub async fn serve_agent(&self, identity: &Identity, agent: &Arc<Scripted>) -> SocketAddr {
        let leaf = self.authority.issue(identity, Usage::Serve, &[], &[], SystemTime::now()).unwrap();
        let store = IdentityStore::from_material(terrace_identity::store::Material {
            cert_pem: leaf.cert_pem.into_bytes(),
            key_pem: leaf.key_pem.into_bytes(),
            ca_pem: self.authority.cert_pem().as_bytes().to_vec(),
        })
        .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        *agent.address.lock().unwrap() = Some(address);
        let (routes, stop) = (agent.routes(), self.shutdown.clone());
        tokio::spawn(async move {
            terrace_identity::serve(listener, store.identities(), routes, stop, Duration::ZERO).await;
        });
        address
    }

    /// Adds an https endpoint with its own authority and a credential.
    pub async fn endpoint(&mut self, name: &str, boundary: Boundary, script: &Arc<Scripted>) {
        let (address, ca) = serve_https(script.routes()).await;
        *script.address.lock().unwrap() = Some(address);
        let credentials = self.path("credentials").join(format!("uid-{name}"));
        std::fs::create_dir(&credentials).unwrap();
        std::fs::write(credentials.join("apiKey"), "sk-upstream").unwrap();
        std::fs::write(credentials.join("ca.crt"), ca).unwrap();
        self.tier(
            name,
            boundary,
            Backend::Endpoint(Endpoint {
                url: format!("https://localhost:{}/v1", address.port()),
                model: script.model.clone(),
                credential: Some("apiKey".into()),
                ca_certificate: Some("ca.crt".into()),
                allowed_cidrs: vec![],
                extra_fields: vec!["top_k".into()],
                limits: EndpointLimits::default(),
            }),
        );
    }

    pub fn budget(&mut self, name: &str, features: &[&str], first_token_ms: u64, total_ms: u64, on_miss: OnMiss) {
        self.snapshot.budgets.push(Budget {
            uid: format!("uid-{name}"),
            name: name.into(),
            features: features.iter().map(|f| (*f).to_owned()).collect(),
            first_token_us: first_token_ms * 1000,
            total_us: total_ms * 1000,
            objective_basis_points: 9900,
            window_us: 1,
            on_miss,
            priority: Priority::Interactive,
            chain: None,
        });
    }

    /// Signs the snapshot as it is.
    pub fn sign(&mut self) {
        self.snapshot.issued_at_us = now_us();
        self.snapshot.revision = self.snapshot.digest();
        self.key.sign(&mut self.snapshot);
    }

    /// Signs and writes the snapshot where the router follows it.
    pub fn publish(&mut self) {
        self.sign();
        self.write("snapshot.json", &self.snapshot);
    }

    pub fn write(&self, file: &str, snapshot: &Snapshot) {
        let partial = self.path("partial");
        std::fs::write(&partial, serde_json::to_vec(snapshot).unwrap()).unwrap();
        std::fs::rename(partial, self.path(file)).unwrap();
    }

    /// Starts a router with these arguments beyond the usual ones.
    pub async fn start_with(&mut self, more: &[&str]) {
        let dir = |name: &str| self.path(name).display().to_string();
        let mut args = vec![
            "terrace-router".to_owned(),
            "--policy=assistant".into(),
            "--namespace=shop".into(),
            "--listen=127.0.0.1:0".into(),
            "--admin-listen=127.0.0.1:0".into(),
            format!("--identity-dir={}", dir("identity")),
            format!("--credentials-dir={}", dir("credentials")),
            format!("--api-keys-dir={}", dir("api-keys")),
        ];
        args.extend(more.iter().map(|a| (*a).to_owned()));
        self.router_shutdown = self.shutdown.child_token();
        let running = run::start(Args::parse_from(args), self.router_shutdown.clone(), None).await.unwrap();
        (self.listen, self.admin) = (running.addresses.listen, running.addresses.admin);
        self.running = Some(running);
    }

    /// Publishes the snapshot, starts a router that follows it, and waits until it is ready and knows its devices.
    pub async fn start(&mut self) {
        self.publish();
        let snapshot = format!("--snapshot={}", self.path("snapshot.json").display());
        let state = format!("--state-dir={}", self.path("state").display());
        self.start_with(&[&snapshot, &state, "--allow-loopback"]).await;
        self.ready().await;
    }

    pub async fn ready(&self) {
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        while super::get(self.admin, "/readyz", &[]).await.status != 200 {
            assert!(std::time::Instant::now() < deadline, "the router never became ready");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub fn metrics(&self) -> String {
        self.running.as_ref().unwrap().metrics.text()
    }

    /// Waits until the metrics say something.
    pub async fn until_metrics(&self, line: &str) {
        until(line, || self.metrics().contains(line)).await;
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

/// Serves https on localhost; returns the authority to trust.
async fn serve_https(routes: Router) -> (SocketAddr, String) {
    let ca_key = rcgen::KeyPair::generate().unwrap();
    let mut ca = rcgen::CertificateParams::new(vec![]).unwrap();
    ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let ca_pem = ca.self_signed(&ca_key).unwrap().pem();
    let issuer = rcgen::Issuer::new(ca, ca_key);
    let leaf_key = rcgen::KeyPair::generate().unwrap();
    let leaf = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap().signed_by(&leaf_key, &issuer).unwrap();
    let key = rustls_pki_types::PrivateKeyDer::try_from(leaf_key.serialize_der()).unwrap();
    let mut config =
        rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(vec![leaf.der().clone()], key).unwrap();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (acceptor, routes) = (acceptor.clone(), routes.clone());
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let service = TowerToHyperService::new(routes);
                let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    (address, ca_pem)
}
