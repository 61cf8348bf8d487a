//! A RoutingPolicy and its LatencyBudgets as the router sees them: defaults filled in, units resolved.

use serde::{Deserialize, Serialize};

use crate::reason::Reason;
use crate::tier::Tier;
use crate::trust::{Boundaries, Boundary, Class};

/// A compiled RoutingPolicy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Policy {
    /// The object's UID: a router never takes a snapshot of another one.
    pub uid: String,
    /// Name of the object.
    pub name: String,
    /// Namespace of the object.
    pub namespace: String,
    /// Weights of the objective, adding to 100 (a preset is resolved to its weights).
    pub weights: Weights,
    /// Who may call.
    pub access: Access,
    /// Whether the client port speaks TLS.
    pub listener_tls: bool,
    /// How sensitive requests are, and where each class may go.
    pub sensitivity: Sensitivity,
    /// How complexity is judged.
    pub complexity: Complexity,
    /// How a near answer is checked.
    pub cascade: Cascade,
    /// How a device of a tier is picked.
    pub selection: Strategy,
    /// When a second attempt is started beside one whose first token is late. Left out when it is never, so that a router
    /// which does not know it yet reads the same document.
    #[serde(default, skip_serializing_if = "Hedge::is_disabled")]
    pub hedge: Hedge,
    /// When a tier is left because it cannot answer in time.
    pub overflow: Overflow,
    /// What happens when a wider tier was decided but fails.
    pub degrade: Degrade,
    /// Learning mode.
    pub learning: LearningMode,
    /// With [`LearningMode::Canary`], the share it decides.
    pub canary_percent: u8,
    /// What happens when an egress record cannot be written.
    pub ledger_on_write_failure: OnWriteFailure,
    /// Limits of the whole policy.
    pub limits: Limits,
    /// Share of traces that is kept; errors, overflows and escalations always are.
    pub trace_sample_percent: u8,
}

/// Weights of the five objectives, in percent, adding to 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Weights {
    /// Expected quality of the answer.
    pub quality: u8,
    /// Time to the end of the answer.
    pub latency: u8,
    /// Money.
    pub cost: u8,
    /// How near the data stays.
    pub privacy: u8,
    /// How likely the tier is to answer at all.
    pub availability: u8,
}

impl Weights {
    const fn new(quality: u8, latency: u8, cost: u8, privacy: u8, availability: u8) -> Self {
        Self { quality, latency, cost, privacy, availability }
    }
    /// Preset `Balanced`.
    pub const BALANCED: Self = Self::new(30, 25, 25, 10, 10);
    /// Preset `PrivacyFirst`; also `x-terrace-prefer: privacy`.
    pub const PRIVACY_FIRST: Self = Self::new(25, 10, 10, 45, 10);
    /// Preset `LatencyFirst`; also `x-terrace-prefer: latency`.
    pub const LATENCY_FIRST: Self = Self::new(20, 50, 10, 5, 15);
    /// Preset `CostFirst`; also `x-terrace-prefer: cost`.
    pub const COST_FIRST: Self = Self::new(20, 15, 50, 5, 10);
    /// Preset `QualityFirst`; also `x-terrace-prefer: quality`.
    pub const QUALITY_FIRST: Self = Self::new(60, 15, 5, 10, 10);
}

/// Who may call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Access {
    /// Anyone who reaches the port.
    Anonymous,
    /// Callers with a key of the Secret that is mounted at [`crate::names::API_KEYS_DIR`]. A key that has no rule
    /// here is accepted without limits of its own.
    ApiKeys {
        /// Rules of named keys.
        keys: Vec<KeyRule>,
    },
}

/// What one caller's key may do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct KeyRule {
    /// The entry's name in the Secret: the caller's name.
    pub name: String,
    /// Requests a minute over all replicas; none: no limit.
    pub requests_per_minute: Option<u32>,
    /// Tokens a minute over all replicas, of prompts and answers together; none: no limit.
    pub tokens_per_minute: Option<u32>,
    /// Model names that this key may ask for; empty: all.
    pub models: Vec<String>,
    /// Whether this caller's label may go below the policy's floor (never below the detector).
    pub trust_label: bool,
}

