//! Gets a connection to a place: from the pool, or by resolving once, checking every address and dialling a checked one.
//!
//! There is no second look-up between the check and the dial, no redirect is followed and no proxy is asked: `open`
//! knows nothing of either.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};
use sha2::{Digest as _, Sha256};
use terrace_contract::tier::{Backend, Tier};
use terrace_identity::net::Network;
use terrace_identity::{Identities, Identity};
use terrace_privacy::addresses::{self, AddressRules, Cidr};
use tokio::time::Instant;

use super::connection::{self, ConnectError, Timing, Tls};
use super::credentials::Credentials;
use super::pool::{Key, Lease, Pool};
use super::target::Target;
use crate::clock::micros;
use crate::fleet::place::{Place, Site};

/// How long resolving, TCP and TLS may take together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Makes connections and keeps them.
pub struct Connector {
    network: Arc<dyn Network>,
    pool: Arc<Pool>,
    identities: Identities,
    credentials: Arc<Credentials>,
    /// Loopback endpoints are permitted: `terrace up`.
    allow_loopback: bool,
    /// Addresses that no endpoint may have: the API server and this policy's own Service.
    denied: Vec<IpAddr>,
    /// For each authority, by its certificates' text: their digest and the TLS configuration.
    authorities: Mutex<HashMap<Vec<u8>, (String, Arc<rustls::ClientConfig>)>>,
}

/// A connection for one request.
pub struct Connection {
    lease: Lease,
    /// What it took.
    pub timing: Timing,
}

impl Connection {
    /// The sending half.
    pub fn sender(&mut self) -> Option<&mut connection::Sender> {
        self.lease.sender()
    }

    /// The answer was read to its end.
    pub fn finished(self, now: Instant) {
        self.lease.finished(now);
    }
}

impl Connector {
    /// A connector without connections.
    pub fn new(
        network: Arc<dyn Network>,
        identities: Identities,
        credentials: Arc<Credentials>,
        allow_loopback: bool,
        denied: Vec<IpAddr>,
    ) -> Self {
        Self {
            network,
            pool: Arc::default(),
            identities,
            credentials,
            allow_loopback,
            denied,
            authorities: Mutex::default(),
        }
    }

    /// A connection to where an attempt goes.
    ///
    /// # Errors
    /// [`ConnectError`] of the step that failed.
    pub async fn to(&self, place: &Place) -> Result<Connection, ConnectError> {
        match &place.site {
            Site::Device { address, identity, .. } => {
                self.device(&place.tier.uid, place.tier.generation, *address, identity).await
            }
            Site::Endpoint(target) => self.endpoint(&place.tier, target).await,
        }
    }

    /// A connection to an agent, which must prove to be exactly `identity`.
    ///
    /// # Errors
    /// [`ConnectError`] of the step that failed.
    pub async fn device(
        &self,
        tier_uid: &str,
        generation: i64,
        address: SocketAddr,
        identity: &Identity,
    ) -> Result<Connection, ConnectError> {
        let key = Arc::new(Key {
            tier_uid: tier_uid.to_owned(),
            generation,
            place: address.to_string(),
            authority: identity.to_string(),
        });
        if let Some(connection) = self.pooled(&key) {
            return Ok(connection);
        }
        let config = self.identities.client_config(identity).map_err(|e| ConnectError::Configuration(e.to_string()))?;
        let tls = Tls { config, server_name: ServerName::from(address.ip()) };
        let opened = tokio::time::timeout(CONNECT_TIMEOUT, connection::open(&*self.network, address, Some(&tls)));
        let (sender, timing) = opened.await.map_err(|_| ConnectError::Timeout)??;
        Ok(self.keep(key, sender, timing))
    }

    async fn endpoint(&self, tier: &Tier, target: &Target) -> Result<Connection, ConnectError> {
        let (authority, config) = if target.tls { self.authority(tier)? } else { (String::new(), None) };
        let place = target.place.clone();
        let key = Arc::new(Key { tier_uid: tier.uid.clone(), generation: tier.generation, place, authority });
        if let Some(connection) = self.pooled(&key) {
            return Ok(connection);
        }
        let tls = match config {
            None => None,
            Some(config) => {
                let server_name = ServerName::try_from(target.host.clone())
                    .map_err(|_| ConnectError::Configuration("the host is no name that TLS can check".into()))?;
                Some(Tls { config, server_name })
            }
        };
        let opened = tokio::time::timeout(CONNECT_TIMEOUT, self.resolve_and_open(tier, target, tls.as_ref()));
        let (sender, timing) = opened.await.map_err(|_| ConnectError::Timeout)??;
        Ok(self.keep(key, sender, timing))
    }

