//! A LatencyBudget as the router sees it.

use kube::ResourceExt;
use terrace_contract::policy::{Budget, Chain};

use super::{Refused, number, uid, whole};
use crate::LatencyBudget;

pub(super) fn compile(budget: &LatencyBudget) -> Result<Budget, Refused> {
    let spec = &budget.spec;
    let chain = spec.chain.as_ref().map(|chain| {
        number(chain.total.micros(), "spec.chain.total")
            .map(|total_us| Chain { max_hops: whole(chain.max_hops), total_us })
    });
    Ok(Budget {
        uid: uid(budget),
        name: budget.name_any(),
        features: spec.features.iter().map(ToString::to_string).collect(),
        first_token_us: number(spec.first_token.micros(), "spec.firstToken")?,
        total_us: number(spec.total.micros(), "spec.total")?,
        objective_basis_points: number(spec.objective.basis_points(), "spec.objective")?,
        window_us: number(spec.window.micros(), "spec.window")?,
        on_miss: spec.on_miss.into(),
        priority: spec.priority.into(),
        chain: chain.transpose()?,
    })
}
