//! What may not be used at all: first by what a request is (class, model, context, abilities), then by what state a
//! tier is in. Whatever is ruled out here is never seen by a preference.

use terrace_contract::policy::{Policy, Priority};
use terrace_contract::reason::Reason;
use terrace_contract::tier::{Backend, Feature, Tier};
use terrace_contract::trust::Boundary;

use crate::plan::{Refusal, RuledOut};
use crate::signals::{ModelChoice, Signals};
use crate::view::{BreakerState, DeviceView, EndpointView, FleetView, Freshness, Serving, TierView};

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
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It can take the request: these devices, or the endpoint.
    Up(Vec<usize>),
    /// It answers, but has no room now.
    Full(Reason),
    /// It does not answer.
    Down(Reason),
}

/// Looks at the state of one permitted tier.
pub fn state(
    signals: &Signals,
    view: &FleetView,
    tier: usize,
    cost_micros: u64,
    ruled_out: &mut Vec<RuledOut>,
) -> State {
    let here = &view.tiers[tier];
    let state = if view.spend_left_micros.is_some_and(|left| cost_micros > left) {
        State::Down(Reason::SpendLimit)
    } else {
        match &here.serving {
            Serving::Endpoint(e) => match endpoint(signals, view, &here.tier, e) {
                None => State::Up(Vec::new()),
                Some(reason @ (Reason::Saturated | Reason::RateLimited)) => State::Full(reason),
                Some(reason) => State::Down(reason),
            },
            Serving::Devices(devices) => fleet(signals, view, tier, devices, ruled_out),
        }
    };
    if let State::Full(reason) | State::Down(reason) = state {
        ruled_out.push(RuledOut { tier, device: None, reason });
    }
    state
}

fn fleet(
    signals: &Signals,
    view: &FleetView,
    tier: usize,
    devices: &[DeviceView],
    ruled_out: &mut Vec<RuledOut>,
) -> State {
    let local = view.tiers[tier].tier.topology_key.is_some();
    let mut up = Vec::with_capacity(devices.len());
    let mut why = Reason::NoDevice;
    let mut full = false;
    for (index, d) in devices.iter().enumerate() {
        match device(signals, d, local.then_some(view.domain.as_str())) {
            None => up.push(index),
            Some(reason) => {
                full |= reason == Reason::Saturated;
                why = reason;
                ruled_out.push(RuledOut { tier, device: Some(index), reason });
            }
        }
    }
    match (up.is_empty(), full) {
        (false, _) => State::Up(up),
        (true, true) => State::Full(Reason::Saturated),
        (true, false) => State::Down(why),
    }
}

fn device(signals: &Signals, d: &DeviceView, domain: Option<&str>) -> Option<Reason> {
    if domain.is_some_and(|own| own.is_empty() || own != &*d.facts.domain) {
        Some(Reason::Locality)
    } else if !d.ready {
        Some(Reason::NoDevice)
    } else if d.breaker == BreakerState::Open {
        Some(Reason::BreakerOpen)
    } else if d.freshness() == Freshness::Silent {
        Some(Reason::StaleLoad)
    } else if full(signals, d) {
        Some(Reason::Saturated)
    } else {
        None
    }
}

/// Whether one more request would be refused. Batch leaves half of the queue to those who wait.
fn full(signals: &Signals, d: &DeviceView) -> bool {
    let Some(report) = d.report else { return false };
    let load = report.load;
    let batch = signals.deadline.is_some_and(|b| b.priority == Priority::Batch);
    let room = load.slots.max(1) + if batch { load.queue_limit / 2 } else { load.queue_limit };
    let in_flight = in_flight(d);
    let blocks = u64::from(signals.context_tokens() + signals.expected_output_tokens).div_ceil(KV_BLOCK_TOKENS);
    let no_kv = load.total_kv_blocks > 0 && blocks > load.free_kv_blocks && in_flight > 0 && load.queue_limit == 0;
    in_flight >= room || no_kv
}

/// Requests that a device has, as well as can be known: its report and what was sent since; with a stale report or
/// none, this router's own only.
pub fn in_flight(d: &DeviceView) -> u32 {
    match (d.freshness(), d.report) {
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
