//! The fleet's certificate authority: one key in the operator's namespace (or, under `terrace up`, in memory).

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType, string::Ia5String,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::spiffe::{self, Identity};

/// How long a leaf lasts; it is renewed at half.
pub const LEAF_LIFETIME: Duration = Duration::from_secs(720 * 3600);
/// How far a certificate's begin lies in the past, for devices whose clock is a little behind.
pub const BACKDATED: Duration = Duration::from_secs(24 * 3600);
/// How long the authority itself lasts.
pub const AUTHORITY_LIFETIME: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// What a leaf may be used for. Usages are separate: an agent's leaf opens no door.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usage {
    /// Accept connections.
    Serve,
    /// Open connections.
    Call,
    /// Both: the operator.
    Both,
}

/// A certificate with its key, as PEM.
#[derive(Clone)]
pub struct Leaf {
    /// `tls.crt`.
    pub cert_pem: String,
    /// `tls.key`.
    pub key_pem: String,
    /// When it ends.
    pub not_after: SystemTime,
}

/// Why no certificate could be made.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// The certificate library refused.
    #[error("cannot {what}: {source}")]
    Certificate {
        /// What was tried.
        what: &'static str,
        /// Why not.
        source: rcgen::Error,
    },
    /// The stored authority is damaged.
    #[error("the authority's {file} cannot be used: {why}; restore it, or delete the Secret for a new authority")]
    Stored {
        /// `ca.crt` or `ca.key`.
        file: &'static str,
        /// Why not.
        why: String,
    },
    /// A name that cannot be a part of an identity.
    #[error("{0:?} cannot be a part of an identity: only lower-case letters, digits, '-' and '.'")]
    Name(String),
    /// An identity of another cluster.
    #[error("{identity} is not of this authority's cluster {cluster}")]
    OtherCluster {
        /// The identity.
        identity: Identity,
        /// The authority's cluster.
        cluster: String,
    },
}

/// Signs leaves for one cluster.
pub struct Authority {
    cluster: String,
    cert_pem: String,
    key_pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// A new one.
    ///
    /// # Errors
    /// [`AuthorityError::Name`] for a cluster UID that no URI can carry.
    pub fn generate(cluster_uid: &str, now: SystemTime) -> Result<Self, AuthorityError> {
        if !spiffe::is_segment(cluster_uid) {
            return Err(AuthorityError::Name(cluster_uid.to_owned()));
        }
        let making = |source| AuthorityError::Certificate { what: "make the authority", source };
        let key = KeyPair::generate().map_err(making)?;
        let mut params = parameters("Terrace fleet authority", now, AUTHORITY_LIFETIME);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.subject_alt_names.push(uri_name(&format!("spiffe://{cluster_uid}")).map_err(making)?);
        let cert_pem = params.self_signed(&key).map_err(making)?.pem();
        let key_pem = key.serialize_pem();
        Ok(Self { cluster: cluster_uid.to_owned(), cert_pem, key_pem, issuer: Issuer::new(params, key) })
    }

    /// One that was stored: [`Authority::cert_pem`] and [`Authority::key_pem`].
    ///
    /// # Errors
    /// [`AuthorityError::Stored`] names the part that cannot be used.
    pub fn from_pem(cert_pem: &str, key_pem: &str) -> Result<Self, AuthorityError> {
        let stored = |file, why: &dyn std::fmt::Display| AuthorityError::Stored { file, why: why.to_string() };
        let key = KeyPair::from_pem(key_pem).map_err(|e| stored("ca.key", &e))?;
        let der = CertificateDer::from_pem_slice(cert_pem.as_bytes()).map_err(|e| stored("ca.crt", &e))?;
        let (_, parsed) = X509Certificate::from_der(&der).map_err(|e| stored("ca.crt", &e))?;
        if parsed.public_key().subject_public_key.data.as_ref() != key.public_key_raw() {
            return Err(stored("ca.key", &"it is not the key of ca.crt"));
        }
        let cluster = parsed
            .subject_alternative_name()
            .map_err(|e| stored("ca.crt", &e))?
            .and_then(|san| match san.value.general_names[..] {
                [GeneralName::URI(uri)] => uri.strip_prefix("spiffe://").filter(|c| spiffe::is_segment(c)),
                _ => None,
            })
            .ok_or_else(|| stored("ca.crt", &"it names no cluster"))?
            .to_owned();
        let issuer = Issuer::from_ca_cert_der(&der, key).map_err(|e| stored("ca.crt", &e))?;
        Ok(Self { cluster, cert_pem: cert_pem.to_owned(), key_pem: key_pem.to_owned(), issuer })
    }

    /// UID of its cluster.
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// Its certificate: every program's `ca.crt`.
    pub fn cert_pem(&self) -> &str {
        &self.cert_pem
    }

    /// Its key. Never leaves the operator's namespace.
    pub fn key_pem(&self) -> &str {
        &self.key_pem
    }

