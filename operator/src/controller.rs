//! Runs the reconciliations of one kind: one at a time an object, a bounded number at once, each failing object with
//! its own pause. Only the replica that holds the lease does anything.

use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use kube::ResourceExt;
use kube::api::DynamicObject;
use kube::runtime::controller::{Action, Config, applier};
use kube::runtime::reflector::ObjectRef;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::context::{Context, Done, Error};
use crate::kinds::Kind;
use crate::{budget, policy, tier};

/// Reconciliations of one kind at once.
const CONCURRENCY: u16 = 8;
/// How long one pass may take: a connection that went silent must not hold its object for ever.
const PATIENCE: Duration = Duration::from_secs(30);
/// Every object is looked at again this often: certificates come to half of their time without any event.
const RESYNC: Duration = Duration::from_secs(3600);

/// Reconciles what comes in until `stop`.
pub async fn run(
    kind: Kind,
    context: Arc<Context>,
    requests: mpsc::UnboundedReceiver<ObjectRef<DynamicObject>>,
    stop: CancellationToken,
) {
    let store = match kind {
        Kind::Tier => context.world.tiers.store(),
        Kind::RoutingPolicy => context.world.policies.store(),
        Kind::LatencyBudget => context.world.budgets.store(),
    };
    let queue = UnboundedReceiverStream::new(requests).map(Ok::<_, std::convert::Infallible>);
    let reconcile = move |object: Arc<DynamicObject>, context: Arc<Context>| one(kind, object, context).boxed();
    let on_error = move |object: Arc<DynamicObject>, _: &Error, context: Arc<Context>| {
        Action::requeue(context.failed(key(kind, &object)).1)
    };
    // An object that is gone by the time it is looked at is no news.
    let done = applier(reconcile, on_error, context, store, queue, Config::default().concurrency(CONCURRENCY))
        .for_each(|_| std::future::ready(()));
    tokio::select! {
        () = stop.cancelled() => {}
        () = done => {}
    }
}

fn key(kind: Kind, object: &DynamicObject) -> (Kind, String, String) {
    (kind, object.namespace().unwrap_or_default(), object.name_any())
}

async fn one(kind: Kind, object: Arc<DynamicObject>, context: Arc<Context>) -> Result<Action, Error> {
    if !context.lease.borrow().mine || object.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    if context.world.terminating(&namespace) {
        return Ok(Action::await_change());
    }
    let span = tracing::info_span!(
        "reconcile",
        otel.name = %terrace_telemetry::names::span::reconcile(kind.name()),
        k8s.namespace.name = %namespace,
        terrace.object = %name,
        terrace.children_applied = tracing::field::Empty,
        terrace.outcome = tracing::field::Empty,
    );
    let pass = tokio::time::timeout(PATIENCE, dispatch(kind, &context, &object)).instrument(span.clone());
    let result = pass.await.unwrap_or(Err(Error::Silent(PATIENCE)));
    let key = (kind, namespace, name);
    match &result {
        Ok(done) => {
            span.record("terrace.children_applied", done.children);
            span.record("terrace.outcome", done.outcome);
            context.metrics.reconciled(kind, done.outcome);
            if context.succeeded(&key) {
                tracing::info!(kind = kind.name(), namespace = %key.1, name = %key.2, "reconciled again");
            }
            if done.children > 0 {
                tracing::info!(kind = kind.name(), namespace = %key.1, name = %key.2, children = done.children, "applied");
            }
        }
        Err(error) => {
            span.record("terrace.outcome", "failed");
            context.metrics.reconciled(kind, "failed");
            let first = !context.failures.lock().unwrap_or_else(std::sync::PoisonError::into_inner).contains_key(&key);
            if first {
                tracing::warn!(kind = kind.name(), namespace = %key.1, name = %key.2, %error, "cannot reconcile; trying again");
            }
        }
    }
    result.map(|done| Action::requeue(done.again.unwrap_or(RESYNC)))
}

async fn dispatch(kind: Kind, context: &Context, object: &DynamicObject) -> Result<Done, Error> {
    match kind {
        Kind::Tier => tier::reconcile(context, object).await,
        Kind::RoutingPolicy => policy::reconcile(context, object).await,
        Kind::LatencyBudget => budget::reconcile(context, object).await,
    }
}
