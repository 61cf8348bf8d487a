//! What the operator says of a budget. Pure.

use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt;
use terrace_crds::latency_budget::{BudgetObserved, BurnRate};
use terrace_crds::{LatencyBudget, LatencyBudgetStatus};

use crate::conditions::{Want, merge};
use crate::figures;
use crate::outcome::Outcome;
use crate::report::{Latencies, View, Window};

/// Its conditions, in their order.
pub const CONDITIONS: [&str; 4] = ["Accepted", "FieldsActive", "ResolvedRefs", "Met"];

/// What status is made from.
pub struct Facts<'a> {
    /// The budget.
    pub budget: &'a LatencyBudget,
    /// Whether its policy exists.
    pub policy_exists: bool,
    /// The budgets of that policy that hold.
    pub holders: &'a [Arc<LatencyBudget>],
    /// Whether this one is accepted.
    pub outcome: &'a Outcome,
    /// Folded reports of the policy.
    pub view: View,
    /// Fields that do nothing yet.
    pub inactive: Vec<String>,
    /// Now.
    pub now: Timestamp,
}

/// The status of a budget.
pub fn status(facts: &Facts<'_>, old: &LatencyBudgetStatus) -> LatencyBudgetStatus {
    let budget = facts.budget;
    let generation = budget.metadata.generation.unwrap_or(0);
    let hour = of(facts, &facts.view.hour);
    let six = of(facts, &facts.view.six_hours);
    let refs = if facts.policy_exists {
        Want::yes("ResolvedRefs", "Resolved", "")
    } else {
        let name = &budget.spec.policy_ref.name;
        let message =
            format!("policy {name} does not exist in this namespace: create it, or name another in spec.policyRef");
        Want::no("ResolvedRefs", "PolicyNotFound", message)
    };
    // A replica that has only begun to take reports in says what the last one said.
    let early = facts.view.early && six.budgeted == 0 && old.observed_generation == Some(generation);
    let met = if early { met(budget, &six).or_as_before(&old.conditions) } else { met(budget, &six) };
    let wanted = vec![facts.outcome.accepted(), crate::status::fields_active(&facts.inactive), refs, met];
    let burn = |window: &str, l: &Latencies| {
        Some(BurnRate { window: window.into(), rate: figures::rate(burn(l, objective(budget))?) })
    };
    let mut status = LatencyBudgetStatus {
        observed_generation: Some(generation),
        conditions: merge(&old.conditions, wanted, generation, facts.now),
        observed: (six.budgeted > 0).then(|| BudgetObserved {
            samples: i64::try_from(six.budgeted).unwrap_or(i64::MAX),
            attainment: figures::percent(six.met, six.budgeted),
            first_token: figures::quantiles(&hour.first_token),
            transport_tax: figures::percent(figures::sum(&hour.transport), figures::sum(&hour.total)),
        }),
        burn_rates: [burn("1h", &hour), burn("6h", &six)].into_iter().flatten().collect(),
    };
    if early {
        status.observed.clone_from(&old.observed);
        status.burn_rates.clone_from(&old.burn_rates);
    }
    status
}

/// What a window holds of this budget: its features, or for the default what no other budget has.
fn of(facts: &Facts<'_>, window: &Window) -> Latencies {
    let budget = facts.budget;
    if facts.outcome.applied().is_none() {
        return Latencies::default();
    }
    let lists = |b: &LatencyBudget, feature: &str| b.spec.features.iter().any(|f| f.as_str() == feature);
    if budget.spec.features.is_empty() {
        window.latencies(|_, feature| {
            !facts.holders.iter().any(|other| other.uid() != budget.uid() && lists(other, feature))
        })
    } else {
        window.latencies(|_, feature| lists(budget, feature))
    }
}

fn objective(budget: &LatencyBudget) -> f64 {
    budget.spec.objective.as_str().parse().unwrap_or(99.0)
}

fn met(budget: &LatencyBudget, seen: &Latencies) -> Want {
    if seen.budgeted == 0 {
        return Want::unknown("Met", "NoTraffic", "no request had this budget yet");
    }
    let attained = seen.met as f64 * 100.0 / seen.budgeted as f64;
    if attained >= objective(budget) {
        Want::yes("Met", "Met", "")
    } else {
        let message = format!(
            "met by {}% of the requests, the objective is {}%",
            figures::percent(seen.met, seen.budgeted),
            budget.spec.objective
        );
        Want::no("Met", "Missed", message)
    }
}

/// How fast the allowed misses are used up; 1: they just last.
fn burn(seen: &Latencies, objective: f64) -> Option<f64> {
    (seen.budgeted > 0).then(|| {
        let missed = 1.0 - seen.met as f64 / seen.budgeted as f64;
        missed / (1.0 - objective / 100.0).max(0.0001)
    })
}
