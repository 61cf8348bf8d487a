//! The API server's HTTP: for states that are looked at again and again, for which starting kubectl each time takes too
//! long, and for what kubectl cannot do (binding pods). The proxy of the tests reaches the API server this way too.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Body;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio_rustls::TlsConnector;

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// A request that takes longer is stuck.
const LIMIT: Duration = Duration::from_secs(30);

/// The API server, as the bearer of one token.
pub(super) struct Rest {
    target: Target,
    token: String,
    sender: Mutex<Option<SendRequest<Full<Bytes>>>>,
}

/// Where the API server is, and how it proves itself.
#[derive(Clone)]
pub(super) struct Target {
    tls: TlsConnector,
    port: u16,
}

impl Target {
    /// The connection that there is while it works, else a new one.
    pub(super) async fn connected<B>(&self, there: Option<SendRequest<B>>) -> anyhow::Result<SendRequest<B>>
    where
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if let Some(mut sender) = there
            && sender.ready().await.is_ok()
        {
            return Ok(sender);
        }
        let stream = TcpStream::connect((LOOPBACK, self.port)).await?;
        stream.set_nodelay(true)?;
        let stream = self.tls.connect(ServerName::from(LOOPBACK), stream).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // It ends with its sender and the last answer's body.
        tokio::spawn(connection);
        Ok(sender)
    }
}

impl Rest {
    pub(super) fn new(certificate: &Path, port: u16, token: &str) -> anyhow::Result<Rest> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(certificate)? {
            roots.add(certificate?)?;
        }
        let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let target = Target { tls: TlsConnector::from(Arc::new(config)), port };
        Ok(Rest { target, token: token.to_owned(), sender: Mutex::default() })
    }

    /// The API server itself.
    pub(super) fn target(&self) -> Target {
        self.target.clone()
    }

    /// One object, or one list.
    pub(super) async fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.send(Method::GET, path, "application/json", &Value::Null).await
    }

    /// A new object.
    pub(super) async fn post(&self, path: &str, object: &Value) -> anyhow::Result<Value> {
        self.send(Method::POST, path, "application/json", object).await
    }

    /// A change of one, as a merge patch.
    pub(super) async fn patch(&self, path: &str, patch: &Value) -> anyhow::Result<Value> {
        self.send(Method::PATCH, path, "application/merge-patch+json", patch).await
    }

    /// Deletes one.
    pub(super) async fn delete(&self, path: &str) -> anyhow::Result<Value> {
        self.send(Method::DELETE, path, "application/json", &Value::Null).await
    }

    async fn send(&self, method: Method, path: &str, kind: &str, body: &Value) -> anyhow::Result<Value> {
        let body = if body.is_null() { Bytes::new() } else { Bytes::from(serde_json::to_vec(body)?) };
        let request = Request::builder()
            .method(method.clone())
            .uri(path)
            .header(header::HOST, "kubernetes")
            .header(header::AUTHORIZATION, format!("Bearer {}", self.token))
            .header(header::ACCEPT, "application/json")
            .header(header::CONTENT_TYPE, kind)
            .body(Full::new(body))?;
        let answered = tokio::time::timeout(LIMIT, async {
            let mut slot = self.sender.lock().await;
            let mut sender = self.target.connected(slot.take()).await?;
            let answer = sender.send_request(request).await?;
            let status = answer.status();
            let body = answer.into_body().collect().await?.to_bytes();
            *slot = Some(sender);
            anyhow::Ok((status, body))
        });
        let (status, body) =
            answered.await.with_context(|| format!("{method} {path}: no answer within {LIMIT:?}"))??;
        ensure!(status.is_success(), "{method} {path}: {status}: {}", String::from_utf8_lossy(&body));
        Ok(serde_json::from_slice(&body)?)
    }
}
