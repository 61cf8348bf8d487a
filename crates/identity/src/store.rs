//! This program's own certificate, and its renewal while it runs.
//!
//! Split in two as in linkerd's proxy: the [`IdentityStore`] is the one that reads and replaces, [`Identities`] is what
//! everyone else holds and always sees the newest through. A renewal that cannot be used keeps the old one and says so.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_util::sync::CancellationToken;

use crate::certificate::{self, CertificateError, Facts};
use crate::spiffe::Identity;

/// How often the files are compared with what is in use. Mounted Secrets change by a swap of symbolic links, which
/// file notifications see differently on each file system; three small reads do not.
pub const POLL: Duration = Duration::from_secs(2);

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A file is missing or unreadable.
    #[error("cannot read {path}: {source}; the identity folder holds tls.crt, tls.key and ca.crt")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A file is not what its name says.
    #[error("{file} cannot be used: {why}")]
    Pem {
        /// `tls.crt`, `tls.key` or `ca.crt`.
        file: &'static str,
        /// Why not.
        why: String,
    },
    /// The certificate names nobody.
    #[error("tls.crt cannot be used: {0}")]
    Certificate(Box<CertificateError>),
    /// rustls refuses the combination.
    #[error("tls.crt, tls.key and ca.crt cannot be used together: {0}")]
    Tls(#[from] rustls::Error),
    /// Now is outside the certificate's time.
    #[error(
        "ClockSkew: this machine's clock says {now} (Unix seconds), but the certificate is valid from {not_before} to \
         {not_after}: set the clock, or wait for the operator to renew the certificate"
    )]
    ClockSkew {
        /// Now.
        now: u64,
        /// Begin.
        not_before: u64,
        /// End.
        not_after: u64,
    },
}

/// The three files, as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Material {
    /// `tls.crt`
    pub cert_pem: Vec<u8>,
    /// `tls.key`
    pub key_pem: Vec<u8>,
    /// `ca.crt`
    pub ca_pem: Vec<u8>,
}

impl Material {
    fn read(dir: &Path) -> Result<Self, IdentityError> {
        let read = |name: &str| {
            let path = dir.join(name);
            std::fs::read(&path).map_err(|source| IdentityError::Read { path, source })
        };
        Ok(Self { cert_pem: read("tls.crt")?, key_pem: read("tls.key")?, ca_pem: read("ca.crt")? })
    }
}

/// Everything made from one [`Material`].
struct Current {
    facts: Facts,
    roots: Arc<RootCertStore>,
    key: Arc<CertifiedKey>,
    server: Arc<ServerConfig>,
    /// One configuration an expected identity, since the verifier is a part of it.
    clients: Mutex<HashMap<Identity, Arc<ClientConfig>>>,
}

impl Current {
    fn new(material: &Material) -> Result<Self, IdentityError> {
        let pem = |file, why: &dyn std::fmt::Display| IdentityError::Pem { file, why: why.to_string() };
        let chain = certificates(&material.cert_pem).map_err(|e| pem("tls.crt", &e))?;
        let leaf = chain.first().ok_or_else(|| pem("tls.crt", &"it holds no certificate"))?;
        let facts = certificate::read(leaf).map_err(|e| IdentityError::Certificate(Box::new(e)))?;
        let private = crate::authority::private_key(&material.key_pem).map_err(|e| pem("tls.key", &e))?;
        let mut roots = RootCertStore::empty();
        for root in certificates(&material.ca_pem).map_err(|e| pem("ca.crt", &e))? {
            roots.add(root).map_err(|e| pem("ca.crt", &e))?;
        }
        if roots.is_empty() {
            return Err(pem("ca.crt", &"it holds no certificate"));
        }
        let roots = Arc::new(roots);
        let provider = crate::provider();
        let key = Arc::new(CertifiedKey::from_der(chain, private, &provider)?);
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone())
            .build()
            .map_err(|e| pem("ca.crt", &e))?;
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(Always(key.clone())));
        server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        // No resumption: each connection proves itself anew, with the certificates of now.
        server.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        Ok(Self { facts, roots, key, server: Arc::new(server), clients: Mutex::default() })
    }

    fn client(&self, expected: &Identity) -> Result<Arc<ClientConfig>, IdentityError> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(config) = clients.get(expected) {
            return Ok(config.clone());
        }
        let provider = crate::provider();
        let verifier = ExactIdentity {
            roots: self.roots.clone(),
            expected: expected.clone(),
            algorithms: provider.signature_verification_algorithms,
        };
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_client_cert_resolver(Arc::new(Always(self.key.clone())));
        config.alpn_protocols = vec![b"h2".to_vec()];
        config.resumption = rustls::client::Resumption::disabled();
        config.enable_sni = false;
        let config = Arc::new(config);
        clients.insert(expected.clone(), config.clone());
        Ok(config)
    }
}

/// Reads and replaces this program's certificate.
pub struct IdentityStore {
    dir: Option<PathBuf>,
    shared: Arc<ArcSwap<Current>>,
    loaded: Mutex<Material>,
}