/// How sensitive requests are, and where each class may go.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Sensitivity {
    /// The floor of every request.
    pub unlabelled: Class,
    /// The widest boundary of each class.
    pub boundaries: Boundaries,
    /// Which score the detector uses.
    pub detector: Detector,
    /// Anonymisation; none: never.
    pub anonymise: Option<Anonymise>,
    /// Consent; none: never asked.
    pub consent: Option<Consent>,
    /// Regions allowed by class.
    pub residency: Vec<Residency>,
    /// The policy's own entities.
    pub entities: Vec<Entity>,
    /// With a snapshot older than this, Public is only for class Public.
    pub max_policy_age_us: u64,
}

impl Sensitivity {
    /// Whether a request of this class may be processed by a tier, given the age of the policy: the one rule, which
    /// `decide` uses to constrain and `privacy` to make a clearance.
    ///
    /// A policy that is not sound (it cannot pass validation) is read narrowly: no class goes further than a lower
    /// one, and Restricted never to Public.
    ///
    /// # Errors
    /// The reason against it.
    pub fn permits(&self, class: Class, tier: &Tier, policy_age_us: u64) -> Result<(), Reason> {
        if tier.boundary > self.widest(class) {
            return Err(Reason::Boundary);
        }
        if tier.boundary == Boundary::Public && class > Class::Public && policy_age_us > self.max_policy_age_us {
            return Err(Reason::StalePolicy);
        }
        let bound = self.residency.iter().filter(|rule| class >= rule.class);
        if bound.into_iter().any(|rule| !rule.regions.contains(&tier.region)) {
            return Err(Reason::Residency);
        }
        Ok(())
    }

    /// How far a request of this class may travel.
    pub fn widest(&self, class: Class) -> Boundary {
        let cap = if class == Class::Restricted { Boundary::Private } else { Boundary::Public };
        Class::ALL.into_iter().filter(|c| *c <= class).map(|c| self.boundaries.of(c)).fold(cap, Boundary::min)
    }
}

/// Which score the detector uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Detector {
    /// The simple score of decide.
    Score,
    /// PRISM as published.
    Prism,
}

/// Anonymisation: which classes, and up to which boundary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Anonymise {
    /// Classes that may be anonymised; never Restricted.
    pub classes: Vec<Class>,
    /// The widest boundary that the anonymised body may cross.
    pub up_to: Boundary,
}

/// Consent of the caller to send a class further than its boundary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Consent {
    /// Classes that consent can be asked for.
    pub classes: Vec<Class>,
    /// How long a consent holds.
    pub ttl_us: u64,
}

/// Regions where data of a class may be processed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Residency {
    /// The class and every higher one.
    pub class: Class,
    /// Allowed values of a tier's `region`.
    pub regions: Vec<String>,
}

/// One entity type that the policy names itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Entity {
    /// Its name in reasons and the ledger.
    pub r#type: String,
    /// The class of a request that has one.
    pub class: Class,
    /// A regular expression (crate `regex-automata`), at most 512 characters.
    pub pattern: String,
}

/// How complexity is judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Complexity {
    /// The mode.
    pub mode: ComplexityMode,
    /// Prompt length in tokens past which a request counts as complex.
    pub max_prompt_tokens: u32,
}

/// How complexity is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ComplexityMode {
    /// By prompt length alone.
    Static,
    /// By length, task words and structure.
    Rules,
    /// By a trained model.
    Learned,
}

