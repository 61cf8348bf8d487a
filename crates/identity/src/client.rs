//! Connecting to one identity at one address.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls_pki_types::ServerName;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::net::{Network, Stream, System};
use crate::spiffe::Identity;
use crate::store::{Identities, IdentityError};

/// How often an HTTP/2 connection is pinged, and how long its answer may take: together they find a dead node in 2 s.
pub const PING: Duration = Duration::from_secs(1);
/// How long [`Caller`] waits for a connection.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// What connecting cost: two parts of the transport tax.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DialTimings {
    /// The TCP handshake, microseconds.
    pub connect_us: u64,
    /// The TLS handshake, microseconds.
    pub tls_us: u64,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The name has no address.
    #[error("{host} does not resolve: {source}")]
    Resolve {
        /// Host and port.
        host: String,
        /// Why not.
        source: std::io::Error,
    },
    /// No TCP connection.
    #[error("{address} cannot be reached: {source}")]
    Connect {
        /// Where.
        address: SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
    /// TLS failed: the other end was someone else, or refused us.
    #[error("{address} did not prove to be {expected}: {}", reason(.source))]
    Tls {
        /// Where.
        address: SocketAddr,
        /// Who was meant.
        expected: Identity,
        /// Why not.
        source: std::io::Error,
    },
    /// It took too long.
    #[error("{host} did not answer within {} ms", .after.as_millis())]
    Timeout {
        /// Where.
        host: String,
        /// How long it had.
        after: Duration,
    },
    /// This program's own certificate cannot be used.
    #[error(transparent)]
    Own(#[from] IdentityError),
    /// HTTP/2 failed.
    #[error("{host} broke off: {source}")]
    Http {
        /// Where.
        host: String,
        /// Why.
        source: hyper::Error,
    },
}

/// Connects to `address` and makes sure that it is `expected`. No timeout: the caller knows its deadline.
///
/// # Errors
/// [`DialError::Connect`] and [`DialError::Tls`].
pub async fn dial(
    address: SocketAddr,
    expected: &Identity,
    identities: &Identities,
) -> Result<(TlsStream<Stream>, DialTimings), DialError> {
    dial_over(&System, address, expected, identities).await
}

async fn dial_over(
    network: &dyn Network,
    address: SocketAddr,
    expected: &Identity,
    identities: &Identities,
) -> Result<(TlsStream<Stream>, DialTimings), DialError> {
    let connector = TlsConnector::from(identities.client_config(expected)?);
    let begin = Instant::now();
    let stream = network.connect(address).await.map_err(|source| DialError::Connect { address, source })?;
    let connected = Instant::now();
    let stream = connector.connect(ServerName::from(address.ip()), stream).await.map_err(|source| DialError::Tls {
        address,
        expected: expected.clone(),
        source,
    })?;
    let micros = |d: Duration| u64::try_from(d.as_micros()).unwrap_or(u64::MAX);
    let timings = DialTimings { connect_us: micros(connected - begin), tls_us: micros(connected.elapsed()) };
    Ok((stream, timings))
}

/// What rustls says, with our own verifier's sentence in place of its debug form.
fn reason(error: &std::io::Error) -> String {
    let tls = error.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>());
    match tls {
        Some(rustls::Error::InvalidCertificate(rustls::CertificateError::Other(other))) => other.0.to_string(),
        _ => error.to_string(),
    }
}

/// Speaks to one program over one HTTP/2 connection, made when first needed and again when it breaks.
pub struct Caller {
    network: Arc<dyn Network>,
    host: String,
    expected: Identity,
    identities: Identities,
    sender: Mutex<Option<http2::SendRequest<Full<Bytes>>>>,
}

impl Caller {
    /// `host` is `name:port` or `address:port`; a name is resolved at each connection.
    pub fn new(host: impl Into<String>, expected: Identity, identities: Identities) -> Self {
        Self::over(Arc::new(System), host, expected, identities)
    }

    /// The same over these sockets.
    pub fn over(
        network: Arc<dyn Network>,
        host: impl Into<String>,
        expected: Identity,
        identities: Identities,
    ) -> Self {
        Self { network, host: host.into(), expected, identities, sender: Mutex::new(None) }
    }

    /// Sends a request whose URI is a path (`/v1/reports`); the answer's body streams. A status is not an error.
    ///
    /// # Errors
    /// When there is no connection, or it breaks before the answer's head.
    pub async fn call(&self, mut request: Request<Full<Bytes>>) -> Result<Response<Incoming>, DialError> {
        let broken = |source| DialError::Http { host: self.host.clone(), source };
        let path = request.uri().path_and_query().map_or("/", |p| p.as_str());
        if let Ok(uri) = format!("https://{}{path}", self.host).parse() {
            *request.uri_mut() = uri;
        }
        *request.version_mut() = http::Version::HTTP_2;
        let mut sender = self.sender().await?;
        sender.send_request(request).await.map_err(broken)
    }

    /// `GET path`.
    ///
    /// # Errors
    /// As [`Caller::call`].
    pub async fn get(&self, path: &str) -> Result<Response<Incoming>, DialError> {
        let mut request = Request::new(Full::default());
        *request.uri_mut() = path.parse().unwrap_or_default();
        self.call(request).await
    }

    async fn sender(&self) -> Result<http2::SendRequest<Full<Bytes>>, DialError> {
        let mut slot = self.sender.lock().await;
        if let Some(sender) = slot.as_ref().filter(|s| !s.is_closed()) {
            return Ok(sender.clone());
        }
        let sender = tokio::time::timeout(CONNECT_TIMEOUT, self.connect())
            .await
            .map_err(|_| DialError::Timeout { host: self.host.clone(), after: CONNECT_TIMEOUT })??;
        *slot = Some(sender.clone());
        Ok(sender)
    }

    async fn connect(&self) -> Result<http2::SendRequest<Full<Bytes>>, DialError> {
        let unresolved = |source| DialError::Resolve { host: self.host.clone(), source };
        let (name, port) =
            self.host.rsplit_once(':').and_then(|(n, p)| Some((n, p.parse().ok()?))).ok_or_else(|| {
                unresolved(std::io::Error::new(std::io::ErrorKind::InvalidInput, "it must be host:port"))
            })?;
        let name = name.trim_start_matches('[').trim_end_matches(']');
        let addresses = self.network.resolve(name, port).await.map_err(unresolved)?;
        let mut last = unresolved(std::io::Error::other("no address"));
        for address in addresses {
            match dial_over(&*self.network, address, &self.expected, &self.identities).await {
                Ok((stream, _)) => return self.handshake(stream).await,
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn handshake(&self, stream: TlsStream<Stream>) -> Result<http2::SendRequest<Full<Bytes>>, DialError> {
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(PING)
            .keep_alive_timeout(PING)
            .keep_alive_while_idle(true)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|source| DialError::Http { host: self.host.clone(), source })?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended early");
            }
        });
        Ok(sender)
    }
}
