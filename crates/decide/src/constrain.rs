//! What may not be used at all: first by what a request is (class, model, context, abilities), then by what state a
//! tier is in. Whatever is ruled out here is never seen by a preference.

use terrace_contract::policy::{Policy, Priority};
use terrace_contract::reason::Reason;
use terrace_contract::tier::{Backend, Feature, Tier};
use terrace_contract::trust::Boundary;

use crate::plan::{Refusal, RuledOut};
use crate::signals::{ModelChoice, Signals};
use crate::view::{BreakerState, DeviceView, EndpointView, FleetView, Freshness, Report, Serving, TierView};

/// Tokens in one block of a KV cache.
const KV_BLOCK_TOKENS: u64 = 16;

/// The rungs that a request may use, whatever their state; or why there are none.
///
/// # Errors
/// The refusal that fits the constraint which left none.
pub fn permit(
    signals: &Signals,
    view: &FleetView,
    policy: &Policy,
    ruled_out: &mut Vec<RuledOut>,
) -> Result<Vec<usize>, Refusal> {
    let mut left: Vec<usize> = (0..view.tiers.len()).collect();
    let mut keep = |left: &mut Vec<usize>, check: &dyn Fn(&TierView) -> Result<(), Reason>| {
        left.retain(|&tier| match check(&view.tiers[tier]) {
            Ok(()) => true,
            Err(reason) => {
                ruled_out.push(RuledOut { tier, device: None, reason });
                false
            }
        });
    };

    keep(&mut left, &|t| ok_or(serves(&signals.model, &t.tier), Reason::Model));
    if left.is_empty() {
        let mut known: Vec<String> = view.tiers.iter().map(|t| t.tier.backend.model().to_owned()).collect();
        known.dedup();
        return Err(Refusal::ModelNotFound { known });
    }

    let named = left.clone();
    keep(&mut left, &|t| policy.sensitivity.permits(signals.class, &t.tier, view.snapshot_age_us));
    if left.is_empty() {
        // With a fresh policy some tier would do: that is "not now", the rest is "never".
        let fresh = named.iter().any(|&t| policy.sensitivity.permits(signals.class, &view.tiers[t].tier, 0).is_ok());
        let never = Refusal::BoundaryDenied { class: signals.class, widest: policy.sensitivity.widest(signals.class) };
        let now = Refusal::PermittedTiersUnavailable { retry_after_us: RETRY_DOWN_US };
        return Err(if fresh { now } else { never });
    }

    let before = left.clone();
    keep(&mut left, &|t| ok_or(missing(&signals.needs, &t.tier).next().is_none(), Reason::Capability));
    if left.is_empty() {
        let lacks = |t: &usize| missing(&signals.needs, &view.tiers[*t].tier).collect::<Vec<_>>();
        let missing = before.iter().map(lacks).min_by_key(Vec::len).unwrap_or_default();
        return Err(Refusal::UnsupportedFeature { missing });
    }

    let before = left.clone();
    let output = signals.max_output_tokens.unwrap_or(signals.expected_output_tokens);
    let needed = signals.context_tokens().saturating_add(output);
    keep(&mut left, &|t| ok_or(needed <= context(&t.tier), Reason::ContextLength));
    if left.is_empty() {
        let limit = before.iter().map(|&t| context(&view.tiers[t].tier)).max().unwrap_or(0);
        return Err(Refusal::ContextTooLong { needed, limit });
    }

    // An answer that was not good enough is never asked for again at the same rung or below.
    if let Some(from) = signals.escalate_from {
        left.retain(|&tier| tier > from);
        if left.is_empty() {
            return Err(Refusal::PermittedTiersUnavailable { retry_after_us: RETRY_DOWN_US });
        }
    }
    Ok(left)
}

/// When to come back if a tier is down.
pub const RETRY_DOWN_US: u64 = 5_000_000;
/// When to come back if a tier is full.
pub const RETRY_FULL_US: u64 = 1_000_000;

/// The state of a permitted tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It can take the request.
    Up,
    /// It answers, but has no room now.
    Full(Reason),
    /// It does not answer.
    Down(Reason),
}

/// Whether what is left of the day's spend holds one more request of this price.
pub fn affordable(view: &FleetView, cost_micros: u64) -> bool {
    view.spend_left_micros.is_none_or(|left| cost_micros <= left)
}

/// The state of a permitted tier that is an endpoint.
pub fn endpoint_state(signals: &Signals, view: &FleetView, tier: &Tier, e: &EndpointView) -> State {
    match endpoint(signals, view, tier, e) {
        None => State::Up,
        Some(reason @ (Reason::Saturated | Reason::RateLimited)) => State::Full(reason),
        Some(reason) => State::Down(reason),
    }
}

/// What is found out of a device that can take the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Up {
    /// Requests that it has, see [`in_flight`].
    pub in_flight: u32,
    /// How far its report can be relied on.
    pub freshness: Freshness,
}

