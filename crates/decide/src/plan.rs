//! What a decision is: an order of attempts so exact that `dispatch` has no choices left, and why.

use std::sync::Arc;

use serde::Serialize;
use terrace_contract::reason::Reason;
use terrace_contract::tier::Feature;
use terrace_contract::trust::{Boundary, Class};

/// The decision of one request.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// Whether there is something to try.
    pub outcome: Outcome,
    /// The tier that suits the request best if all is well; none when constraints left none.
    pub decided: Option<TierRef>,
    /// What to try, in order. Empty exactly when refused.
    pub attempts: Vec<Attempt>,
    /// The scores of what constraints left, nearest first.
    pub scores: Vec<Scored>,
    /// What was ruled out, and why.
    pub ruled_out: Vec<RuledOut>,
    /// When it is refused because every permitted tier is full: what would come of waiting for room.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub room: Option<Room>,
}

/// What would come of waiting for room in the permitted tiers, microseconds from now.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Room {
    /// To the first token of the next request that gets room.
    pub first_token_us: f64,
    /// To its end.
    pub finish_us: f64,
    /// To when there is room.
    pub until_us: f64,
    /// From one that gets room to the next.
    pub each_us: f64,
}

impl Room {
    /// What would come of a request that has so many before it.
    pub fn after(&self, ahead: usize) -> Forecast {
        let more = self.each_us * ahead as f64;
        Forecast { first_token_us: self.first_token_us + more, finish_us: self.finish_us + more }
    }
}

impl Plan {
    /// Whether the first attempt is at a nearer tier than the one decided.
    pub fn degraded(&self) -> bool {
        self.attempts.first().is_some_and(|a| a.degraded)
    }

    /// Whether the first attempt is at a farther tier than the one decided.
    pub fn overflowed(&self) -> bool {
        self.attempts.first().is_some_and(|a| a.overflow)
    }
}

/// Whether there is something to try.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// Try the attempts.
    Go,
    /// Answer with an error.
    Refuse(Refusal),
}

/// Why there is nothing to try; one a code of the error table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
pub enum Refusal {
    /// 404 `model_not_found`.
    #[error("no tier of this policy serves that model: use `auto` or one of {}", known.join(", "))]
    ModelNotFound {
        /// The names there are.
        known: Vec<String>,
    },
    /// 403 `boundary_denied`: the class permits no tier of the ladder, ever.
    #[error(
        "a request of class {class} may travel no further than {widest}, and no tier of this policy that could serve it lies within that: add one, or lower the class if it is wrong"
    )]
    BoundaryDenied {
        /// The class of the request.
        class: Class,
        /// How far it may travel.
        widest: Boundary,
    },
    /// 422 `unsupported_feature`.
    #[error("no permitted tier offers {}: leave it out, or add it to a tier's capability.features", names(missing))]
    UnsupportedFeature {
        /// What is missing in the tier that lacks least.
        missing: Vec<Feature>,
    },
    /// 422 `context_too_long`.
    #[error(
        "prompt and answer take {needed} tokens, and the largest permitted context holds {limit}: shorten the prompt or lower max_tokens"
    )]
    ContextTooLong {
        /// Prompt and answer.
        needed: u32,
        /// The largest context of a permitted tier.
        limit: u32,
    },
    /// 503 `permitted_tiers_unavailable`: permitted tiers exist but none can answer now.
    #[error("the tiers that a request of this class may use cannot answer now: try again in {} ms", retry_after_us / 1000)]
    PermittedTiersUnavailable {
        /// When to come back.
        retry_after_us: u64,
    },
    /// 503 `permitted_tiers_unavailable`: what is left of the day's spend pays for none of them.
    #[error("what is left of the day's spend (limits.spendPerDay) does not pay for this request: it begins anew at 00:00 UTC, in {} minutes", retry_after_us.div_ceil(60_000_000))]
    SpendLimit {
        /// When the next day begins.
        retry_after_us: u64,
    },
    /// 503 `overloaded`: all are full.
    #[error("every tier is full: try again in {} ms", retry_after_us / 1000)]
    Overloaded {
        /// When to come back.
        retry_after_us: u64,
    },
    /// 503 `overflow_capped`: past the policy's share.
    #[error("the share of requests that may overflow (overflow.maxPercent: {max_percent}) is used up for this minute: try again in {} ms", retry_after_us / 1000)]
    OverflowCapped {
        /// The share.
        max_percent: u8,
        /// When to come back.
        retry_after_us: u64,
    },
    /// 504 `budget_exceeded`: `onMiss: Reject`.
    #[error("the first token is forecast after {} ms and the end after {} ms, over this feature's budget", first_token_us / 1000, finish_us / 1000)]
    BudgetExceeded {
        /// Forecast of the decided tier.
        first_token_us: u64,
        /// Forecast of the decided tier.
        finish_us: u64,
    },
    /// 504 `budget_exceeded`: the chain has made its calls.
    #[error(
        "this session's chain has made its {max_hops} calls (LatencyBudget spec.chain.maxHops): end it, or begin another with another x-terrace-session"
    )]
    ChainHops {
        /// Calls that it may make.
        max_hops: u32,
    },
    /// 504 `budget_exceeded`: the chain has used up its time.
    #[error(
        "this session's chain has used up its {} ms (LatencyBudget spec.chain.total), counted from its first call: end it, or begin another with another x-terrace-session", total_us / 1000
    )]
    ChainTime {
        /// Time that it has, microseconds.
        total_us: u64,
    },
}

