//! The certificate that clients see, where the policy has `listener.tls`; a renewed one is used from the next connection.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_util::sync::CancellationToken;

/// How often the files are looked at.
const POLL: Duration = Duration::from_secs(2);

/// A certificate that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{path} cannot be used for clients: {why}; check the Secret named in listener.tls")]
pub struct TlsError {
    path: String,
    why: String,
}

/// Reads `tls.crt` and `tls.key`.
///
/// # Errors
/// Names the file.
pub fn read(dir: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let failed = |name: &str, why: &dyn std::fmt::Display| TlsError {
        path: dir.join(name).display().to_string(),
        why: why.to_string(),
    };
    let pem = |name: &str| std::fs::read(dir.join(name)).map_err(|e| failed(name, &e));
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem("tls.crt")?).collect();
    let chain = chain.map_err(|e| failed("tls.crt", &e))?;
    let key = PrivateKeyDer::from_pem_slice(&pem("tls.key")?).map_err(|e| failed("tls.key", &e))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| failed("tls.crt", &e))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|e| failed("tls.crt", &e))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Reads the folder again and again; what cannot be used keeps the old certificate and is said once.
pub async fn follow(dir: PathBuf, certificate: Arc<ArcSwap<ServerConfig>>, shutdown: CancellationToken) {
    let files = || (std::fs::read(dir.join("tls.crt")).ok(), std::fs::read(dir.join("tls.key")).ok());
    let mut seen = files();
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(POLL) => {}
        }
        let now = files();
        if now == seen {
            continue;
        }
        seen = now;
        match read(&dir) {
            Ok(config) => {
                certificate.store(config);
                tracing::info!("a renewed certificate is shown to clients");
            }
            Err(error) => tracing::warn!(%error, "the old certificate is shown on"),
        }
    }
}