/// Whether a device can take the request; `domain` is the router's, if the tier serves its own domain alone. One that
/// `insists` takes a device that is only believed to be down for one whose report is old.
///
/// # Errors
/// Why not.
#[inline]
pub fn device(signals: &Signals, domain: Option<&str>, d: &DeviceView, insists: bool) -> Result<Up, Reason> {
    let freshness = d.freshness();
    let in_flight = in_flight(d, freshness);
    if domain.is_some_and(|own| own.is_empty() || own != &*d.facts.domain) {
        Err(Reason::Locality)
    } else if !d.ready {
        Err(Reason::NoDevice)
    } else if !insists && d.breaker == BreakerState::Open {
        Err(Reason::BreakerOpen)
    } else if !insists && freshness == Freshness::Silent {
        Err(Reason::StaleLoad)
    } else if full(signals, d, in_flight) {
        Err(Reason::Saturated)
    } else {
        let old = freshness == Freshness::Silent;
        Ok(Up { in_flight, freshness: if old { Freshness::Stale } else { freshness } })
    }
}

/// Whether a reason says only what is believed of a place: it may be wrong, and a request that has nowhere else to go
/// finds out.
pub fn is_belief(reason: &Reason) -> bool {
    matches!(reason, Reason::BreakerOpen | Reason::StaleLoad)
}

/// The state of a fleet of which so many devices are up, and the others were ruled out for these reasons.
pub fn fleet_state(up: usize, mut others: impl DoubleEndedIterator<Item = Reason> + Clone) -> State {
    if up > 0 {
        State::Up
    } else if others.clone().any(|reason| reason == Reason::Saturated) {
        State::Full(Reason::Saturated)
    } else {
        State::Down(others.next_back().unwrap_or(Reason::NoDevice))
    }
}

/// Whether one more request would be refused. Batch leaves half of the queue to those who wait.
#[inline]
fn full(signals: &Signals, d: &DeviceView, in_flight: u32) -> bool {
    let Some(Report { load, .. }) = &d.report else { return false };
    let batch = signals.deadline.is_some_and(|b| b.priority == Priority::Batch);
    let room = load.slots.max(1) + if batch { load.queue_limit / 2 } else { load.queue_limit };
    let blocks = u64::from(signals.context_tokens() + signals.expected_output_tokens).div_ceil(KV_BLOCK_TOKENS);
    let no_kv = load.total_kv_blocks > 0 && blocks > load.free_kv_blocks && in_flight > 0 && load.queue_limit == 0;
    in_flight >= room || no_kv
}

/// Requests that a device has, as well as can be known: its report and what was sent since; with a stale report or
/// none, this router's own only.
#[inline]
pub fn in_flight(d: &DeviceView, freshness: Freshness) -> u32 {
    match (freshness, &d.report) {
        (Freshness::Fresh, Some(r)) => r.load.running + r.load.queued + d.own_since_report,
        _ => d.own_in_flight,
    }
}

fn endpoint(signals: &Signals, view: &FleetView, tier: &Tier, e: &EndpointView) -> Option<Reason> {
    let wants_credential = matches!(&tier.backend, Backend::Endpoint(b) if b.credential.is_some());
    let tokens = u64::from(signals.prompt_tokens) + u64::from(signals.expected_output_tokens);
    if wants_credential && !e.credential {
        Some(Reason::Credential)
    } else if e.breaker == BreakerState::Open {
        Some(Reason::BreakerOpen)
    } else if e.cooling_until_us > view.now_us
        || e.requests_left == Some(0)
        || e.tokens_left.is_some_and(|l| l < tokens)
    {
        Some(Reason::RateLimited)
    } else if e.concurrency_left == Some(0) {
        Some(Reason::Saturated)
    } else {
        None
    }
}

/// When to come back to a tier that is cooling; none: it is not.
pub fn cooling(view: &FleetView, tier: usize) -> Option<u64> {
    match &view.tiers[tier].serving {
        Serving::Endpoint(e) => e.cooling_until_us.checked_sub(view.now_us).filter(|left| *left > 0),
        Serving::Devices(_) => None,
    }
}

/// Whether a wider tier than the class permits was ruled out: then its refusal says so.
pub fn confined(ruled_out: &[RuledOut]) -> bool {
    ruled_out.iter().any(|r| matches!(r.reason, Reason::Boundary | Reason::Residency | Reason::StalePolicy))
}

fn serves(model: &ModelChoice, tier: &Tier) -> bool {
    match model {
        ModelChoice::Auto => true,
        ModelChoice::Named(name) => tier.backend.model() == name,
    }
}

fn missing<'a>(needs: &'a [Feature], tier: &'a Tier) -> impl Iterator<Item = Feature> + 'a {
    needs.iter().copied().filter(|n| !tier.capability.features.contains(n))
}

/// A tier that states no context has none that is known to be too short.
fn context(tier: &Tier) -> u32 {
    if tier.capability.context_tokens == 0 { u32::MAX } else { tier.capability.context_tokens }
}

fn ok_or(ok: bool, reason: Reason) -> Result<(), Reason> {
    if ok { Ok(()) } else { Err(reason) }
}

/// How near a boundary keeps the data: 1 on the device, 0 anywhere.
pub fn nearness(boundary: Boundary) -> f64 {
    match boundary {
        Boundary::Device => 1.0,
        Boundary::Private => 0.5,
        Boundary::Public => 0.0,
    }
}
