//! Rules of a LatencyBudget between fields.

use crate::latency_budget::LatencyBudgetSpec;
use crate::sentence;
use crate::validate::Violation;

/// Rules that one LatencyBudget can show.
pub fn rules(spec: &LatencyBudgetSpec, found: &mut Vec<Violation>) {
    if let (Some(first), Some(total)) = (spec.first_token.micros(), spec.total.micros())
        && first > total
    {
        found.push(Violation::new("spec.firstToken", sentence::FIRST_TOKEN));
    }
}
