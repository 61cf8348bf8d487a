//! The operator where it is hard: stopped after each of its writes, behind an API server that is late, cut off or away,
//! and two of it at once.

mod faults;
mod handover;
mod objects;
mod ownership;
mod pair;
mod proxy;
mod stops;
mod stream;
mod writes;

use std::time::Duration;

use anyhow::ensure;
use serde_json::{Value, json};

use super::audit::{Audit, Request};
use super::kubelet;
use super::rest::Rest;
use super::server::ApiServer;
use crate::steps::Steps;
use crate::wait::{self, secs};
use crate::{Place, conditions};

pub(super) use pair::steps as pair;

/// One operator: stopped after each write, and with each fault between it and the API server.
pub(super) async fn faults(place: &Place, server: &ApiServer, steps: &mut Steps) -> Option<()> {
    let mut solo = stops::steps(place, server, steps).await?;
    faults::steps(&mut solo, steps).await;
    faults::namespaces_that_go(solo, steps).await
}

/// Makes a namespace and applies the quick start in it.
async fn quick_start(place: &Place, server: &ApiServer, namespace: &str) -> anyhow::Result<()> {
    make_namespace(&server.rest()?, namespace).await?;
    apply_quick_start(place, server, namespace).await
}

/// Applies the quick start in a namespace that is there.
async fn apply_quick_start(place: &Place, server: &ApiServer, namespace: &str) -> anyhow::Result<()> {
    server.kubectl(&["--namespace", namespace, "apply", "-f", &place.arg("examples/quickstart")]).await.map(drop)
}

async fn make_namespace(rest: &Rest, name: &str) -> anyhow::Result<()> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    rest.post("/api/v1/namespaces", &namespace).await.map(drop)
}

/// Watches until the operators have written nothing but their Lease for this long from now on, as the API server's log says.
async fn quiet(audit: &Audit, mark: u64, long: Duration) -> anyhow::Result<()> {
    let long_us = i64::try_from(long.as_micros())?;
    let begun = jiff::Timestamp::now();
    wait::until("the operators to have nothing to write", secs(60), async || {
        let last = audit.writes(mark)?.into_iter().max_by_key(|r| r.received);
        let since = last.as_ref().map_or(begun, |r| r.received.max(begun));
        let ago = jiff::Timestamp::now().as_microsecond() - since.as_microsecond();
        ensure!(ago > long_us, "{}", lines(last.as_slice()));
        Ok(())
    })
    .await
}

/// A condition of one of Terrace's objects: status, reason and message.
async fn condition(rest: &Rest, namespace: &str, object: &str, kind: &str) -> anyhow::Result<(String, String, String)> {
    let object = terrace(rest, namespace, object).await?;
    let found = conditions::condition(&object, kind);
    let text = |field: &str| found.and_then(|c| c[field].as_str()).unwrap_or_default().to_owned();
    Ok((text("status"), text("reason"), text("message")))
}

/// One of Terrace's objects, as `resource/name`.
async fn terrace(rest: &Rest, namespace: &str, object: &str) -> anyhow::Result<Value> {
    rest.get(&objects::path(objects::TERRACE, namespace, object)).await
}

/// Requests, one a line.
fn lines<'a>(requests: impl IntoIterator<Item = &'a Request>) -> String {
    requests.into_iter().map(Request::line).collect::<Vec<_>>().join("\n")
}
