//! Explained by a running router.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::Full;
use serde_json::Value;
use terrace_contract::check_version;
use terrace_contract::explanation::Explanation;

use super::Explain;
use crate::http as client;
use crate::up::state::State;

/// How long a router may take: it decides in well under a millisecond.
const PATIENCE: Duration = Duration::from_secs(30);
/// Most that an explanation can take.
const MOST: usize = 16 << 20;

/// What it would decide of this request now.
///
/// # Errors
/// It does not answer, or refuses the request.
pub async fn ask(explain: &Explain, body: Vec<u8>) -> Result<Explanation> {
    let api = explain.api.map(|api| format!("?api={}", terrace_router::server::language::Api::from(api).name()));
    let url = format!("{}/v1/explain{}", base(explain)?, api.unwrap_or_default());
    let request = Request::post(url).header("content-type", "application/json");
    send(explain, request, explain.caller.labels()?, body.into()).await
}

/// What it decided of the request with this id.
///
/// # Errors
/// It does not answer, or knows no such id.
pub async fn find(explain: &Explain, id: &str) -> Result<Explanation> {
    if id.len() != 32 || !id.bytes().all(|b| b.is_ascii_hexdigit()) {
        bail!("--request-id {id}: an id is 32 hex digits, as the answer's header x-terrace-request-id has them");
    }
    let request = Request::get(format!("{}/v1/explain/{id}", base(explain)?));
    send(explain, request, HeaderMap::new(), Bytes::new()).await
}

fn base(explain: &Explain) -> Result<String> {
    explain.caller.base(State::read().as_ref())
}

async fn send(
    explain: &Explain,
    request: http::request::Builder,
    given: HeaderMap,
    body: Bytes,
) -> Result<Explanation> {
    let request = explain.caller.sends(request, &given);
    let request = request.body(Full::from(body)).context("--url or --api-key cannot be used as it is written")?;
    let url = request.uri().clone();
    let answered = async {
        let response = client::send(request).await?;
        Ok::<_, anyhow::Error>((response.status(), client::body(response, MOST).await?))
    };
    let late = || format!("{url} did not answer within {} s", PATIENCE.as_secs());
    let (status, bytes) = tokio::time::timeout(PATIENCE, answered).await.with_context(late)??;
    let answer: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    if status != 200 {
        let text = |name: &str| answer.pointer(&format!("/error/{name}")).and_then(Value::as_str);
        let (Some(message), Some(code)) = (text("message"), text("code")) else {
            bail!("{url} answered {status} as no router does: give the base URL of a router's client port with --url")
        };
        let key = if status == 401 { ": give the caller's key with --api-key or TERRACE_API_KEY" } else { "" };
        bail!("{status}: {message} ({code}){key}");
    }
    let version = answer.get("schemaVersion").and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok());
    let Some(version) = version else {
        bail!(
            "{url} answered something else than an explanation: give the base URL of a router's client port with --url"
        )
    };
    check_version(version)?;
    serde_json::from_value(answer).with_context(|| format!("{url} answered an explanation that cannot be read"))
}
