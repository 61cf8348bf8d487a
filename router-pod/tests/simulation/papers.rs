//! Keys, certificates and folders that all seeds share: made once, since what they are made of changes nothing.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};
use std::time::SystemTime;

use rustls::ServerConfig;
use terrace_identity::authority::Usage;
use terrace_identity::store::Material;
use terrace_identity::{Authority, Identities, Identity, IdentityStore, SnapshotKey};

pub const CLUSTER: &str = "c-1";
pub const NAMESPACE: &str = "shop";
pub const POLICY: &str = "assistant";

/// What is proved and how.
pub struct Papers {
    dir: tempfile::TempDir,
    authority: Authority,
    pub key: SnapshotKey,
    pub forger: SnapshotKey,
    pub cloud: Arc<ServerConfig>,
}

/// The papers in use, or new ones: their folder goes when nobody holds them any more.
pub fn papers() -> Arc<Papers> {
    static IN_USE: Mutex<Weak<Papers>> = Mutex::new(Weak::new());
    let mut in_use = IN_USE.lock().unwrap();
    in_use.upgrade().unwrap_or_else(|| {
        let papers = Arc::new(Papers::new());
        *in_use = Arc::downgrade(&papers);
        papers
    })
}

/// A folder in memory where there is one: each seed writes snapshots and ledgers, and waits for the disk otherwise.
pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

impl Papers {
    fn new() -> Self {
        terrace_identity::install_crypto_provider();
        let dir = folder();
        let authority = Authority::generate(CLUSTER, SystemTime::now()).unwrap();
        let key = SnapshotKey::generate().unwrap();
        for name in ["identity", "credentials", "credentials/uid-cloud", "api-keys"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        let router = Identity::policy(CLUSTER, NAMESPACE, POLICY);
        let leaf = authority.issue(&router, Usage::Call, &[], &[], SystemTime::now()).unwrap();
        write("identity/tls.crt", &leaf.cert_pem);
        write("identity/tls.key", &leaf.key_pem);
        write("identity/ca.crt", authority.cert_pem());
        write("identity/snapshot.pub", &key.public_base64());
        write("credentials/uid-cloud/apiKey", "sk-upstream");
        let (cloud, ca) = cloud();
        write("credentials/uid-cloud/ca.crt", &ca);
        Self { dir, authority, key, forger: SnapshotKey::generate().unwrap(), cloud }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// What a program of the fleet holds.
    pub fn identities(&self, identity: &Identity) -> Identities {
        let leaf = self.authority.issue(identity, Usage::Both, &[], &[], SystemTime::now()).unwrap();
        let material = Material {
            cert_pem: leaf.cert_pem.into_bytes(),
            key_pem: leaf.key_pem.into_bytes(),
            ca_pem: self.authority.cert_pem().as_bytes().to_vec(),
        };
        IdentityStore::from_material(material).unwrap().identities()
    }
}

/// The cloud's certificate, and the authority that signed it.
fn cloud() -> (Arc<ServerConfig>, String) {
    let ca_key = rcgen::KeyPair::generate().unwrap();
    let mut ca = rcgen::CertificateParams::new(vec![]).unwrap();
    ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let ca_pem = ca.self_signed(&ca_key).unwrap().pem();
    let issuer = rcgen::Issuer::new(ca, ca_key);
    let key = rcgen::KeyPair::generate().unwrap();
    let names = vec![crate::sea::CLOUD_NAME.to_owned()];
    let leaf = rcgen::CertificateParams::new(names).unwrap().signed_by(&key, &issuer).unwrap();
    let key = rustls_pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let mut config =
        rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(vec![leaf.der().clone()], key).unwrap();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    (Arc::new(config), ca_pem)
}
