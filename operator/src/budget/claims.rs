//! Which budget of a policy has which feature. A feature that is claimed twice belongs to the oldest budget, and so
//! does being the default; the newer budget is refused whole. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::ResourceExt;
use terrace_crds::LatencyBudget;

use crate::problem::Invalid;

/// The budgets of one policy, parted.
#[derive(Debug, Default)]
pub struct Claims {
    /// Those that hold, oldest first.
    pub holders: Vec<Arc<LatencyBudget>>,
    /// Why others do not, by UID.
    pub refused: BTreeMap<String, Invalid>,
}

/// Parts the budgets of one policy.
pub fn claims(mut budgets: Vec<Arc<LatencyBudget>>) -> Claims {
    budgets.sort_by_key(|b| (b.metadata.creation_timestamp.as_ref().map(|t| t.0), b.name_any()));
    let mut claims = Claims::default();
    let mut taken = BTreeMap::<String, String>::new();
    for budget in budgets {
        let uid = budget.uid().unwrap_or_default();
        if let Err(invalid) = Invalid::check(budget.as_ref()) {
            claims.refused.insert(uid, invalid);
            continue;
        }
        let features: Vec<String> = match budget.spec.features.as_slice() {
            [] => vec![String::new()],
            some => some.iter().map(ToString::to_string).collect(),
        };
        let clash = features.iter().find_map(|feature| Some((feature, taken.get(feature)?)));
        if let Some((feature, owner)) = clash {
            let message = if feature.is_empty() {
                format!("spec.features: budget {owner} already is the default of this policy: list features here")
            } else {
                format!("spec.features: {feature} already belongs to budget {owner}: remove it from one of the two")
            };
            claims.refused.insert(uid, Invalid::new("Conflict", message));
            continue;
        }
        taken.extend(features.into_iter().map(|feature| (feature, budget.name_any())));
        claims.holders.push(budget);
    }
    claims
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(name: &str, second: u32, features: &[&str]) -> Arc<LatencyBudget> {
        Arc::new(
            serde_json::from_value(serde_json::json!({
                "apiVersion": "terrace.dev/v1alpha1", "kind": "LatencyBudget",
                "metadata": {
                    "name": name, "namespace": "shop", "uid": name,
                    "creationTimestamp": format!("2026-01-01T00:00:{second:02}Z"),
                },
                "spec": {"policyRef": {"name": "p"}, "features": features, "firstToken": "100ms", "total": "400ms"},
            }))
            .unwrap(),
        )
    }

    #[test]
    fn the_oldest_budget_keeps_a_feature_and_the_default() {
        let claims = claims(vec![
            budget("newer", 3, &["a", "b"]),
            budget("older", 1, &["b"]),
            budget("default", 2, &[]),
            budget("other-default", 4, &[]),
        ]);
        assert_eq!(claims.holders.iter().map(|b| b.name_any()).collect::<Vec<_>>(), ["older", "default"]);
        assert_eq!(claims.refused["newer"].reason, "Conflict");
        assert!(claims.refused["newer"].message.contains("b already belongs to budget older"));
        assert!(claims.refused["other-default"].message.contains("budget default already is the default"));
    }
}
