//! Sends the report to the operator: every 5 s from the first snapshot on, and once more at the end.
//!
//! A report is cumulative, so one that is lost costs only freshness; nothing is queued.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt as _, Full, Limited};
use terrace_contract::names::REPORT_PATH;
use terrace_contract::report::Report;
use terrace_contract::spent::Taken;
use terrace_identity::net::Network;
use terrace_identity::{Caller, Identities, Identity};
use tokio_util::sync::CancellationToken;

use super::empty_report;
use crate::app::App;

/// How often.
const EVERY: Duration = Duration::from_secs(5);
/// A longer answer is not read.
const ANSWER_BYTES: usize = 1 << 20;
/// How often a first snapshot is looked for.
const LOOK: Duration = Duration::from_millis(50);
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
            spent: self.app.spend.known(now),
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
        // The operator takes no report without a policy, and its first answer says what was spent today: it is asked for at once.
        while self.app.fleet.in_use().is_none() {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(LOOK) => {}
            }
        }
        let mut tick = tokio::time::interval(EVERY);
        loop {
            let last = tokio::select! {
                biased;
                () = shutdown.cancelled() => true,
                _ = tick.tick() => false,
            };
            match tokio::time::timeout(TIMEOUT, self.post(&caller)).await {
                Ok(Ok(taken)) => self.app.spend.learn(&taken.spent, self.app.clock.now_us()),
                Ok(Err(error)) => tracing::debug!(%error, "a report was not taken"),
                Err(_) => tracing::debug!("a report took too long"),
            }
            if last {
                return;
            }
        }
    }

    async fn post(&self, caller: &Caller) -> anyhow::Result<Taken> {
        let mut request = Request::new(Full::new(Bytes::from(serde_json::to_vec(&self.report())?)));
        *request.method_mut() = http::Method::POST;
        *request.uri_mut() = http::Uri::from_static(REPORT_PATH);
        request.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
        let answer = caller.call(request).await?;
        anyhow::ensure!(answer.status().is_success(), "the operator answered {}", answer.status());
        let body = Limited::new(answer.into_body(), ANSWER_BYTES).collect().await.map_err(anyhow::Error::from_boxed)?;
        Ok(serde_json::from_slice(&body.to_bytes())?)
    }
}
