//! What every reconciliation is given.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::Client;
use kube::api::DynamicObject;
use kube::runtime::events::Recorder;
use serde::Serialize;
use tokio::sync::watch;

use crate::agents::Agents;
use crate::apply::{self, Applier};
use crate::children::Site;
use crate::conditions::Want;
use crate::kinds::Kind;
use crate::lease::Leadership;
use crate::metrics::Metrics;
use crate::outcome::Outcome;
use crate::pki::{self, Pki};
use crate::problem::{Invalid, NAME_CONFLICT};
use crate::report::Fold;
use crate::status;
use crate::world::World;

/// How often an object whose child's name is taken looks whether it still is: one read.
const STRANGER: Duration = Duration::from_secs(5);

/// Why a reconciliation has to be tried again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A child.
    #[error(transparent)]
    Apply(#[from] apply::Error),
    /// A certificate.
    #[error(transparent)]
    Pki(#[from] pki::Error),
    /// Something else that the API server was asked.
    #[error("the API server: {}", apply::sentence(.0))]
    Api(#[from] Box<kube::Error>),
    /// A request that is not answered.
    #[error("the API server does not answer within {} s", .0.as_secs())]
    Silent(Duration),
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        Error::Api(Box::new(error))
    }
}

/// What a reconciliation came to.
#[derive(Debug, Default)]
pub struct Done {
    /// Children that were written or deleted.
    pub children: usize,
    /// Whether status was written.
    pub status: bool,
    /// For the span: `applied`, `unchanged`, `refused`.
    pub outcome: &'static str,
    /// When to look again although nothing is known to have changed; none: at the usual time.
    pub again: Option<Duration>,
}

/// What every reconciliation is given.
pub struct Context {
    /// The API server.
    pub client: Client,
    /// What the watches know.
    pub world: Arc<World>,
    /// Applies children.
    pub applier: Applier,
    /// What the operator was started with.
    pub site: Site,
    /// Certificates and signatures.
    pub pki: Arc<Pki>,
    /// Folded reports.
    pub reports: Arc<Mutex<Fold>>,
    /// What agents say of themselves.
    pub agents: Agents,
    /// Whether this replica writes.
    pub lease: watch::Receiver<Leadership>,
    /// Publishes events.
    pub events: Recorder,
    /// Counts.
    pub metrics: Metrics,
    /// Failures in a row, by object.
    pub failures: Mutex<HashMap<(Kind, String, String), u32>>,
}

impl Context {
    /// The folded reports.
    pub fn fold(&self) -> MutexGuard<'_, Fold> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a reconciliation: writes status if it says something new; a child that was refused is tried again.
    ///
    /// # Errors
    /// When the API server refuses or does not answer.
    pub async fn finish<S: Serialize + Sync>(
        &self,
        kind: Kind,
        object: &DynamicObject,
        new: &S,
        outcome: Outcome,
    ) -> Result<Done, Error> {
        let wrote = status::write(&self.client, kind, object, new).await?;
        self.metrics.status_written(wrote);
        match outcome {
            Outcome::Applied(applied) => {
                let children = applied.writes + applied.pruned;
                self.metrics.children_written(children);
                let outcome = if children > 0 || wrote { "applied" } else { "unchanged" };
                Ok(Done { children, status: wrote, outcome, again: None })
            }
            Outcome::Refused(invalid) => {
                // No watch sees the stranger that has the name, so none sees it go.
                let again = (invalid.reason == NAME_CONFLICT).then_some(STRANGER);
                Ok(Done { children: 0, status: wrote, outcome: "refused", again })
            }
            Outcome::Failed(error) => Err(error.into()),
        }
    }

    /// Ends the reconciliation of an object that does not parse: it says so itself, and nothing else is touched.
    ///
    /// # Errors
    /// When the API server refuses or does not answer.
    pub async fn unparsable(
        &self,
        kind: Kind,
        object: &DynamicObject,
        error: &str,
        conditions: &[&'static str],
    ) -> Result<Done, Error> {
        let invalid = Invalid::unparsable(error);
        let wanted = conditions.iter().map(|name| match *name {
            "Accepted" => Want::no("Accepted", invalid.reason, invalid.message.clone()),
            other => Want::unknown(other, invalid.reason, ""),
        });
        let none = serde_json::Value::Null;
        let old = object.data.get("status").unwrap_or(&none);
        let generation = object.metadata.generation.unwrap_or(0);
        let new = status::only_conditions(old, wanted.collect(), generation);
        self.finish(kind, object, &new, Outcome::Refused(invalid)).await
    }

    /// Counts a failure and says how long to wait before the next try: 1 s, doubling, at most 2 min.
    pub fn failed(&self, key: (Kind, String, String)) -> (u32, Duration) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let count = failures.entry(key).or_default();
        *count = count.saturating_add(1);
        (*count, Duration::from_secs((1 << (*count - 1).min(7)).min(120)))
    }

    /// Forgets an object's failures.
    pub fn succeeded(&self, key: &(Kind, String, String)) -> bool {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).remove(key).is_some()
    }
}
