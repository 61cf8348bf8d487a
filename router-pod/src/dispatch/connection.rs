//! One connection to one checked address, HTTP/1.1 or HTTP/2, with the time of each step.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls_pki_types::ServerName;
use terrace_identity::net::Network;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

use crate::clock::micros;

/// A peer that says nothing for a ping's interval and its answer's time is gone: two seconds in all.
const PING: Duration = Duration::from_secs(1);

/// TLS towards a peer.
#[derive(Clone)]
pub struct Tls {
    /// Roots, identity and ALPN.
    pub config: Arc<rustls::ClientConfig>,
    /// The name whose certificate is expected.
    pub server_name: ServerName<'static>,
}

/// How long it took to get a connection; zeros for one that was there already.
#[derive(Debug, Clone, Copy, Default)]
pub struct Timing {
    /// Name resolution.
    pub dns_us: u64,
    /// TCP.
    pub connect_us: u64,
    /// TLS.
    pub tls_us: u64,
    /// Whether the connection was used before.
    pub reused: bool,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The name has no address.
    #[error("name resolution failed")]
    Dns(#[source] std::io::Error),
    /// An address is not one that the tier allows.
    #[error("an address is not allowed for this tier")]
    Denied,
    /// TCP failed.
    #[error("connect failed")]
    Tcp(#[source] std::io::Error),
    /// TLS failed: the certificate, its name or its time.
    #[error("TLS failed")]
    Tls(#[source] std::io::Error),
    /// The HTTP handshake failed.
    #[error("HTTP handshake failed")]
    Http(#[source] hyper::Error),
    /// The configuration of TLS cannot be used.
    #[error("TLS configuration: {0}")]
    Configuration(String),
    /// It took too long.
    #[error("connecting took longer than allowed")]
    Timeout,
}

impl ConnectError {
    /// The reason of the condition `Reachable` that says this.
    pub fn reachable(&self) -> &'static str {
        match self {
            ConnectError::Dns(_) | ConnectError::Denied => "DnsFailed",
            ConnectError::Tls(source) => tls_reason(source),
            ConnectError::Configuration(_) => "TlsIdentity",
            ConnectError::Tcp(_) | ConnectError::Http(_) | ConnectError::Timeout => "Timeout",
        }
    }
}

fn tls_reason(error: &std::io::Error) -> &'static str {
    use rustls::CertificateError::{Expired, ExpiredContext, NotValidYet, NotValidYetContext};
    let inner = error.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidCertificate(Expired | ExpiredContext { .. })) => "TlsExpired",
        Some(rustls::Error::InvalidCertificate(NotValidYet | NotValidYetContext { .. })) => "ClockSkew",
        _ => "TlsIdentity",
    }
}

/// The sending half of a connection.
pub enum Sender {
    /// One request at a time.
    Http1(http1::SendRequest<Full<Bytes>>),
    /// Many at once.
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Sender {
    /// Whether it can take a request now.
    pub fn is_usable(&self) -> bool {
        match self {
            Sender::Http1(sender) => sender.is_ready() && !sender.is_closed(),
            Sender::Http2(sender) => !sender.is_closed(),
        }
    }

    /// Whether it will never take a request again.
    pub fn is_closed(&self) -> bool {
        match self {
            Sender::Http1(sender) => sender.is_closed(),
            Sender::Http2(sender) => sender.is_closed(),
        }
    }

    /// A second handle of a connection that carries many requests.
    pub fn share(&self) -> Option<Sender> {
        match self {
            Sender::Http1(_) => None,
            Sender::Http2(sender) => Some(Sender::Http2(sender.clone())),
        }
    }

    /// Sends one request and waits for the head of its answer. Dropping the future, or the body of the answer,
    /// cancels the request at the peer.
    ///
    /// # Errors
    /// What hyper reports of a connection that broke.
    pub async fn send(&mut self, mut request: Request<Full<Bytes>>) -> hyper::Result<Response<Incoming>> {
        match self {
            Sender::Http1(sender) => {
                sender.ready().await?;
                // The request line of HTTP/1.1 carries the path alone, HTTP/2 the whole of it.
                if let Some(path) = request.uri().path_and_query().cloned() {
                    *request.uri_mut() = path.into();
                }
                sender.send_request(request).await
            }
            Sender::Http2(sender) => {
                sender.ready().await?;
                request.headers_mut().remove(http::header::HOST);
                *request.version_mut() = http::Version::HTTP_2;
                sender.send_request(request).await
            }
        }
    }
}

/// Opens a connection to `address`. With TLS the protocol is what both sides agree on; without it is HTTP/1.1.
///
/// # Errors
/// [`ConnectError`] of the step that failed.
pub async fn open(
    network: &dyn Network,
    address: SocketAddr,
    tls: Option<&Tls>,
) -> Result<(Sender, Timing), ConnectError> {
    let started = Instant::now();
    let tcp = network.connect(address).await.map_err(ConnectError::Tcp)?;
    let mut timing = Timing { connect_us: micros(started.elapsed()), ..Timing::default() };
    let Some(tls) = tls else {
        return Ok((speak(tcp, false).await?, timing));
    };
    let started = Instant::now();
    let connector = TlsConnector::from(Arc::clone(&tls.config));
    let stream = connector.connect(tls.server_name.clone(), tcp).await.map_err(ConnectError::Tls)?;
    timing.tls_us = micros(started.elapsed());
    let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    Ok((speak(stream, http2).await?, timing))
}

/// In a task of its own, apart from any request's span: a connection outlives the request that opened it, and what the
/// HTTP library notes of it must not keep that request's trace open.
async fn speak<S>(stream: S, http2: bool) -> Result<Sender, ConnectError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let speaking = AbortOnDropHandle::new(tokio::spawn(handshake(stream, http2)));
    speaking.await.unwrap_or(Err(ConnectError::Timeout))
}

async fn handshake<S>(stream: S, http2: bool) -> Result<Sender, ConnectError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let io = TokioIo::new(stream);
    // The connection's own task ends when its last sender is dropped or the peer goes; what went wrong then is
    // reported by the request that was on it.
    if http2 {
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(PING)
            .keep_alive_timeout(PING)
            .keep_alive_while_idle(true)
            .handshake(io)
            .await
            .map_err(ConnectError::Http)?;
        tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(Sender::Http2(sender))
    } else {
        let (sender, connection) = http1::handshake(io).await.map_err(ConnectError::Http)?;
        tokio::spawn(async move {
            let _ = connection.await;
        });
        Ok(Sender::Http1(sender))
    }
}
