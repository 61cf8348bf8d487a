//! `POST /v1/reports`: any replica takes a report; one that does not write forwards it to the one that does.

use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{DefaultBodyLimit, Extension, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt, Full};
use terrace_contract::check_version;
use terrace_contract::names::REPORT_PATH;
use terrace_contract::report::Report;
use terrace_contract::spent::Taken;
use terrace_identity::{Caller, Identities, Identity, Peer};
use tokio::sync::watch;

use super::fold::Fold;
use crate::lease::Leadership;

/// Reports are sums, so even a busy router's are far below this.
const LIMIT: usize = 4 << 20;

/// Says which policy (namespace, name) has this UID.
pub type PolicyOf = dyn Fn(&str) -> Option<(String, String)> + Send + Sync;

/// What the route needs.
pub struct Reports {
    /// Where reports are folded.
    pub fold: Arc<Mutex<Fold>>,
    /// Who writes.
    pub lease: watch::Receiver<Leadership>,
    /// Who we are, to the replica that writes.
    pub identities: Identities,
    /// Policies by UID.
    pub policy_of: Box<PolicyOf>,
    /// Called with namespace and name of a policy whose report says something that should not wait: a router that was
    /// not heard before, or that runs another revision than before.
    pub news: Box<dyn Fn(&str, &str) + Send + Sync>,
    /// The connection to the replica that writes, with its address.
    pub holder: tokio::sync::Mutex<Option<(String, Arc<Caller>)>>,
}

/// The route.
pub fn routes(reports: Arc<Reports>) -> Router {
    Router::new().route(REPORT_PATH, post(take)).layer(DefaultBodyLimit::max(LIMIT)).with_state(reports)
}

async fn take(State(reports): State<Arc<Reports>>, Extension(Peer(caller)): Extension<Peer>, body: Bytes) -> Response {
    let report: Report = match serde_json::from_slice(&body) {
        Ok(report) => report,
        Err(error) => return refuse(StatusCode::BAD_REQUEST, &format!("not a report: {error}")),
    };
    if let Err(error) = check_version(report.schema_version) {
        return refuse(StatusCode::BAD_REQUEST, &error.to_string());
    }
    let forwarded = matches!(caller, Identity::Operator { .. });
    let Some((namespace, name)) = (reports.policy_of)(&report.policy_uid) else {
        return refuse(StatusCode::NOT_FOUND, "no policy has this UID (any more)");
    };
    if !forwarded && caller != Identity::policy(caller.cluster(), &namespace, &name) {
        return refuse(StatusCode::FORBIDDEN, &format!("{caller} may report for its own policy only"));
    }
    let leadership = reports.lease.borrow().clone();
    if leadership.mine {
        let policy_uid = report.policy_uid.clone();
        let (news, spent) = {
            let mut fold = reports.fold.lock().unwrap_or_else(PoisonError::into_inner);
            (fold.add(report, terrace_telemetry::time::now_us()), fold.spent(&policy_uid))
        };
        if news {
            (reports.news)(&namespace, &name);
        }
        return Json(Taken { spent }).into_response();
    }
    if forwarded {
        // Two replicas that each take the other for the holder must not pass a report to and fro.
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "this replica does not hold the lease (any more)");
    }
    if leadership.holder.is_empty() {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "no replica holds the lease yet");
    }
    reports.forward(&leadership.holder, body).await
}

impl Reports {
    async fn forward(&self, holder: &str, body: Bytes) -> Response {
        let caller = {
            let mut slot = self.holder.lock().await;
            match slot.as_ref().filter(|(address, _)| address == holder) {
                Some((_, caller)) => caller.clone(),
                None => {
                    let operator = Identity::operator(self.identities.identity().cluster());
                    let caller = Arc::new(Caller::new(holder, operator, self.identities.clone()));
                    slot.insert((holder.to_owned(), caller)).1.clone()
                }
            }
        };
        let mut request = http::Request::new(Full::new(body));
        *request.method_mut() = http::Method::POST;
        *request.uri_mut() = http::Uri::from_static(REPORT_PATH);
        match caller.call(request).await {
            Ok(answer) => {
                let status = answer.status();
                let body = answer.into_body().collect().await.map(|b| b.to_bytes()).unwrap_or_default();
                (status, body).into_response()
            }
            Err(error) => {
                tracing::debug!(%error, holder, "could not forward a report");
                refuse(StatusCode::BAD_GATEWAY, "the replica that holds the lease does not answer")
            }
        }
    }
}

fn refuse(status: StatusCode, why: &str) -> Response {
    (status, format!("{why}\n")).into_response()
}
