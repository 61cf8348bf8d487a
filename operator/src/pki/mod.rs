//! The fleet's trust: the authority and the key that signs snapshots, in one Secret of the operator's own namespace;
//! leaves for tiers and policies; the operator's own leaf, which never leaves its memory.

mod stored;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kube::api::DynamicObject;
use terrace_contract::snapshot::Snapshot;
use terrace_identity::authority::{AuthorityError, due};
use terrace_identity::signing::SigningError;
use terrace_identity::store::Material;
use terrace_identity::{Authority, Identities, Identity, IdentityError, IdentityStore, SnapshotKey, Usage};
use tokio_util::sync::CancellationToken;

pub use stored::{NAME, ensure};

use crate::apply::sentence;

/// How often the operator looks at its own leaf.
const RENEWAL: Duration = Duration::from_secs(3600);

/// Files of an identity, as a Secret holds them and as a pod sees them.
pub type Files = BTreeMap<String, Vec<u8>>;

/// Why the fleet's trust cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The authority cannot be made, read or used.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    /// The snapshot key cannot be made or read.
    #[error("the snapshot key in Secret {NAME}: {0}")]
    Signing(#[from] SigningError),
    /// The operator's own leaf cannot be used.
    #[error("the operator's own certificate: {0}")]
    Identity(#[from] IdentityError),
    /// The Secret lacks an entry.
    #[error(
        "Secret {NAME} lacks {0:?}: restore it, or delete the Secret for a new authority (every pod then restarts)"
    )]
    Incomplete(&'static str),
    /// The namespace whose UID names the cluster cannot be read.
    #[error("cannot get Namespace kube-system, whose UID names the cluster: {}", sentence(.0))]
    Cluster(#[source] kube::Error),
    /// The API server said no, or did not answer.
    #[error("cannot {verb} Secret {NAME} in the operator's namespace: {}", sentence(source))]
    Api {
        /// What was tried.
        verb: &'static str,
        /// The answer.
        source: Box<kube::Error>,
    },
}

/// The fleet's trust.
pub struct Pki {
    authority: Authority,
    key: SnapshotKey,
    own: IdentityStore,
    dns: Vec<String>,
}

impl Pki {
    /// From a stored authority and key; `namespace` is the operator's own.
    ///
    /// # Errors
    /// When no leaf can be issued.
    pub fn new(authority: Authority, key: SnapshotKey, namespace: &str) -> Result<Self, Error> {
        let dns = [
            "terrace-operator",
            &format!("terrace-operator.{namespace}"),
            &format!("terrace-operator.{namespace}.svc"),
        ]
        .map(str::to_owned)
        .to_vec();
        let own = IdentityStore::from_material(own(&authority, &dns)?)?;
        Ok(Self { authority, key, own, dns })
    }

    /// UID of the cluster.
    pub fn cluster(&self) -> &str {
        self.authority.cluster()
    }

    /// The operator's identity, for serving and calling.
    pub fn identities(&self) -> Identities {
        self.own.identities()
    }

    /// Base64 of the public key that snapshots are verified with.
    pub fn public_key(&self) -> String {
        self.key.public_base64()
    }

    /// Signs a snapshot.
    pub fn sign(&self, snapshot: &mut Snapshot) {
        self.key.sign(snapshot);
    }

    /// Files of a tier's agents: those that `have` holds while they are good for half of their time, else new ones.
    ///
    /// # Errors
    /// When no leaf can be issued.
    pub fn tier_files(&self, namespace: &str, name: &str, have: Option<&Files>) -> Result<Files, Error> {
        self.files(&Identity::tier(self.cluster(), namespace, name), Usage::Serve, have)
    }

    /// Files of a policy's routers, with the key that they verify snapshots with.
    ///
    /// # Errors
    /// When no leaf can be issued.
    pub fn policy_files(&self, namespace: &str, name: &str, have: Option<&Files>) -> Result<Files, Error> {
        let mut files = self.files(&Identity::policy(self.cluster(), namespace, name), Usage::Call, have)?;
        files.insert("snapshot.pub".into(), self.public_key().into_bytes());
        Ok(files)
    }

    fn files(&self, identity: &Identity, usage: Usage, have: Option<&Files>) -> Result<Files, Error> {
        let now = SystemTime::now();
        let ca = self.authority.cert_pem().as_bytes();
        if let Some(have) = have
            && have.get("ca.crt").is_some_and(|pem| pem == ca)
            && have.contains_key("tls.key")
            && have.get("tls.crt").and_then(|pem| std::str::from_utf8(pem).ok()).is_some_and(|pem| !due(pem, now))
        {
            return Ok(["ca.crt", "tls.crt", "tls.key"]
                .iter()
                .filter_map(|name| Some(((*name).to_owned(), have.get(*name)?.clone())))
                .collect());
        }
        let leaf = self.authority.issue(identity, usage, &[], &[], now)?;
        Ok(Files::from([
            ("ca.crt".into(), ca.to_vec()),
            ("tls.crt".into(), leaf.cert_pem.into_bytes()),
            ("tls.key".into(), leaf.key_pem.into_bytes()),
        ]))
    }

    /// Renews the operator's own leaf until `stop`.
    pub async fn keep_own(&self, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(RENEWAL) => {}
            }
            let left = self.own.identities().not_after().duration_since(SystemTime::now()).unwrap_or_default();
            if left > terrace_identity::authority::LEAF_LIFETIME / 2 {
                continue;
            }
            let renewed = own(&self.authority, &self.dns).and_then(|m| self.own.install(m).map_err(Error::from));
            match renewed {
                Ok(_) => tracing::info!("renewed the operator's own certificate"),
                Err(error) => tracing::error!(%error, "cannot renew the operator's own certificate"),
            }
        }
    }
}

