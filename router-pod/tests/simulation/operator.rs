//! The operator as a router meets it: a stream of snapshots with heartbeats, and a place for reports.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::routing::{get, post};
use bytes::Bytes;
use http::Response;
use terrace_contract::report::Report;
use terrace_wire::sse;
use tokio::sync::watch;

/// What outlives the operator's crashes.
pub struct Operator {
    /// What is sent, as an event.
    pub newest: watch::Sender<Bytes>,
    pub reports: Mutex<Vec<Report>>,
}

impl Operator {
    pub fn new(first: Bytes) -> Arc<Self> {
        Arc::new(Self { newest: watch::channel(first).0, reports: Mutex::default() })
    }

    pub fn routes(self: &Arc<Self>) -> Router {
        Router::new()
            .route("/v1/snapshots/{namespace}/{policy}", get(stream))
            .route("/v1/reports", post(report))
            .with_state(Arc::clone(self))
    }
}

async fn stream(State(operator): State<Arc<Operator>>) -> Response<Body> {
    let events = futures::stream::unfold((operator.newest.subscribe(), true), |(mut changes, first)| async move {
        let changed = first
            || match tokio::time::timeout(Duration::from_secs(10), changes.changed()).await {
                Ok(changed) => changed.is_ok(),
                Err(_) => return Some((Ok::<Bytes, Infallible>(sse::comment("heartbeat")), (changes, false))),
            };
        changed.then(|| {
            let event = changes.borrow_and_update().clone();
            (Ok(event), (changes, false))
        })
    });
    Response::builder().header("content-type", "text/event-stream").body(Body::from_stream(events)).unwrap()
}

async fn report(State(operator): State<Arc<Operator>>, body: Bytes) {
    operator.reports.lock().unwrap().push(serde_json::from_slice(&body).unwrap());
}
