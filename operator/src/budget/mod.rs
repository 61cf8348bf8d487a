//! The controller of LatencyBudgets: a budget has no children, only a policy, claims and figures.

mod claims;
mod status;

use kube::ResourceExt;
use kube::api::DynamicObject;
use terrace_crds::LatencyBudgetStatus;

pub use claims::{Claims, claims};

use crate::apply::Applied;
use crate::context::{Context, Done, Error};
use crate::kinds::Kind;
use crate::outcome::Outcome;

/// One pass.
///
/// # Errors
/// When the API server refuses or does not answer.
pub async fn reconcile(context: &Context, object: &DynamicObject) -> Result<Done, Error> {
    let kind = Kind::LatencyBudget;
    let budget = match context.world.budgets.parse(object) {
        Ok(budget) => budget,
        Err(error) => return context.unparsable(kind, object, &error, &status::CONDITIONS).await,
    };
    let namespace = budget.namespace().unwrap_or_default();
    let policy = context.world.policies.get(&namespace, budget.spec.policy_ref.name.as_str()).and_then(Result::ok);
    // A budget without a policy still has rivals, which claim by the policy's name.
    let rivals = context.world.budgets.all().into_iter().filter(|other| {
        other.namespace().as_deref() == Some(namespace.as_str()) && other.spec.policy_ref == budget.spec.policy_ref
    });
    let mut claims = claims(rivals.collect());
    let outcome = match claims.refused.remove(&budget.uid().unwrap_or_default()) {
        Some(invalid) => Outcome::Refused(invalid),
        None => Outcome::Applied(Applied::default()),
    };
    let view =
        policy.as_ref().and_then(|p| p.uid()).map(|uid| context.fold().view(&uid, terrace_telemetry::time::now_us()));
    let facts = status::Facts {
        budget: &budget,
        policy_exists: policy.is_some(),
        holders: &claims.holders,
        outcome: &outcome,
        view: view.unwrap_or_default(),
        inactive: terrace_crds::inactive_fields(budget.as_ref()),
        now: jiff::Timestamp::now(),
    };
    let old: LatencyBudgetStatus = crate::status::of(object);
    let status = status::status(&facts, &old);
    context.finish(kind, object, &status, outcome).await
}
