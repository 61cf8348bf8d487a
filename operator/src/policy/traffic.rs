//! The last hour of a policy as its status shows it. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use terrace_contract::report::Outcome;
use terrace_contract::trust::Class;
use terrace_crds::routing_policy::{ClassShare, Denied, Forced, Spend, TierTraffic};
use terrace_crds::shared::{self, Boundary};
use terrace_crds::{RoutingPolicy, Tier};

use crate::figures;
use crate::report::{Fate, MINUTE_US, Window};

/// The tiers of a ladder by UID: name and boundary.
pub struct Names(Vec<(String, String, Boundary)>);

impl Names {
    /// Of the tiers that exist, in the ladder's order.
    pub fn of(policy: &RoutingPolicy, tiers: &[Arc<Tier>]) -> Self {
        let own = policy.namespace().unwrap_or_default();
        let shown = |tier: &Tier| match tier.namespace() {
            Some(other) if other != own => format!("{other}/{}", tier.name_any()),
            _ => tier.name_any(),
        };
        Self(tiers.iter().map(|t| (t.uid().unwrap_or_default(), shown(t), t.spec.boundary)).collect())
    }
}

/// `edge>private>cloud`.
pub fn ladder(policy: &RoutingPolicy) -> String {
    let name = |t: &shared::ObjectRef| match &t.namespace {
        Some(namespace) => format!("{namespace}/{}", t.name),
        None => t.name.to_string(),
    };
    policy.spec.tiers.iter().map(name).collect::<Vec<_>>().join(">")
}

fn answered(fate: &Fate) -> bool {
    matches!(fate.outcome, Outcome::Served | Outcome::Overflowed | Outcome::Escalated | Outcome::Degraded)
}

/// Each tier's share of the answers.
pub fn by_tier(hour: &Window, names: &Names) -> Vec<TierTraffic> {
    let all = hour.count(answered);
    if all == 0 {
        return Vec::new();
    }
    names
        .0
        .iter()
        .map(|(uid, name, _)| {
            let usage = hour.usage.get(uid).copied().unwrap_or_default();
            let tokens = usage.input_tokens + usage.output_tokens;
            let latency = hour.latencies(|tier, _| tier == uid);
            TierTraffic {
                tier: name.clone(),
                percent: figures::whole_percent(hour.count(|f| answered(f) && f.tier == *uid), all),
                ttft_p95: latency.first_token.quantile(0.95).map(figures::duration).unwrap_or_default(),
                cost_per_1k: if tokens == 0 {
                    String::new()
                } else {
                    figures::money(usage.cost_micros * 1000 / tokens)
                },
            }
        })
        .collect()
}

/// Share of the answers that came from the caller's own device boundary.
pub fn local(hour: &Window, names: &Names) -> i32 {
    let near = |uid: &str| names.0.iter().any(|(u, _, boundary)| u == uid && *boundary == Boundary::Device);
    figures::whole_percent(hour.count(|f| answered(f) && near(&f.tier)), hour.count(answered))
}

/// Share of the answers that left a tier which was not good enough.
pub fn escalated(hour: &Window) -> i32 {
    figures::whole_percent(hour.count(|f| f.outcome == Outcome::Escalated), hour.count(answered))
}

/// Share of the answers that left a tier which could not answer in time.
pub fn overflowed(hour: &Window) -> i32 {
    figures::whole_percent(hour.count(|f| f.outcome == Outcome::Overflowed), hour.count(answered))
}

/// Each class's share of the requests.
pub fn by_class(hour: &Window) -> Vec<ClassShare> {
    let all = hour.requests();
    Class::ALL
        .into_iter()
        .filter_map(|class| {
            let requests = hour.count(|f| f.class == class);
            if requests == 0 {
                return None;
            }
            let mut forced = BTreeMap::<&str, u64>::new();
            for (fate, count) in hour.counts.iter().filter(|(f, _)| f.class == class && !f.forced.is_empty()) {
                *forced.entry(&fate.forced).or_default() += count;
            }
            Some(ClassShare {
                class: class_of(class),
                percent: figures::percent(requests, all),
                forced: forced
                    .into_iter()
                    .take(8)
                    .map(|(reason, n)| Forced { reason: camel(reason), percent: figures::percent(n, all) })
                    .collect(),
            })
        })
        .collect()
}