/// How a near answer is checked before it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Cascade {
    /// Never.
    Disabled,
    /// Against a fixed confidence.
    #[serde(rename_all = "camelCase")]
    Threshold {
        /// Confidence below which the answer is escalated.
        min_confidence_percent: u8,
    },
    /// Against a calibrated error rate.
    #[serde(rename_all = "camelCase")]
    Calibrated {
        /// Joint rate of kept and wrong answers, at most.
        target_error_percent: u8,
    },
}

/// When a second attempt is started beside one whose first token is late.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Hedge {
    /// Where it may go.
    pub mode: HedgeMode,
    /// After the time within which this percent of the tier's first tokens came lately.
    pub percentile: u8,
}

impl Hedge {
    /// Whether there is never a second attempt.
    pub fn is_disabled(&self) -> bool {
        self.mode == HedgeMode::Disabled
    }
}

/// Where a second attempt may go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum HedgeMode {
    /// Nowhere.
    #[default]
    Disabled,
    /// To a fleet, or to an endpoint that asks no price for tokens.
    Free,
    /// Also to an endpoint that asks a price: it is paid even if the other answers first.
    Any,
}

/// How a device of a tier is picked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Strategy {
    /// The feasible device that finishes first.
    ShortestExpectedCompletion,
    /// The feasible device with the least spare capacity.
    BestFit,
    /// In turn.
    RoundRobin,
    /// The device with the fewest requests in flight.
    LeastRequests,
    /// The better of two drawn at random.
    PowerOfTwo,
}

/// When a tier is left because it cannot answer in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Overflow {
    /// The mode.
    pub mode: OverflowMode,
    /// Share of a minute's requests that may overflow.
    pub max_percent: u8,
}

/// When a tier is left because it cannot answer in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum OverflowMode {
    /// Only when the tier is down.
    Disabled,
    /// When it has refused or is full.
    Saturated,
    /// Also when it is predicted to be late.
    Predicted,
}

/// What happens when a wider tier was decided but fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Degrade {
    /// Serve the nearer answer, marked.
    Mark,
    /// Fail.
    Fail,
}

/// Learning mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum LearningMode {
    /// Nothing is learned.
    Disabled,
    /// Both decisions are logged, none changes.
    Shadow,
    /// A share of the traffic follows it.
    Canary,
    /// All traffic follows it.
    Enabled,
}

/// What happens when an egress record cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum OnWriteFailure {
    /// The crossing does not happen.
    Deny,
    /// It happens, and the gap is counted.
    Allow,
}

/// Limits of the whole policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// Bytes of a request's body.
    pub request_bytes: u64,
    /// Output tokens that a request may ask for.
    pub max_output_tokens: u32,
    /// Requests in flight over all replicas.
    pub concurrency: u32,
    /// Money a day in micro-units; none: no limit.
    pub spend_per_day_micros: Option<u64>,
}

/// A compiled LatencyBudget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// The object's UID.
    pub uid: String,
    /// Its name.
    pub name: String,
    /// Features that it covers; empty: the default of the policy.
    pub features: Vec<String>,
    /// Time to the first token.
    pub first_token_us: u64,
    /// Time to the end of the answer.
    pub total_us: u64,
    /// Share of requests that must meet it, in hundredths of a percent.
    pub objective_basis_points: u32,
    /// The window of the objective.
    pub window_us: u64,
    /// What happens when the decided tier cannot make it.
    pub on_miss: OnMiss,
    /// Interactive goes before Batch under load.
    pub priority: Priority,
    /// A chain of calls that shares this budget; none: each on its own.
    pub chain: Option<Chain>,
}

/// What happens when the decided tier cannot make the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum OnMiss {
    /// Try the next permitted tier.
    Overflow,
    /// Serve late or from a nearer tier, marked.
    Degrade,
    /// Refuse at once with 504.
    Reject,
}

/// Who yields under load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Priority {
    /// Someone waits.
    Interactive,
    /// Nobody waits.
    Batch,
}

/// A chain of calls that shares one budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Chain {
    /// Hops at most.
    pub max_hops: u32,
    /// Time of the whole chain.
    pub total_us: u64,
}