    /// A leaf for `identity`, valid from [`BACKDATED`] before `now` until [`LEAF_LIFETIME`] after it. `dns` and `ips`
    /// are for callers that know only those (the operator's Service); between Terrace's programs the URI decides.
    ///
    /// # Errors
    /// [`AuthorityError::OtherCluster`] for an identity of another cluster.
    pub fn issue(
        &self,
        identity: &Identity,
        usage: Usage,
        dns: &[String],
        ips: &[IpAddr],
        now: SystemTime,
    ) -> Result<Leaf, AuthorityError> {
        if identity.cluster() != self.cluster {
            return Err(AuthorityError::OtherCluster { identity: identity.clone(), cluster: self.cluster.clone() });
        }
        let uri = identity.uri();
        if uri.parse().as_ref() != Ok(identity) {
            return Err(AuthorityError::Name(uri));
        }
        let issuing = |source| AuthorityError::Certificate { what: "issue a certificate", source };
        let mut params = parameters("Terrace", now, LEAF_LIFETIME);
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        if usage != Usage::Call {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        if usage != Usage::Serve {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ClientAuth);
        }
        params.subject_alt_names.push(uri_name(&uri).map_err(issuing)?);
        for name in dns {
            params.subject_alt_names.push(SanType::DnsName(Ia5String::try_from(name.as_str()).map_err(issuing)?));
        }
        params.subject_alt_names.extend(ips.iter().map(|ip| SanType::IpAddress(*ip)));
        let key = KeyPair::generate().map_err(issuing)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(issuing)?;
        Ok(Leaf { cert_pem: certificate.pem(), key_pem: key.serialize_pem(), not_after: params.not_after.into() })
    }
}

/// Whether a leaf of PEM `cert_pem` has passed half of its time (or cannot be read): renew it.
pub fn due(cert_pem: &str, now: SystemTime) -> bool {
    let facts =
        CertificateDer::from_pem_slice(cert_pem.as_bytes()).ok().and_then(|der| crate::certificate::read(&der).ok());
    facts.is_none_or(|f| now < f.not_before || now + LEAF_LIFETIME / 2 >= f.not_after)
}

/// When the certificate of PEM `cert_pem` ends; none if it cannot be read.
pub fn not_after(cert_pem: &str) -> Option<SystemTime> {
    let der = CertificateDer::from_pem_slice(cert_pem.as_bytes()).ok()?;
    crate::certificate::not_after(&der)
}

fn parameters(common_name: &str, now: SystemTime, lifetime: Duration) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.not_before = (now - BACKDATED).into();
    params.not_after = (now + lifetime).into();
    params
}

fn uri_name(uri: &str) -> Result<SanType, rcgen::Error> {
    Ok(SanType::URI(Ia5String::try_from(uri)?))
}

/// Reads a key, for those that only want to know whether it is one.
pub(crate) fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, rustls_pki_types::pem::Error> {
    PrivateKeyDer::from_pem_slice(pem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate;

    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
    }

    #[test]
    fn a_leaf_carries_one_identity_its_usage_and_its_time() {
        let authority = Authority::generate("c-1", now()).unwrap();
        for (usage, serve, call) in [(Usage::Serve, true, false), (Usage::Call, false, true), (Usage::Both, true, true)]
        {
            let identity = Identity::tier("c-1", "shop", "edge");
            let leaf = authority.issue(&identity, usage, &["a.b.svc".into()], &[[10, 0, 0, 1].into()], now()).unwrap();
            let der = CertificateDer::from_pem_slice(leaf.cert_pem.as_bytes()).unwrap();
            let facts = certificate::read(&der).unwrap();
            assert_eq!((facts.identity, facts.may_serve, facts.may_call), (identity, serve, call));
            assert_eq!(facts.not_before, now() - BACKDATED);
            assert_eq!(facts.not_after, now() + LEAF_LIFETIME);
            assert_eq!(leaf.not_after, facts.not_after);
        }
    }

    #[test]
    fn a_leaf_is_due_at_half_of_its_time() {
        let authority = Authority::generate("c-1", now()).unwrap();
        let leaf = authority.issue(&Identity::operator("c-1"), Usage::Both, &[], &[], now()).unwrap();
        assert!(!due(&leaf.cert_pem, now() + LEAF_LIFETIME / 2 - Duration::from_secs(1)));
        assert!(due(&leaf.cert_pem, now() + LEAF_LIFETIME / 2));
        assert!(due("rubbish", now()));
    }

    #[test]
    fn a_stored_authority_goes_on_signing_and_a_foreign_key_is_refused() {
        let first = Authority::generate("c-1", now()).unwrap();
        let again = Authority::from_pem(first.cert_pem(), first.key_pem()).unwrap();
        assert_eq!(again.cluster(), "c-1");
        again.issue(&Identity::operator("c-1"), Usage::Both, &[], &[], now()).unwrap();
        let other = Authority::generate("c-1", now()).unwrap();
        assert!(matches!(
            Authority::from_pem(first.cert_pem(), other.key_pem()),
            Err(AuthorityError::Stored { file: "ca.key", .. })
        ));
    }

    #[test]
    fn another_clusters_identity_and_a_bad_name_are_refused() {
        let authority = Authority::generate("c-1", now()).unwrap();
        let issue = |identity: &Identity| authority.issue(identity, Usage::Serve, &[], &[], now());
        assert!(matches!(issue(&Identity::operator("c-2")), Err(AuthorityError::OtherCluster { .. })));
        assert!(matches!(issue(&Identity::tier("c-1", "a/b", "c")), Err(AuthorityError::Name(_))));
        assert!(matches!(Authority::generate("C 1", now()), Err(AuthorityError::Name(_))));
    }
}
