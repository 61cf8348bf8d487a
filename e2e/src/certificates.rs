//! A throw-away authority and one server's certificate of it, for what stands outside Terrace.

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// PEM texts.
pub struct Server {
    /// The authority.
    pub ca: String,
    /// The server's certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

/// A certificate for `names`, of an authority made for it.
pub fn server(names: &[&str]) -> anyhow::Result<Server> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "the cloud's own authority");
    let key = KeyPair::generate()?;
    let ca = params.self_signed(&key)?.pem();
    let issuer = Issuer::new(params, key);

    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>())?;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let certificate = params.signed_by(&key, &issuer)?.pem();
    Ok(Server { ca, certificate, key: key.serialize_pem() })
}