impl Refusal {
    /// Its code in the error table.
    pub fn code(&self) -> &'static str {
        match self {
            Refusal::ModelNotFound { .. } => "model_not_found",
            Refusal::BoundaryDenied { .. } => "boundary_denied",
            Refusal::UnsupportedFeature { .. } => "unsupported_feature",
            Refusal::ContextTooLong { .. } => "context_too_long",
            Refusal::PermittedTiersUnavailable { .. } | Refusal::SpendLimit { .. } => "permitted_tiers_unavailable",
            Refusal::Overloaded { .. } => "overloaded",
            Refusal::OverflowCapped { .. } => "overflow_capped",
            Refusal::BudgetExceeded { .. } | Refusal::ChainHops { .. } | Refusal::ChainTime { .. } => "budget_exceeded",
        }
    }

    /// When to come back, microseconds; none: the same request is refused then too.
    pub fn retry_after_us(&self) -> Option<u64> {
        match self {
            Refusal::PermittedTiersUnavailable { retry_after_us }
            | Refusal::SpendLimit { retry_after_us }
            | Refusal::Overloaded { retry_after_us }
            | Refusal::OverflowCapped { retry_after_us, .. } => Some(*retry_after_us),
            _ => None,
        }
    }
}

fn names(features: &[Feature]) -> String {
    features.iter().map(|f| format!("{f:?}")).collect::<Vec<_>>().join(", ")
}

/// One thing to try.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// Where.
    pub tier: TierRef,
    /// Devices in order: the second is for when the first refuses or fails before its first token. Empty for an
    /// endpoint.
    pub devices: Vec<DeviceRef>,
    /// Why here. Of what stands by after another attempt: why if that one fails; if it was full instead, the reason is
    /// `overflow_saturated`.
    pub reasons: Vec<Reason>,
    /// Farther than the tier decided: counts against `overflow.maxPercent`.
    pub overflow: bool,
    /// Nearer than the tier decided: the answer is marked.
    pub degraded: bool,
    /// Only when the attempts before it failed (connection, 5xx, cut), not when they were merely full:
    /// `overflow.mode: Disabled`.
    pub only_after_failure: bool,
    /// Goes to what is only believed to be down (an open breaker, no report for long), since nothing else is left: load
    /// fails open.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub insists: bool,
    /// What is forecast of the first device, or of the endpoint.
    pub forecast: Forecast,
    /// Expected price, micro-units.
    pub cost_micros: u64,
}

/// First token and finish, microseconds from now.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Forecast {
    /// To the first token.
    pub first_token_us: f64,
    /// To the end.
    pub finish_us: f64,
}

/// A tier of the view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TierRef {
    /// Its rung: index in the view.
    pub index: usize,
    /// UID of the object.
    pub uid: String,
    /// Name of the object.
    pub name: String,
    /// Its boundary.
    pub boundary: Boundary,
}

/// A device of a tier of the view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceRef {
    /// Index in the tier's devices.
    pub index: usize,
    /// UID of its pod.
    pub pod_uid: Arc<str>,
    /// Its node.
    pub node: Arc<str>,
}

/// What was ruled out, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuledOut {
    /// Rung of the tier.
    pub tier: usize,
    /// Index of the device; none: the whole tier.
    pub device: Option<usize>,
    /// Why.
    pub reason: Reason,
}

/// The score of one tier: parts in 0..=1, the totals weighted by the policy.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Scored {
    /// Rung of the tier.
    pub tier: usize,
    /// Whether it can do the request.
    pub able: bool,
    /// Quality part.
    pub quality: f64,
    /// Latency part, as it is now.
    pub latency: f64,
    /// Cost part.
    pub cost: f64,
    /// Privacy part.
    pub privacy: f64,
    /// Availability part, as it is now.
    pub availability: f64,
    /// Total as it is now: the order of the alternatives.
    pub now: f64,
    /// Total with the tier idle and whole: it makes the decided tier, so that a fleet under load is seen as overflow.
    pub idle: f64,
    /// What is forecast of it now; none: it is not up.
    pub forecast: Option<Forecast>,
    /// Expected price of the request there, micro-units.
    pub cost_micros: u64,
}
