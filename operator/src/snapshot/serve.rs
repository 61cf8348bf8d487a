//! `GET /v1/snapshots/{namespace}/{policy}`: whole snapshots as server-sent events, to the routers of that policy only.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt};
use http::{StatusCode, header};
use terrace_identity::{Identity, Peer};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::hub::{Hub, Published};

/// A comment line this often tells a router that the stream is alive.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// The route.
pub fn routes(hub: Arc<Hub>, stop: CancellationToken) -> Router {
    Router::new().route("/v1/snapshots/{namespace}/{policy}", get(stream)).with_state((hub, stop))
}

async fn stream(
    State((hub, stop)): State<(Arc<Hub>, CancellationToken)>,
    Extension(Peer(caller)): Extension<Peer>,
    Path((namespace, policy)): Path<(String, String)>,
) -> Response {
    if caller != Identity::policy(caller.cluster(), &namespace, &policy) {
        tracing::warn!(%caller, %namespace, %policy, "refused a snapshot of another policy");
        let message = format!("{caller} may read the snapshot of its own policy only\n");
        return (StatusCode::FORBIDDEN, message).into_response();
    }
    // Streams end when the operator does, so that routers turn to another replica at once.
    let events = events(hub.subscribe(&(namespace, policy))).take_until(stop.cancelled_owned());
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    (headers, Body::from_stream(events)).into_response()
}

/// The newest snapshot at once, then each new one, and heartbeats between.
fn events(
    mut newest: tokio::sync::watch::Receiver<Option<Arc<Published>>>,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    newest.mark_changed();
    stream::unfold((newest, Instant::now() + HEARTBEAT), |(mut newest, heartbeat)| async move {
        loop {
            tokio::select! {
                changed = newest.changed() => {
                    changed.ok()?;
                    let event = newest.borrow_and_update().as_ref().map(|p| p.event.clone());
                    if let Some(event) = event {
                        return Some((Ok(event), (newest, Instant::now() + HEARTBEAT)));
                    }
                }
                () = tokio::time::sleep_until(heartbeat) => {
                    return Some((Ok(Bytes::from_static(b": alive\n\n")), (newest, Instant::now() + HEARTBEAT)));
                }
            }
        }
    })
}
