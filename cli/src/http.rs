//! The few requests that the command line makes, over plain http or through a `kubectl port-forward`.

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

/// Sends one request.
///
/// # Errors
/// The URL is not plain http, or nothing answers there: the message says what to start.
pub async fn send(request: Request<Full<Bytes>>) -> Result<Response<Incoming>> {
    let uri = request.uri().clone();
    if uri.scheme_str() != Some("http") {
        bail!("{uri}: only http:// is spoken here; reach a router with TLS through `kubectl port-forward`");
    }
    let client = Client::builder(TokioExecutor::new()).build_http();
    client.request(request).await.with_context(|| {
        format!(
            "nothing answers at {}: start one with `terrace up -f examples/quickstart`, or give --url",
            authority(&uri)
        )
    })
}

/// A whole body, at most `limit` bytes.
///
/// # Errors
/// The connection broke, or the body is larger.
pub async fn body(response: Response<Incoming>, limit: usize) -> Result<Bytes> {
    let limited = http_body_util::Limited::new(response.into_body(), limit);
    Ok(limited.collect().await.map_err(|e| anyhow::anyhow!("the answer broke off: {e}"))?.to_bytes())
}

/// A GET whose answer is JSON.
///
/// # Errors
/// Nothing answers, the status is not 200, or the answer is not JSON.
pub async fn get_json(url: &str) -> Result<serde_json::Value> {
    let request = Request::get(url).body(Full::default()).with_context(|| format!("{url} is not a URL"))?;
    let response = send(request).await?;
    if response.status() != 200 {
        bail!("{url} answered {}", response.status());
    }
    serde_json::from_slice(&body(response, 64 << 20).await?).with_context(|| format!("{url} did not answer with JSON"))
}

fn authority(uri: &Uri) -> String {
    uri.authority().map_or_else(|| uri.to_string(), ToString::to_string)
}
