//! The certificate that clients see, where the policy has `listener.tls`; a renewed one is used from the next connection.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use terrace_identity::authority;
use tokio_util::sync::CancellationToken;

use crate::metrics::RouterMetrics;

/// How often the files are looked at.
const POLL: Duration = Duration::from_secs(2);

/// A certificate that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{path} cannot be used for clients: {why}; check the Secret named in listener.tls")]
pub struct TlsError {
    path: String,
    why: String,
}

/// The certificate that clients see.
#[derive(Debug, Clone)]
pub struct Shown {
    /// With its key, as connections use it.
    pub config: Arc<ServerConfig>,
    /// When it ends.
    pub not_after: Option<SystemTime>,
}

/// Reads `tls.crt` and `tls.key`.
///
/// # Errors
/// Names the file.
pub fn read(dir: &Path) -> Result<Shown, TlsError> {
    let failed = |name: &str, why: &dyn std::fmt::Display| TlsError {
        path: dir.join(name).display().to_string(),
        why: why.to_string(),
    };
    let pem = |name: &str| std::fs::read(dir.join(name)).map_err(|e| failed(name, &e));
    let certificate = pem("tls.crt")?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&certificate).collect();
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
    let not_after = std::str::from_utf8(&certificate).ok().and_then(authority::not_after);
    Ok(Shown { config: Arc::new(config), not_after })
}

/// Reads the folder again and again. What cannot be used, or has ended already, keeps the old certificate; that is said
/// once, and the metric of its end goes on counting down.
pub async fn follow(
    dir: PathBuf,
    certificate: Arc<ArcSwap<Shown>>,
    metrics: Arc<RouterMetrics>,
    shutdown: CancellationToken,
) {
    let files = || (std::fs::read(dir.join("tls.crt")).ok(), std::fs::read(dir.join("tls.key")).ok());
    let mut seen = files();
    loop {
        let left = certificate.load().not_after.map(|end| end.duration_since(SystemTime::now()).unwrap_or_default());
        metrics.listener_certificate_expiry.set(left.unwrap_or_default().as_secs_f64());
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
        match read(&dir).and_then(|shown| in_time(&dir, shown)) {
            Ok(shown) => {
                certificate.store(Arc::new(shown));
                tracing::info!("a renewed certificate is shown to clients");
            }
            Err(error) => tracing::warn!(%error, "the old certificate is shown on"),
        }
    }
}

fn in_time(dir: &Path, shown: Shown) -> Result<Shown, TlsError> {
    if shown.not_after.is_some_and(|end| end <= SystemTime::now()) {
        return Err(TlsError { path: dir.join("tls.crt").display().to_string(), why: "it has ended already".into() });
    }
    Ok(shown)
}
