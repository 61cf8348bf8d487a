//! What a certificate says of its holder, read once and strictly.

use std::time::{Duration, SystemTime};

use rustls_pki_types::CertificateDer;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::spiffe::{Identity, ParseIdentityError};

/// What matters of a leaf.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) identity: Identity,
    pub(crate) may_serve: bool,
    pub(crate) may_call: bool,
    pub(crate) not_before: SystemTime,
    pub(crate) not_after: SystemTime,
}

/// Why a certificate names nobody.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CertificateError {
    /// It is not X.509.
    #[error("not an X.509 certificate: {0}")]
    Malformed(String),
    /// It has none or several URI names.
    #[error("it has {0} URI names where exactly one identity is expected")]
    UriNames(usize),
    /// Its URI name is no identity of Terrace.
    #[error(transparent)]
    Identity(#[from] ParseIdentityError),
    /// It is someone else's.
    #[error("it speaks for {found}, not for {expected}")]
    WrongIdentity {
        /// Who it is.
        found: Box<Identity>,
        /// Who was meant.
        expected: Box<Identity>,
    },
    /// It may not be used this way.
    #[error("{identity} has no leave to {what}: its extended key usage lacks {usage}")]
    Usage {
        /// Who it is.
        identity: Box<Identity>,
        /// `serve` or `call`.
        what: &'static str,
        /// The usage that is missing.
        usage: &'static str,
    },
}

impl CertificateError {
    /// As rustls carries it, so that it comes out of a handshake as a source.
    pub(crate) fn into_tls(self) -> rustls::Error {
        rustls::Error::InvalidCertificate(rustls::CertificateError::Other(rustls::OtherError(std::sync::Arc::new(
            self,
        ))))
    }
}

/// Reads a leaf. The chain and the signature are rustls's matter.
pub(crate) fn read(der: &CertificateDer<'_>) -> Result<Facts, CertificateError> {
    let malformed = |e: &dyn std::fmt::Display| CertificateError::Malformed(e.to_string());
    let (_, certificate) = X509Certificate::from_der(der).map_err(|e| malformed(&e))?;
    let uris: Vec<&str> = certificate
        .subject_alternative_name()
        .map_err(|e| malformed(&e))?
        .map(|san| &san.value.general_names[..])
        .unwrap_or_default()
        .iter()
        .filter_map(|name| if let GeneralName::URI(uri) = name { Some(*uri) } else { None })
        .collect();
    let [uri] = uris[..] else { return Err(CertificateError::UriNames(uris.len())) };
    let usage = certificate.extended_key_usage().map_err(|e| malformed(&e))?;
    Ok(Facts {
        identity: uri.parse()?,
        may_serve: usage.as_ref().is_some_and(|u| u.value.server_auth),
        may_call: usage.as_ref().is_some_and(|u| u.value.client_auth),
        not_before: instant(certificate.validity().not_before.timestamp()),
        not_after: instant(certificate.validity().not_after.timestamp()),
    })
}

/// When a certificate ends, whoever's it is.
pub(crate) fn not_after(der: &CertificateDer<'_>) -> Option<SystemTime> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    Some(instant(certificate.validity().not_after.timestamp()))
}

/// A caller's identity, if the certificate may call.
pub(crate) fn caller(der: &CertificateDer<'_>) -> Result<Identity, CertificateError> {
    let facts = read(der)?;
    if facts.may_call {
        Ok(facts.identity)
    } else {
        Err(CertificateError::Usage { identity: Box::new(facts.identity), what: "call", usage: "clientAuth" })
    }
}

/// Whether the certificate is exactly `expected`'s and may serve.
pub(crate) fn check_server(der: &CertificateDer<'_>, expected: &Identity) -> Result<(), CertificateError> {
    let facts = read(der)?;
    if facts.identity != *expected {
        return Err(CertificateError::WrongIdentity {
            found: Box::new(facts.identity),
            expected: Box::new(expected.clone()),
        });
    }
    if !facts.may_serve {
        return Err(CertificateError::Usage { identity: Box::new(facts.identity), what: "serve", usage: "serverAuth" });
    }
    Ok(())
}

fn instant(seconds: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}
