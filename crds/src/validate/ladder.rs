//! Rules between a policy and its tiers: what no single object can show.

use kube::ResourceExt;

use crate::shared::Boundary;
use crate::validate::Violation;
use crate::{RoutingPolicy, Tier, router_child};

/// Why a policy cannot be accepted: the reason of the condition `Accepted`, and the sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct Refused {
    /// `InvalidSpec`, `LadderShrinks`, `MixedCurrency` or `OwnRouter`.
    pub reason: &'static str,
    /// What is wrong, and what to do.
    pub violations: Vec<Violation>,
}

impl Refused {
    /// One violation at the ladder.
    fn tiers(reason: &'static str, sentence: String) -> Self {
        Self { reason, violations: vec![Violation::new("spec.tiers", sentence)] }
    }
}

/// Checks a policy with the tiers of its ladder that exist, in their order.
///
/// # Errors
/// A boundary shrinks along the ladder, prices are in several currencies, or an endpoint is the policy's own router.
pub fn check(policy: &RoutingPolicy, tiers: &[&Tier]) -> Result<(), Refused> {
    boundaries(tiers)?;
    currencies(tiers)?;
    own_router(policy, tiers)
}

fn boundaries(tiers: &[&Tier]) -> Result<(), Refused> {
    let mut widest: Option<(Boundary, String)> = None;
    for tier in tiers {
        let (boundary, name) = (tier.spec.boundary, tier.name_any());
        if let Some((before, nearer)) = &widest
            && boundary < *before
        {
            let sentence = format!(
                "{name} ({boundary}) comes after {nearer} ({before}): list tiers nearest first, Device, Private, Public"
            );
            return Err(Refused::tiers("LadderShrinks", sentence));
        }
        widest = Some((boundary, name));
    }
    Ok(())
}

fn currencies(tiers: &[&Tier]) -> Result<(), Refused> {
    let mut priced = tiers.iter().filter_map(|tier| Some((tier.spec.cost.as_ref()?.currency.clone(), tier.name_any())));
    let Some((first, tier)) = priced.next() else { return Ok(()) };
    match priced.find(|(currency, _)| *currency != first) {
        None => Ok(()),
        Some((other, name)) => Err(Refused::tiers(
            "MixedCurrency",
            format!("{tier} counts in {first} and {name} in {other}: give the tiers of one policy one currency"),
        )),
    }
}

fn own_router(policy: &RoutingPolicy, tiers: &[&Tier]) -> Result<(), Refused> {
    let (name, namespace) = (policy.name_any(), policy.namespace().unwrap_or_default());
    let own = |host: &str| {
        [name.clone(), router_child(&name)].iter().any(|service| {
            let full = format!("{service}.{namespace}.svc");
            host == service
                || host == format!("{service}.{namespace}")
                || host == full
                || host.starts_with(&format!("{full}."))
        })
    };
    for tier in tiers {
        let Some(endpoint) = &tier.spec.backend.endpoint else { continue };
        if own(&host(endpoint.url.as_str())) {
            let sentence = format!(
                "the endpoint of {} is this policy's own router ({}): give the URL of what should answer instead",
                tier.name_any(),
                endpoint.url
            );
            return Err(Refused::tiers("OwnRouter", sentence));
        }
    }
    Ok(())
}

/// The host of a URL of the right form, without its port and in lower case.
pub fn host(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or_default();
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
        _ => authority,
    };
    host.trim_end_matches('.').to_ascii_lowercase()
}
