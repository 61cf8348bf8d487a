//! One download over HTTP/1.1: resumed by range, redirected a few times, never with the token to another host.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::cache::Cache;
use super::error::PullError;

/// How long a connection, an answer's head or the next bytes may take.
const STEP: Duration = Duration::from_secs(20);
/// Redirects that are followed.
const REDIRECTS: usize = 5;

/// Downloads files.
pub struct Client {
    tls: Arc<ClientConfig>,
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Client {
    /// Trusts the public authorities, and those of `ca_file` beside them.
    ///
    /// # Errors
    /// When that file holds no certificates.
    pub fn new(ca_file: Option<&Path>) -> Result<Self, PullError> {
        let mut roots = RootCertStore::from_iter(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        if let Some(path) = ca_file {
            let refused = |why: &dyn std::fmt::Display| {
                PullError::Configuration(format!("--model-ca {} cannot be used: {why}", path.display()))
            };
            let certificates = CertificateDer::pem_file_iter(path).map_err(|e| refused(&e))?;
            let before = roots.len();
            for certificate in certificates {
                roots.add(certificate.map_err(|e| refused(&e))?).map_err(|e| refused(&e))?;
            }
            if roots.len() == before {
                return Err(refused(&"it holds no certificate"));
            }
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| PullError::Configuration(e.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { tls: Arc::new(tls) })
    }

    /// Writes what is missing of the file into the cache's partial file.
    pub(super) async fn download(&self, url: &str, token: Option<&str>, cache: &Cache) -> Result<(), PullError> {
        let mut have = cache.partial_bytes();
        let answer = self.get(url, token, have).await?;
        let status = answer.status();
        if status == StatusCode::RANGE_NOT_SATISFIABLE {
            // Nothing is missing, or the beginning is of another file: the digest tells.
            return Ok(());
        }
        check_status(url, status)?;
        if status != StatusCode::PARTIAL_CONTENT || begin_of(&answer) != Some(have) {
            have = 0;
        }
        let length = answer.headers().get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<u64>().ok());
        cache.check_room(length.unwrap_or(0))?;
        self.write(url, answer.into_body(), cache, have, length).await
    }

    async fn write(
        &self,
        url: &str,
        mut body: Incoming,
        cache: &Cache,
        have: u64,
        length: Option<u64>,
    ) -> Result<(), PullError> {
        let mut missing = length.unwrap_or(0);
        let open = tokio::fs::OpenOptions::new().create(true).append(true).open(cache.partial()).await;
        let mut file = open.map_err(|e| cache.write_error(&e, missing))?;
        file.set_len(have).await.map_err(|e| cache.write_error(&e, missing))?;
        loop {
            let frame = match tokio::time::timeout(STEP, body.frame()).await {
                Ok(None) => break,
                Ok(Some(Ok(frame))) => frame,
                broken => {
                    // What came is kept: the next attempt goes on from there.
                    file.flush().await.map_err(|e| cache.write_error(&e, missing))?;
                    return Err(match broken {
                        Ok(Some(Err(e))) => unreachable(url, e),
                        _ => unreachable(url, format!("no more bytes within {} s", STEP.as_secs())),
                    });
                }
            };
            let Some(data) = frame.data_ref() else { continue };
            file.write_all(data).await.map_err(|e| cache.write_error(&e, missing))?;
            missing = missing.saturating_sub(data.len() as u64);
        }
        file.flush().await.map_err(|e| cache.write_error(&e, missing))?;
        if missing > 0 { Err(unreachable(url, format!("{missing} bytes are missing"))) } else { Ok(()) }
    }

    /// A `GET` from byte `from` on, redirects followed.
    async fn get(&self, url: &str, token: Option<&str>, from: u64) -> Result<Response<Incoming>, PullError> {
        let mut uri = parse(url)?;
        let origin = uri.authority().cloned();
        for _ in 0..=REDIRECTS {
            let mut request = Request::get(uri.path_and_query().map_or("/", |p| p.as_str()))
                .header(header::HOST, uri.authority().map_or("", |a| a.as_str()))
                .header(header::USER_AGENT, concat!("terrace-agent/", env!("CARGO_PKG_VERSION")));
            if from > 0 {
                request = request.header(header::RANGE, format!("bytes={from}-"));
            }
            if let Some(token) = token.filter(|_| uri.authority() == origin.as_ref()) {
                request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
            }
            let request = request
                .body(Empty::<Bytes>::new())
                .map_err(|_| PullError::Configuration("the model token is not a header value".into()))?;
            let send = async {
                let stream = self.connect(&uri).await.map_err(|e| unreachable(url, e))?;
                let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream));
                let (mut sender, connection) = handshake.await.map_err(|e| unreachable(url, e))?;
                tokio::spawn(connection);
                sender.send_request(request).await.map_err(|e| unreachable(url, e))
            };
            let late = |_| unreachable(url, format!("no answer within {} s", STEP.as_secs()));
            let answer = tokio::time::timeout(STEP, send).await.map_err(late)??;
            if !answer.status().is_redirection() {
                return Ok(answer);
            }
            let target = answer.headers().get(header::LOCATION).and_then(|v| v.to_str().ok());
            let target = target.ok_or_else(|| unreachable(url, "it redirects to nowhere"))?;
            uri = redirected(&uri, target)?;
        }
        Err(unreachable(url, format!("more than {REDIRECTS} redirects")))
    }

    async fn connect(&self, uri: &Uri) -> io::Result<Box<dyn Stream>> {
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let secure = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let stream = TcpStream::connect((host, port)).await?;
        if !secure {
            return Ok(Box::new(stream));
        }
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        Ok(Box::new(TlsConnector::from(self.tls.clone()).connect(name, stream).await?))
    }
}

fn parse(url: &str) -> Result<Uri, PullError> {
    let uri: Uri = url.parse().map_err(|e| PullError::Configuration(format!("{url:?} is not a URL: {e}")))?;
    match uri.scheme_str() {
        Some("http" | "https") if uri.host().is_some() => Ok(uri),
        _ => Err(PullError::Configuration(format!("{url:?} must begin with http:// or https:// and a host"))),
    }
}

/// A redirect's target. From https it never leads to http.
fn redirected(from: &Uri, target: &str) -> Result<Uri, PullError> {
    let absolute = if target.starts_with('/') {
        format!("{}://{}{target}", from.scheme_str().unwrap_or("http"), from.authority().map_or("", |a| a.as_str()))
    } else {
        target.to_owned()
    };
    let uri = parse(&absolute)?;
    if from.scheme_str() == Some("https") && uri.scheme_str() != Some("https") {
        return Err(PullError::Configuration(format!("{from} redirects from https to http, which is not followed")));
    }
    Ok(uri)
}

/// First byte of a partial answer.
fn begin_of(answer: &Response<Incoming>) -> Option<u64> {
    let range = answer.headers().get(header::CONTENT_RANGE)?.to_str().ok()?;
    range.strip_prefix("bytes ")?.split('-').next()?.parse().ok()
}

fn check_status(url: &str, status: StatusCode) -> Result<(), PullError> {
    let hint = match status {
        s if s.is_success() => return Ok(()),
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => return Err(unreachable(url, status)),
        s if s.is_server_error() => return Err(unreachable(url, format!("HTTP {s}"))),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => "check the token",
        _ => "check the URL",
    };
    Err(PullError::NotFound { url: url.to_owned(), status: status.as_u16(), hint })
}

fn unreachable(url: &str, why: impl std::fmt::Display) -> PullError {
    PullError::Unreachable { url: url.to_owned(), why: why.to_string() }
}