/// Requests that no permitted tier could take, by class and reason.
pub fn denied(hour: &Window) -> Vec<Denied> {
    let mut sums = BTreeMap::<(Class, &str), (u64, u64)>::new();
    for (fate, count) in &hour.counts {
        if matches!(fate.outcome, Outcome::Denied | Outcome::Unavailable) {
            let (sum, last) = sums.entry((fate.class, &fate.reason)).or_default();
            *sum += count;
            *last = (*last).max(hour.last_us.get(fate).copied().unwrap_or(0));
        }
    }
    sums.into_iter()
        .take(32)
        .map(|((class, reason), (count, last_us))| Denied {
            class: class_of(class),
            reason: camel(reason),
            count: i64::try_from(count).unwrap_or(i64::MAX),
            // To the minute: a status that changes with each report would be written with each.
            last: minute(last_us),
        })
        .collect()
}

fn minute(us: u64) -> Option<Time> {
    figures::time(us / MINUTE_US * MINUTE_US).map(Time)
}

/// Money of the last hour; none where no tier has a price.
pub fn spend(hour: &Window, tiers: &[Arc<Tier>]) -> Option<Spend> {
    let currency = tiers.iter().find_map(|t| Some(t.spec.cost.as_ref()?.currency.to_string()))?;
    let micros: u64 = hour.usage.values().map(|u| u.cost_micros).sum();
    Some(Spend { currency, hour: figures::money(micros), projected_month: figures::money(micros.saturating_mul(730)) })
}

fn class_of(class: Class) -> shared::Class {
    match class {
        Class::Public => shared::Class::Public,
        Class::Internal => shared::Class::Internal,
        Class::Confidential => shared::Class::Confidential,
        Class::Restricted => shared::Class::Restricted,
    }
}

/// Reason codes as Kubernetes writes reasons: `no_device` is `NoDevice`.
fn camel(code: &str) -> String {
    let word = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect::<String>()
    };
    code.split('_').map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(counts: &[(&str, Class, Outcome, &str, &str, u64)]) -> Window {
        let fate = |(tier, class, outcome, reason, forced, _): &(&str, Class, Outcome, &str, &str, u64)| Fate {
            tier: (*tier).into(),
            class: *class,
            outcome: *outcome,
            reason: (*reason).into(),
            forced: (*forced).into(),
        };
        let last_us = counts.iter().map(|c| (fate(c), 2 * MINUTE_US + c.5)).collect();
        Window { counts: counts.iter().map(|c| (fate(c), c.5)).collect(), last_us, ..Window::default() }
    }

    #[test]
    fn shares_are_of_answers_and_denials_are_counted_apart() {
        let hour = window(&[
            ("e", Class::Internal, Outcome::Served, "nearest", "", 78),
            ("c", Class::Public, Outcome::Overflowed, "overflow_saturated", "", 20),
            ("c", Class::Public, Outcome::Escalated, "escalated", "", 2),
            ("", Class::Restricted, Outcome::Unavailable, "no_device", "detector_timeout", 100),
        ]);
        let names =
            Names(vec![("e".into(), "edge".into(), Boundary::Device), ("c".into(), "cloud".into(), Boundary::Public)]);
        let shares: Vec<_> = by_tier(&hour, &names).into_iter().map(|t| (t.tier, t.percent)).collect();
        assert_eq!(shares, [("edge".to_owned(), 78), ("cloud".to_owned(), 22)]);
        assert_eq!((local(&hour, &names), overflowed(&hour), escalated(&hour)), (78, 20, 2));
        let denied = denied(&hour);
        assert_eq!((denied[0].reason.as_str(), denied[0].count), ("NoDevice", 100));
        assert_eq!(denied[0].last, minute(2 * MINUTE_US), "the minute of the last one");
        let restricted = by_class(&hour).pop().unwrap();
        assert_eq!((restricted.percent.as_str(), restricted.forced[0].reason.as_str()), ("50", "DetectorTimeout"));
    }
}