    async fn resolve_and_open(
        &self,
        tier: &Tier,
        target: &Target,
        tls: Option<&Tls>,
    ) -> Result<(connection::Sender, Timing), ConnectError> {
        let begun = Instant::now();
        let addresses = self.network.resolve(&target.host, target.port).await.map_err(ConnectError::Dns)?;
        let dns_us = micros(begun.elapsed());
        self.check(tier, &addresses)?;
        let mut last = ConnectError::Dns(std::io::ErrorKind::NotFound.into());
        for address in addresses {
            match connection::open(&*self.network, address, tls).await {
                Ok((sender, timing)) => return Ok((sender, Timing { dns_us, ..timing })),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Every address must be allowed: with one that is not, the name is not to be trusted at all.
    fn check(&self, tier: &Tier, found: &[SocketAddr]) -> Result<(), ConnectError> {
        let Backend::Endpoint(endpoint) = &tier.backend else { return Err(ConnectError::Denied) };
        let allowed: Result<Vec<Cidr>, _> = endpoint.allowed_cidrs.iter().map(|range| range.parse()).collect();
        let rules = AddressRules {
            boundary: tier.boundary,
            allowed: &allowed.map_err(|_| ConnectError::Denied)?,
            allow_loopback: self.allow_loopback,
            own: &self.denied,
        };
        let all_allowed = found.iter().all(|address| addresses::permitted(&rules, address.ip()).is_ok());
        if all_allowed { Ok(()) } else { Err(ConnectError::Denied) }
    }

    /// The roots of a tier's endpoint: its own authority, or the public ones.
    fn authority(&self, tier: &Tier) -> Result<(String, Option<Arc<rustls::ClientConfig>>), ConnectError> {
        let file = match &tier.backend {
            Backend::Endpoint(endpoint) => endpoint.ca_certificate.as_deref(),
            Backend::Fleet(_) => None,
        };
        let pem = match file {
            None => Vec::new(),
            Some(file) => {
                self.credentials.bytes(&tier.uid, file).map_err(|e| ConnectError::Configuration(e.to_string()))?
            }
        };
        let mut known = self.authorities.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((name, config)) = known.get(&pem) {
            return Ok((name.clone(), Some(Arc::clone(config))));
        }
        let name = terrace_contract::canonical::hex(&Sha256::digest(&pem));
        let config = Arc::new(configuration(file.map(|_| pem.as_slice()))?);
        known.insert(pem, (name.clone(), Arc::clone(&config)));
        Ok((name, Some(config)))
    }

    fn pooled(&self, key: &Arc<Key>) -> Option<Connection> {
        let sender = self.pool.take(key, Instant::now())?;
        let lease = Lease::new(sender, Arc::clone(key), Arc::clone(&self.pool));
        Some(Connection { lease, timing: Timing { reused: true, ..Timing::default() } })
    }

    fn keep(&self, key: Arc<Key>, sender: connection::Sender, timing: Timing) -> Connection {
        if let Some(shared) = sender.share() {
            self.pool.put(&key, shared, Instant::now());
        }
        Connection { lease: Lease::new(sender, key, Arc::clone(&self.pool)), timing }
    }

    /// Drops connections of tiers and generations that are no longer in use.
    pub fn keep_only(&self, in_use: impl Fn(&str, i64) -> bool) {
        self.pool.keep(|key| in_use(&key.tier_uid, key.generation));
    }
}

fn configuration(pem: Option<&[u8]>) -> Result<rustls::ClientConfig, ConnectError> {
    let unusable = |why: &dyn std::fmt::Display| ConnectError::Configuration(format!("the tier's authority: {why}"));
    let mut roots = rustls::RootCertStore::empty();
    match pem {
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                roots.add(certificate.map_err(|e| unusable(&e))?).map_err(|e| unusable(&e))?;
            }
            if roots.is_empty() {
                return Err(unusable(&"it holds no certificate"));
            }
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| unusable(&e))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
