//! The few requests that the command line makes, over plain http or through a `kubectl port-forward`.

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

use crate::up::state::State;

/// How long the head of a small answer may take.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);

/// Base URL of the router that is meant, without /v1: the one given, else the running `terrace up`'s.
///
/// # Errors
/// None is given and none runs.
pub fn base(url: Option<&str>, running: Option<&State>) -> Result<String> {
    let Some(base) = url.or(running.map(|state| state.url.as_str())) else {
        bail!("no router is known: start one with `terrace up -f examples/quickstart`, or give --url");
    };
    Ok(base.trim_end_matches('/').trim_end_matches("/v1").to_owned())
}

/// Sends one request to a router.
///
/// # Errors
/// The URL is not plain http, or nothing answers there: the message says what to start.
pub async fn send(request: Request<Full<Bytes>>) -> Result<Response<Incoming>> {
    let uri = plain(&request)?;
    let client = Client::builder(TokioExecutor::new()).build_http();
    client.request(request).await.with_context(|| {
        format!(
            "nothing answers at {}: start one with `terrace up -f examples/quickstart`, or give --url",
            authority(&uri)
        )
    })
}

fn plain<T>(request: &Request<T>) -> Result<Uri> {
    let uri = request.uri().clone();
    if uri.scheme_str() != Some("http") {
        bail!("{uri}: only http:// is spoken here; reach what has TLS through `kubectl port-forward`");
    }
    Ok(uri)
}

/// A whole body, at most `limit` bytes.
///
/// # Errors
/// The connection broke, or the body is larger.
pub async fn body(response: Response<Incoming>, limit: usize) -> Result<Bytes> {
    let limited = http_body_util::Limited::new(response.into_body(), limit);
    Ok(limited.collect().await.map_err(|e| anyhow::anyhow!("the answer broke off: {e}"))?.to_bytes())
}

/// A GET whose answer is JSON; none if there is no such thing (404).
///
/// # Errors
/// Nothing answers in time, the status is another than 200, or the answer is not JSON.
pub async fn get_json(url: &str) -> Result<Option<serde_json::Value>> {
    let request = Request::get(url).body(Full::default()).with_context(|| format!("{url} is not a URL"))?;
    let uri = plain(&request)?;
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let answer = tokio::time::timeout(PATIENCE, client.request(request)).await;
    let response = answer
        .with_context(|| format!("it did not answer within {} s", PATIENCE.as_secs()))
        .and_then(|sent| sent.map_err(|error| anyhow::anyhow!("{}", cause(&error))))
        .with_context(|| format!("{} cannot be reached", authority(&uri)))?;
    match response.status().as_u16() {
        200 => {}
        404 => return Ok(None),
        status => bail!("{url} answered {status}"),
    }
    let bytes = body(response, 64 << 20).await?;
    serde_json::from_slice(&bytes).map(Some).with_context(|| format!("{url} did not answer with JSON"))
}

/// The innermost cause: what the system said.
fn cause(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

fn authority(uri: &Uri) -> String {
    uri.authority().map_or_else(|| uri.to_string(), ToString::to_string)
}
