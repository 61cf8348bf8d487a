//! The tiers on real sockets, and for each the folder of a router that has it alone on its ladder.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;
use terrace_contract::policy::*;
use terrace_contract::snapshot::{Generations, Snapshot};
use terrace_contract::tier::{
    Backend, Capability, Cost, Device, Endpoint, EndpointLimits, Energy, Feature, Fleet, Tier as Contract,
};
use terrace_contract::trust::{Boundaries, Boundary, Class};
use terrace_identity::authority::Usage;
use terrace_identity::store::Material;
use terrace_identity::{Authority, Identity, IdentityStore, SnapshotKey};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::tier::{MODEL, Tier};

const CLUSTER: &str = "c-bench";
const POD: &str = "pod-bench";

/// How a tier is reached.
#[derive(Clone, Copy)]
enum Way {
    /// HTTP/1.1 without TLS: what the other routers speak too, and what an endpoint inside the Private boundary may be.
    Plain(SocketAddr),
    /// Mutual TLS and HTTP/2: an agent.
    Agent(SocketAddr),
    /// TLS that the tier's own authority proves, HTTP/1.1: a public endpoint, each crossing recorded.
    Tls(SocketAddr),
}

/// Serves the tiers until the input of this program ends.
///
/// # Errors
/// A folder or a port that cannot be used.
pub async fn serve(folder: &Path) -> anyhow::Result<()> {
    let authority = Authority::generate(CLUSTER, SystemTime::now())?;
    let stop = CancellationToken::new();
    let listen = || TcpListener::bind("127.0.0.1:0");

    let listener = listen().await?;
    let plain = listener.local_addr()?;
    let routes = Tier::new(None).routes();
    tokio::spawn(terrace_identity::serve_plain(listener, routes, stop.clone(), Duration::ZERO));

    let listener = listen().await?;
    let agent = listener.local_addr()?;
    let identity = Identity::tier(CLUSTER, "shop", MODEL);
    let leaf = authority.issue(&identity, Usage::Serve, &[], &[], SystemTime::now())?;
    let store = IdentityStore::from_material(Material {
        cert_pem: leaf.cert_pem.into_bytes(),
        key_pem: leaf.key_pem.into_bytes(),
        ca_pem: authority.cert_pem().as_bytes().to_vec(),
    })?;
    let tier = Tier::new(Some(POD));
    tokio::spawn(terrace_identity::serve(listener, store.identities(), tier.routes(), stop.clone(), Duration::ZERO));

    let (config, ca) = endpoint_tls()?;
    let listener = listen().await?;
    let tls = listener.local_addr()?;
    let public = Tier::new(None);
    let newest = move || Arc::clone(&config);
    tokio::spawn(terrace_identity::serve_tls(listener, newest, public.routes(), stop.clone(), Duration::ZERO));

    for (name, way) in [("plain", Way::Plain(plain)), ("agent", Way::Agent(agent)), ("tls", Way::Tls(tls))] {
        router(&folder.join(name), &authority, way, &ca)?;
    }
    // Two of them once more without TLS: their held streams are let go there.
    let mut release = Vec::new();
    for tier in [&tier, &public] {
        let listener = listen().await?;
        release.push(listener.local_addr()?);
        tokio::spawn(terrace_identity::serve_plain(listener, tier.routes(), stop.clone(), Duration::ZERO));
    }
    println!("{}", json!({"plain": plain, "release": release[0], "tls_release": release[1]}));
    tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink())).await??;
    Ok(())
}

