//! The caller's context: which feature a request belongs to, and the latency budget that covers it.

use http::HeaderMap;
use serde_json::Value;
use terrace_contract::headers;
use terrace_contract::names::OTHER_FEATURE;
use terrace_contract::policy::Budget;
use terrace_wire::json::member;

/// A feature and its budget.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Context<'a> {
    /// The feature as a budget names it, else `other`: a closed set, fit for labels.
    pub feature: &'a str,
    /// The budget that names it, else the policy's default one.
    pub budget: Option<&'a Budget>,
}

/// Reads `x-terrace-feature`, or else `metadata.feature` of the body.
pub fn context<'a>(headers: &HeaderMap, request: &Value, budgets: &'a [Budget]) -> Context<'a> {
    let header = headers.get(headers::FEATURE).and_then(|v| v.to_str().ok());
    let said =
        header.or_else(|| member(request, "metadata").and_then(|metadata| member(metadata, "feature")?.as_str()));
    let named = said
        .and_then(|said| budgets.iter().find_map(|b| b.features.iter().find(|f| *f == said).map(|f| (f.as_str(), b))));
    match named {
        Some((feature, budget)) => Context { feature, budget: Some(budget) },
        None => Context { feature: OTHER_FEATURE, budget: budgets.iter().find(|b| b.features.is_empty()) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use terrace_contract::policy::{OnMiss, Priority};

    fn budget(name: &str, features: &[&str]) -> Budget {
        Budget {
            uid: name.into(),
            name: name.into(),
            features: features.iter().map(|f| (*f).to_owned()).collect(),
            first_token_us: 1,
            total_us: 1,
            objective_basis_points: 9900,
            window_us: 1,
            on_miss: OnMiss::Overflow,
            priority: Priority::Interactive,
            chain: None,
        }
    }

    #[test]
    fn the_header_wins_over_metadata_and_the_unknown_is_other() {
        let budgets = [budget("a", &["autocomplete"]), budget("s", &["summarise"]), budget("d", &[])];
        let of = |header: Option<&str>, body: Value| {
            let mut map = HeaderMap::new();
            if let Some(value) = header {
                map.insert(headers::FEATURE, value.parse().unwrap());
            }
            let context = context(&map, &body, &budgets);
            (context.feature.to_owned(), context.budget.map(|b| b.name.clone()))
        };
        let meta = json!({"metadata": {"feature": "summarise"}});
        assert_eq!(of(Some("autocomplete"), meta.clone()), ("autocomplete".into(), Some("a".into())));
        assert_eq!(of(None, meta), ("summarise".into(), Some("s".into())));
        assert_eq!(of(Some("made-up"), json!({})), ("other".into(), Some("d".into())));
    }
}
