//! `GET` over HTTP/1.1: with TLS, redirected a few times, never with the token to another host.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, Uri, header};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tower::Service as _;

use super::address::{origin, redirected, shown};
use super::error::PullError;

/// Redirects that are followed.
const REDIRECTS: usize = 5;

/// Downloads files.
pub(super) struct Client {
    tls: Arc<ClientConfig>,
    tcp: HttpConnector,
    patience: Duration,
}

/// What is asked for.
#[derive(Clone, Copy)]
pub(super) struct Ask<'a> {
    /// Where.
    pub(super) url: &'a Uri,
    /// A bearer token.
    pub(super) token: Option<&'a str>,
    /// The first byte.
    pub(super) from: u64,
    /// The version of the file that the bytes before it are of.
    pub(super) validator: Option<&'a HeaderValue>,
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Client {
    /// Trusts the public authorities, and those of `ca_file` beside them. A connection and an answer's head may take
    /// `patience` each time.
    ///
    /// # Errors
    /// When that file holds no certificates.
    pub(super) fn new(ca_file: Option<&Path>, patience: Duration) -> Result<Self, PullError> {
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
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_connect_timeout(Some(patience / 2));
        Ok(Self { tls: Arc::new(tls), tcp, patience })
    }

    /// Sends it, follows redirects, and returns the head of the answer with its body to read.
    ///
    /// # Errors
    /// [`PullError::Unreachable`] when there is no answer.
    pub(super) async fn get(&self, ask: Ask<'_>) -> Result<Response<Incoming>, PullError> {
        let mut url = ask.url.clone();
        for _ in 0..=REDIRECTS {
            let token = ask.token.filter(|_| origin(&url) == origin(ask.url));
            let send = self.send(&url, request(&url, token, ask)?);
            let late = |_| unreachable(ask.url, format!("no answer within {} s", self.patience.as_secs_f32()));
            let answer = tokio::time::timeout(self.patience, send).await.map_err(late)?;
            let answer = answer.map_err(|why| unreachable(ask.url, why))?;
            if !answer.status().is_redirection() {
                return Ok(answer);
            }
            url = redirected(&url, answer.headers().get(header::LOCATION)).map_err(|why| unreachable(ask.url, why))?;
        }
        Err(unreachable(ask.url, format!("more than {REDIRECTS} redirects")))
    }

    async fn send(&self, url: &Uri, request: Request<Empty<Bytes>>) -> Result<Response<Incoming>, String> {
        let stream = self.connect(url).await?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|e| causes(&e))?;
        tokio::spawn(connection);
        sender.send_request(request).await.map_err(|e| causes(&e))
    }

    async fn connect(&self, url: &Uri) -> Result<Box<dyn Stream>, String> {
        let stream = self.tcp.clone().call(url.clone()).await.map_err(|e| causes(&e))?.into_inner();
        if url.scheme_str() != Some("https") {
            return Ok(Box::new(stream));
        }
        let host = url.host().unwrap_or_default().trim_matches(['[', ']']);
        let name = ServerName::try_from(host.to_owned()).map_err(|e| e.to_string())?;
        let stream: io::Result<_> = TlsConnector::from(self.tls.clone()).connect(name, stream).await;
        Ok(Box::new(stream.map_err(|e| causes(&e))?))
    }
}

fn request(url: &Uri, token: Option<&str>, ask: Ask<'_>) -> Result<Request<Empty<Bytes>>, PullError> {
    let mut request = Request::get(url.path_and_query().map_or("/", |p| p.as_str()))
        .header(header::HOST, url.authority().map_or("", |a| a.as_str()))
        .header(header::USER_AGENT, concat!("terrace-agent/", env!("CARGO_PKG_VERSION")))
        // The digest is of the file, not of a compressed form of it.
        .header(header::ACCEPT_ENCODING, "identity");
    if ask.from > 0 {
        request = request.header(header::RANGE, format!("bytes={}-", ask.from));
        if let Some(validator) = ask.validator {
            request = request.header(header::IF_RANGE, validator);
        }
    }
    if let Some(token) = token {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    request
        .body(Empty::new())
        .map_err(|_| PullError::Configuration("the model token or URL cannot be written as a request".into()))
}

/// No answer, or one that broke off.
pub(super) fn unreachable(url: &Uri, why: impl Into<String>) -> PullError {
    PullError::Unreachable { url: shown(url), why: why.into() }
}

/// An error with what caused it: hyper's own words are short.
pub(super) fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}