/// TLS of an endpoint with its own authority, and that authority.
fn endpoint_tls() -> anyhow::Result<(Arc<rustls::ServerConfig>, String)> {
    let key = rcgen::KeyPair::generate()?;
    let mut ca = rcgen::CertificateParams::new(vec![])?;
    ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let pem = ca.self_signed(&key)?.pem();
    let issuer = rcgen::Issuer::new(ca, key);
    let key = rcgen::KeyPair::generate()?;
    let leaf = rcgen::CertificateParams::new(vec!["localhost".into()])?.signed_by(&key, &issuer)?;
    let key = rustls_pki_types::PrivateKeyDer::try_from(key.serialize_der()).map_err(anyhow::Error::msg)?;
    let mut config =
        rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(vec![leaf.der().clone()], key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok((Arc::new(config), pem))
}

/// The folder of a router: its identity, credentials and the snapshot that it follows.
fn router(folder: &Path, authority: &Authority, way: Way, ca: &str) -> anyhow::Result<()> {
    for name in ["identity", "credentials/uid-small", "api-keys", "state"] {
        std::fs::create_dir_all(folder.join(name))?;
    }
    let key = SnapshotKey::generate()?;
    let leaf =
        authority.issue(&Identity::policy(CLUSTER, "shop", "bench"), Usage::Call, &[], &[], SystemTime::now())?;
    let identity = folder.join("identity");
    std::fs::write(identity.join("tls.crt"), leaf.cert_pem)?;
    std::fs::write(identity.join("tls.key"), leaf.key_pem)?;
    std::fs::write(identity.join("ca.crt"), authority.cert_pem())?;
    std::fs::write(identity.join("snapshot.pub"), key.public_base64())?;
    std::fs::write(folder.join("credentials/uid-small/apiKey"), "sk-upstream")?;
    std::fs::write(folder.join("credentials/uid-small/ca.crt"), ca)?;
    let mut snapshot = snapshot(way);
    snapshot.revision = snapshot.digest();
    key.sign(&mut snapshot);
    std::fs::write(folder.join("snapshot.json"), serde_json::to_vec(&snapshot)?)?;
    Ok(())
}

fn snapshot(way: Way) -> Snapshot {
    let uid = "uid-small".to_owned();
    let issued_at_us = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64;
    let devices = match way {
        Way::Agent(address) => vec![Device {
            tier: uid.clone(),
            pod_uid: POD.into(),
            pod: "small-0".into(),
            node: "n1".into(),
            domain: String::new(),
            address: address.ip().to_string(),
            port: address.port(),
            server_name: Identity::tier(CLUSTER, "shop", MODEL).uri(),
            ready: true,
        }],
        _ => vec![],
    };
    Snapshot {
        schema_version: 1,
        cluster_uid: CLUSTER.into(),
        revision: String::new(),
        generations: Generations { policy: 1, tiers: BTreeMap::from([(uid, 1)]), budgets: BTreeMap::new() },
        issued_at_us,
        policy: policy(),
        tiers: vec![tier(way)],
        budgets: vec![],
        routers: 1,
        devices,
        signature: String::new(),
    }
}

fn tier(way: Way) -> Contract {
    let endpoint = |url: String, credential: Option<String>, ca_certificate: Option<String>| {
        Backend::Endpoint(Endpoint {
            url,
            model: MODEL.into(),
            credential,
            ca_certificate,
            allowed_cidrs: vec!["127.0.0.0/8".into()],
            extra_fields: vec![],
            limits: EndpointLimits::default(),
        })
    };
    let (boundary, backend) = match way {
        Way::Plain(address) => (Boundary::Private, endpoint(format!("http://{address}/v1"), None, None)),
        Way::Tls(address) => {
            let url = format!("https://localhost:{}/v1", address.port());
            (Boundary::Public, endpoint(url, Some("apiKey".into()), Some("ca.crt".into())))
        }
        Way::Agent(_) => (
            Boundary::Device,
            Backend::Fleet(Fleet {
                model: MODEL.into(),
                max_sequences: 4096,
                service: String::new(),
                port: 8443,
                server_name: Identity::tier(CLUSTER, "shop", MODEL).uri(),
            }),
        ),
    };
    Contract {
        uid: "uid-small".into(),
        generation: 1,
        name: MODEL.into(),
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
            context_tokens: 32_768,
            quality: 60,
            tasks: vec![],
        },
    }
}

/// Detection on, one trace of a hundred kept.
fn policy() -> Policy {
    Policy {
        uid: "p-1".into(),
        name: "bench".into(),
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
            max_policy_age_us: 86_400_000_000,
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
        limits: Limits {
            request_bytes: 1 << 20,
            max_output_tokens: 256,
            concurrency: 4096,
            spend_per_day_micros: None,
        },
        trace_sample_percent: 1,
    }
}
