//! Sends the report to the operator: every 5 s, and once more at the end.
//!
//! A report is cumulative, so one that is lost costs only freshness; nothing is queued.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http::header::CONTENT_TYPE;
use http_body_util::Full;
use terrace_contract::names::REPORT_PATH;
use terrace_contract::report::Report;
use terrace_identity::net::Network;
use terrace_identity::{Caller, Identities, Identity};
use tokio_util::sync::CancellationToken;

use super::empty_report;
use crate::app::App;

/// How often.
const EVERY: Duration = Duration::from_secs(5);
/// How long one may take.
const TIMEOUT: Duration = Duration::from_secs(4);

/// Who reports to whom.
pub struct Poster {
    /// Sockets and names.
    pub network: Arc<dyn Network>,
    /// What there is to report.
    pub app: Arc<App>,
    /// UID of this router's pod.
    pub router_uid: String,
    /// Name of this router's pod.
    pub router: String,
}

impl Poster {
    /// The report as of now.
    pub fn report(&self) -> Report {
        let in_use = self.app.fleet.in_use();
        let snapshot = in_use.as_ref().map(|used| &used.snapshot);
        let now = self.app.clock.now_us();
        let mut report = Report {
            policy_uid: snapshot.map(|s| s.policy.uid.clone()).unwrap_or_default(),
            router_uid: self.router_uid.clone(),
            router: self.router.clone(),
            revision: snapshot.map(|s| s.revision.clone()).unwrap_or_default(),
            refused: self.app.fleet.refused(),
            started_at_us: self.app.clock.started_us(),
            sent_at_us: now,
            ledger: self.app.egress.state(),
            reachability: self.app.fleet.reachability(now),
            ..empty_report()
        };
        self.app.ledger.fill(&mut report);
        report
    }

    /// Posts to `operator` (`host:port`) until the shutdown.
    pub async fn run(self, operator: String, identities: Identities, shutdown: CancellationToken) {
        let identity = Identity::operator(identities.identity().cluster());
        let caller = Caller::over(Arc::clone(&self.network), operator, identity, identities);
        let mut tick = tokio::time::interval(EVERY);
        loop {
            let last = tokio::select! {
                biased;
                () = shutdown.cancelled() => true,
                _ = tick.tick() => false,
            };
            let bytes = serde_json::to_vec(&self.report()).unwrap_or_default();
            let mut request = Request::new(Full::new(Bytes::from(bytes)));
            *request.method_mut() = http::Method::POST;
            *request.uri_mut() = http::Uri::from_static(REPORT_PATH);
            request.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
            match tokio::time::timeout(TIMEOUT, caller.call(request)).await {
                Ok(Ok(answer)) if answer.status().is_success() => {}
                Ok(Ok(answer)) => tracing::debug!(status = answer.status().as_u16(), "a report was not taken"),
                Ok(Err(error)) => tracing::debug!(%error, "a report could not be sent"),
                Err(_) => tracing::debug!("a report took too long"),
            }
            if last {
                return;
            }
        }
    }
}