/// The files that a Secret holds.
pub fn files_of(secret: &DynamicObject) -> Option<Files> {
    let data = secret.data.get("data")?.as_object()?;
    let decode = |value: &serde_json::Value| BASE64.decode(value.as_str()?).ok();
    Some(data.iter().filter_map(|(name, value)| Some((name.clone(), decode(value)?))).collect())
}

/// When the leaf among the files ends.
pub fn not_after(files: &Files) -> Option<jiff::Timestamp> {
    let pem = std::str::from_utf8(files.get("tls.crt")?).ok()?;
    let end = terrace_identity::authority::not_after(pem)?;
    jiff::Timestamp::try_from(end).ok()
}

fn own(authority: &Authority, dns: &[String]) -> Result<Material, Error> {
    let identity = Identity::operator(authority.cluster());
    let leaf = authority.issue(&identity, Usage::Both, dns, &[], SystemTime::now())?;
    Ok(Material {
        cert_pem: leaf.cert_pem.into_bytes(),
        key_pem: leaf.key_pem.into_bytes(),
        ca_pem: authority.cert_pem().as_bytes().to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pki() -> Pki {
        let authority = Authority::generate("cluster-1", SystemTime::now()).unwrap();
        Pki::new(authority, SnapshotKey::generate().unwrap(), "terrace-system").unwrap()
    }

    #[test]
    fn good_files_are_kept_and_those_of_another_authority_are_replaced() {
        let (ours, theirs) = (pki(), pki());
        let first = ours.tier_files("shop", "edge", None).unwrap();
        assert_eq!(ours.tier_files("shop", "edge", Some(&first)).unwrap(), first);
        assert_ne!(theirs.tier_files("shop", "edge", Some(&first)).unwrap(), first);
    }

    #[test]
    fn a_damaged_certificate_is_replaced() {
        let pki = pki();
        let mut files = pki.policy_files("shop", "chat", None).unwrap();
        assert_eq!(
            files.keys().map(String::as_str).collect::<Vec<_>>(),
            ["ca.crt", "snapshot.pub", "tls.crt", "tls.key"]
        );
        files.insert("tls.crt".into(), b"not a certificate".to_vec());
        assert_ne!(pki.policy_files("shop", "chat", Some(&files)).unwrap(), files);
    }
}
