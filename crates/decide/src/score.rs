//! Weighs what constraints left: quality, latency, cost, privacy, availability, each in 0..=1, by the policy's weights
//! or the caller's preference.
//!
//! | part | value |
//! | --- | --- |
//! | quality | for a complex request, or when quality outweighs all else, the tier's quality; for a simple one mostly whether it is [`ENOUGH`]; for a short structured call of a chain only that |
//! | latency | with a budget `1 - 0.5 max(ttft / firstToken, finish / total)`, else `1 / (1 + finish / 30 s)`; in a chain `total` is at most this call's share of what the chain has left |
//! | cost | `1 - cost / dearest` |
//! | privacy | 1 Device, 0.5 Private, 0 Public |
//! | availability | share of the tier's devices that are up; an endpoint that is being probed 0.5 |

use terrace_contract::policy::Weights;
use terrace_contract::tier::Tier;

use crate::constrain::nearness;
use crate::plan::{Forecast, Scored};
use crate::signals::Signals;

/// The quality that is enough for a simple request.
pub const ENOUGH: f64 = 50.0;
/// Without a budget, the time to the end at which the latency part is one half.
const HALF_US: f64 = 30e6;

/// What the score of one tier is made of.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// Its rung.
    pub index: usize,
    /// The tier.
    pub tier: &'a Tier,
    /// Its quality at the request's task.
    pub quality: u8,
    /// Whether that reaches the floor.
    pub able: bool,
    /// Forecast as it is now; none: it is not up.
    pub now: Option<Forecast>,
    /// Forecast if idle.
    pub idle: Forecast,
    /// Share of it that is up.
    pub availability: f64,
    /// Expected price of the request.
    pub cost_micros: u64,
}

/// Expected price of a request at a tier, micro-units: tokens and energy.
pub fn cost_micros(tier: &Tier, prompt_tokens: u32, output_tokens: u32) -> u64 {
    let (input, output) = (u128::from(prompt_tokens), u128::from(output_tokens));
    let price = input * u128::from(tier.cost.per_million_input_micros)
        + output * u128::from(tier.cost.per_million_output_micros);
    let microjoules = input * u128::from(tier.energy.microjoules_per_input_token)
        + output * u128::from(tier.energy.microjoules_per_output_token);
    const MICROJOULES_PER_KWH: u128 = 3_600_000_000_000;
    let energy = microjoules * u128::from(tier.energy.price_per_kwh_micros) / MICROJOULES_PER_KWH;
    u64::try_from(price / 1_000_000 + energy).unwrap_or(u64::MAX)
}

/// Price of a device's time, micro-units: of the share of it that an answer took ([`terrace_contract::cost::Cost`]).
pub fn device_micros(tier: &Tier, compute_us: u64) -> u64 {
    const MICROS_PER_HOUR: u128 = 3_600_000_000;
    let price = u128::from(compute_us) * u128::from(tier.cost.per_device_hour_micros) / MICROS_PER_HOUR;
    u64::try_from(price).unwrap_or(u64::MAX)
}

/// Scores tiers, in the order given.
pub fn score(signals: &Signals, policy: &Weights, tiers: &[Facts<'_>]) -> Vec<Scored> {
    let weights = signals.prefer.map_or(*policy, |p| p.weights());
    let dearest = tiers.iter().map(|t| t.cost_micros).max().unwrap_or(0);
    tiers
        .iter()
        .map(|t| {
            let quality = quality(t.quality, signals, &weights);
            let cost = if dearest == 0 { 1.0 } else { 1.0 - t.cost_micros as f64 / dearest as f64 };
            let privacy = nearness(t.tier.boundary);
            let latency_of = |forecast: Forecast| latency(forecast, signals);
            let latency_now = t.now.map_or(0.0, latency_of);
            let total = |latency: f64, availability: f64| {
                (f64::from(weights.quality) * quality
                    + f64::from(weights.latency) * latency
                    + f64::from(weights.cost) * cost
                    + f64::from(weights.privacy) * privacy
                    + f64::from(weights.availability) * availability)
                    / 100.0
            };
            Scored {
                tier: t.index,
                able: t.able,
                quality,
                latency: latency_now,
                cost,
                privacy,
                availability: t.availability,
                now: total(latency_now, t.availability),
                idle: total(latency_of(t.idle), 1.0),
                forecast: t.now,
                cost_micros: t.cost_micros,
            }
        })
        .collect()
}

fn quality(quality: u8, signals: &Signals, weights: &Weights) -> f64 {
    let q = f64::from(quality);
    // Most requests do not need a frontier model: past enough, more quality is worth little to a simple one.
    let wanted = if signals.complexity.complex || weights.quality > 50 {
        1.0
    } else if signals.is_step() {
        0.0
    } else {
        0.25
    };
    wanted * q / 100.0 + (1.0 - wanted) * (q / ENOUGH).min(1.0)
}

fn latency(forecast: Forecast, signals: &Signals) -> f64 {
    match &signals.deadline {
        None => 1.0 / (1.0 + forecast.finish_us / HALF_US),
        Some(d) => {
            let part = |us: f64, of: u64| us / (of.max(1) as f64);
            let total = signals.hop.map_or(d.total_us, |hop| d.total_us.min(hop.share_us()));
            let used = part(forecast.first_token_us, d.first_token_us).max(part(forecast.finish_us, total));
            (1.0 - 0.5 * used).max(0.0)
        }
    }
}