impl IdentityStore {
    /// Reads `tls.crt`, `tls.key` and `ca.crt` of a folder.
    ///
    /// # Errors
    /// Names the file. A certificate that is out of date is no error here: see [`Identities::check_clock`].
    pub fn load(dir: impl Into<PathBuf>) -> Result<Self, IdentityError> {
        let dir = dir.into();
        let store = Self::from_material(Material::read(&dir)?)?;
        Ok(Self { dir: Some(dir), ..store })
    }

    /// From memory: the operator and `terrace up`, which hold the authority themselves.
    ///
    /// # Errors
    /// Names the part.
    pub fn from_material(material: Material) -> Result<Self, IdentityError> {
        let shared = Arc::new(ArcSwap::from_pointee(Current::new(&material)?));
        Ok(Self { dir: None, shared, loaded: Mutex::new(material) })
    }

    /// What servers and clients hold.
    pub fn identities(&self) -> Identities {
        Identities { shared: self.shared.clone() }
    }

    /// Takes a new certificate into use; connections that are open keep the old one. False: it is the one in use.
    ///
    /// # Errors
    /// Names the part; the old one stays in use.
    pub fn install(&self, material: Material) -> Result<bool, IdentityError> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if *loaded == material {
            return Ok(false);
        }
        self.shared.store(Arc::new(Current::new(&material)?));
        *loaded = material;
        Ok(true)
    }

    /// Reads the folder again. False: nothing changed, or there is no folder.
    ///
    /// # Errors
    /// Names the file; the old certificate stays in use.
    pub fn reload(&self) -> Result<bool, IdentityError> {
        match &self.dir {
            Some(dir) => self.install(Material::read(dir)?),
            None => Ok(false),
        }
    }

    /// Reloads every [`POLL`] until the shutdown.
    pub async fn follow(self, shutdown: CancellationToken) {
        let mut reported = None;
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(POLL) => {}
            }
            match self.reload() {
                Ok(false) => reported = None,
                Ok(true) => {
                    reported = None;
                    let ids = self.identities();
                    tracing::info!(identity = %ids.identity(), "a renewed certificate is in use");
                }
                Err(error) => {
                    let sentence = error.to_string();
                    if reported.as_ref() != Some(&sentence) {
                        tracing::warn!(%error, "the renewed certificate cannot be used; the old one stays");
                        reported = Some(sentence);
                    }
                }
            }
        }
    }
}

/// The certificate in use, seen through: a clone made before a renewal sees the renewal.
#[derive(Clone)]
pub struct Identities {
    shared: Arc<ArcSwap<Current>>,
}

impl Identities {
    /// Who this program is.
    pub fn identity(&self) -> Identity {
        self.shared.load().facts.identity.clone()
    }

    /// When its certificate ends.
    pub fn not_after(&self) -> SystemTime {
        self.shared.load().facts.not_after
    }

    /// Whether now is inside the certificate's time: a part of being ready.
    ///
    /// # Errors
    /// [`IdentityError::ClockSkew`].
    pub fn check_clock(&self, now: SystemTime) -> Result<(), IdentityError> {
        let Facts { not_before, not_after, .. } = self.shared.load().facts;
        if (not_before..=not_after).contains(&now) {
            return Ok(());
        }
        let seconds = |t: SystemTime| t.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        Err(IdentityError::ClockSkew {
            now: seconds(now),
            not_before: seconds(not_before),
            not_after: seconds(not_after),
        })
    }

    /// To accept connections: client certificate required, HTTP/2 and HTTP/1.1 offered.
    pub fn server_config(&self) -> Arc<ServerConfig> {
        self.shared.load().server.clone()
    }

    /// To connect to exactly `expected`, with HTTP/2.
    ///
    /// # Errors
    /// When rustls refuses the combination.
    pub fn client_config(&self, expected: &Identity) -> Result<Arc<ClientConfig>, IdentityError> {
        self.shared.load().client(expected)
    }
}

/// One certificate for whoever asks.
#[derive(Debug)]
struct Always(Arc<CertifiedKey>);

impl rustls::server::ResolvesServerCert for Always {
    fn resolve(&self, _: rustls::server::ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }
}

impl rustls::client::ResolvesClientCert for Always {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// Chain, time and usage by webpki; then the one URI name, compared as a whole. Host names play no part: pods are
/// dialled by address.
#[derive(Debug)]
struct ExactIdentity {
    roots: Arc<RootCertStore>,
    expected: Identity,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for ExactIdentity {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let parsed = ParsedCertificate::try_from(end_entity)?;
        rustls::client::verify_server_cert_signed_by_trust_anchor(
            &parsed,
            &self.roots,
            intermediates,
            now,
            self.algorithms.all,
        )?;
        certificate::check_server(end_entity, &self.expected).map_err(CertificateError::into_tls)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, rustls_pki_types::pem::Error> {
    CertificateDer::pem_slice_iter(pem).collect()
}
