//! How a policy decides: objective, complexity, cascade, selection, overflow, degradation, learning.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use terrace_contract::policy;

use crate::choice::choice;
use crate::sentence;

choice! {
    /// Weights under one name.
    Preset {
        /// 30 quality, 25 latency, 25 cost, 10 privacy, 10 availability.
        Balanced,
        /// 25 quality, 10 latency, 10 cost, 45 privacy, 10 availability.
        PrivacyFirst,
        /// 20 quality, 50 latency, 10 cost, 5 privacy, 15 availability.
        LatencyFirst,
        /// 20 quality, 15 latency, 50 cost, 5 privacy, 10 availability.
        CostFirst,
        /// 60 quality, 15 latency, 5 cost, 10 privacy, 10 availability.
        QualityFirst,
    }
}

impl From<Preset> for policy::Weights {
    fn from(preset: Preset) -> Self {
        match preset {
            Preset::Balanced => Self::BALANCED,
            Preset::PrivacyFirst => Self::PRIVACY_FIRST,
            Preset::LatencyFirst => Self::LATENCY_FIRST,
            Preset::CostFirst => Self::COST_FIRST,
            Preset::QualityFirst => Self::QUALITY_FIRST,
        }
    }
}

/// What is weighed against what: exactly one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.preset) != has(self.weights)").message(sentence::ONE_OBJECTIVE))]
pub struct Objective {
    /// Weights under one name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<Preset>,
    /// Weights in percent, adding to 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weights: Option<Weights>,
}

impl Objective {
    /// Whether it says what an absent one means. Such a value is kept out of the schema's defaults: a stored `preset`
    /// would meet the `weights` that someone adds later.
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for Objective {
    fn default() -> Self {
        Self { preset: Some(Preset::Balanced), weights: None }
    }
}

/// Weights in percent, adding to 100.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.quality + self.latency + self.cost + self.privacy + self.availability == 100").message(sentence::WEIGHTS_SUM))]
pub struct Weights {
    /// Expected quality of the answer.
    #[serde(default)]
    #[schemars(range(min = 0, max = 100))]
    pub quality: i32,
    /// Time to the end of the answer.
    #[serde(default)]
    #[schemars(range(min = 0, max = 100))]
    pub latency: i32,
    /// Money.
    #[serde(default)]
    #[schemars(range(min = 0, max = 100))]
    pub cost: i32,
    /// How near the data stays.
    #[serde(default)]
    #[schemars(range(min = 0, max = 100))]
    pub privacy: i32,
    /// How likely the tier is to answer at all.
    #[serde(default)]
    #[schemars(range(min = 0, max = 100))]
    pub availability: i32,
}

choice! {
    /// How complexity is judged.
    #[derive(Default)]
    ComplexityMode => policy::ComplexityMode {
        /// By prompt length alone.
        Static,
        /// By length, task words and structure.
        #[default]
        Rules,
        /// By a trained model.
        Learned,
    }
}

/// How a request is judged to need a more able tier.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Complexity {
    /// The mode.
    #[serde(default)]
    pub mode: ComplexityMode,
    /// The rules of modes Static and Rules, and what Learned falls back to.
    #[serde(default)]
    pub rules: ComplexityRules,
}

/// Rules of complexity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComplexityRules {
    /// Prompt length in tokens past which a request counts as complex.
    #[serde(default = "max_prompt_tokens")]
    #[schemars(range(min = 1, max = 1_048_576))]
    pub max_prompt_tokens: i32,
}

fn max_prompt_tokens() -> i32 {
    50
}

impl Default for ComplexityRules {
    fn default() -> Self {
        Self { max_prompt_tokens: max_prompt_tokens() }
    }
}

choice! {
    /// How a near answer is checked.
    #[derive(Default)]
    CascadeMode {
        /// Never.
        #[default]
        Disabled,
        /// Against a fixed confidence.
        Threshold,
        /// Against a calibrated error rate.
        Calibrated,
    }
}

/// How a near answer is checked before it is kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("(self.mode == 'Threshold') == has(self.minConfidencePercent) && (self.mode == 'Calibrated') == has(self.targetErrorPercent)").message(sentence::CASCADE))]
pub struct Cascade {
    /// The mode.
    #[serde(default)]
    pub mode: CascadeMode,
    /// With mode Threshold: confidence below which the answer is escalated.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 99))]
    pub min_confidence_percent: Option<i32>,
    /// With mode Calibrated: the joint rate of kept and wrong answers, at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 99))]
    pub target_error_percent: Option<i32>,
}

choice! {
    /// How a device of a tier is picked.
    #[derive(Default)]
    Strategy => policy::Strategy {
        /// The feasible device that finishes first.
        #[default]
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
}

/// How a device of a tier is picked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Selection {
    /// The strategy.
    #[serde(default)]
    pub strategy: Strategy,
    /// When a second attempt is started beside one whose first token is late.
    #[serde(default)]
    pub hedge: Hedge,
}

choice! {
    /// Where a second attempt may go.
    #[derive(Default)]
    HedgeMode => policy::HedgeMode {
        /// Nowhere.
        #[default]
        Disabled,
        /// To another device of a permitted fleet, or to a permitted endpoint that asks no price for tokens.
        Free,
        /// Also to a permitted endpoint that asks a price: it is paid even if the other answers first.
        Any,
    }
}

/// When a second attempt is started beside one whose first token is late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Hedge {
    /// Where it may go.
    #[serde(default)]
    pub mode: HedgeMode,
    /// It starts after the time within which this percent of the tier's last first tokens came.
    #[serde(default = "hedge_percentile")]
    #[schemars(range(min = 50, max = 99))]
    pub percentile: i32,
}

fn hedge_percentile() -> i32 {
    95
}

impl Default for Hedge {
    fn default() -> Self {
        Self { mode: HedgeMode::default(), percentile: hedge_percentile() }
    }
}

choice! {
    /// When a tier is left because it cannot answer in time.
    #[derive(Default)]
    OverflowMode => policy::OverflowMode {
        /// Only when the tier is down.
        Disabled,
        /// When it has refused or is full.
        Saturated,
        /// Also when it is predicted to be late.
        #[default]
        Predicted,
    }
}

/// When a tier is left because it cannot answer in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Overflow {
    /// The mode.
    #[serde(default)]
    pub mode: OverflowMode,
    /// Share of a minute's requests that may overflow; past it: degrade, else 503 `overflow_capped`. 100: no cap.
    #[serde(default = "no_cap")]
    #[schemars(range(min = 0, max = 100))]
    pub max_percent: i32,
}

fn no_cap() -> i32 {
    100
}

impl Default for Overflow {
    fn default() -> Self {
        Self { mode: OverflowMode::default(), max_percent: no_cap() }
    }
}

choice! {
    /// What happens when a wider tier was decided but fails.
    #[derive(Default)]
    DegradeMode => policy::Degrade {
        /// The nearer answer is served, marked.
        #[default]
        Mark,
        /// The request fails.
        Fail,
    }
}

/// What happens when a wider tier was decided but fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Degrade {
    /// The mode.
    #[serde(default)]
    pub mode: DegradeMode,
}

choice! {
    /// What is learned from traffic.
    #[derive(Default)]
    LearningMode => policy::LearningMode {
        /// Nothing.
        #[default]
        Disabled,
        /// Both decisions are logged, none changes.
        Shadow,
        /// A share of the traffic follows it.
        Canary,
        /// All traffic follows it.
        Enabled,
    }
}

/// What is learned from traffic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("(self.mode == 'Canary') == has(self.canaryPercent)").message(sentence::CANARY_PERCENT).field_path(".canaryPercent"))]
pub struct Learning {
    /// The mode.
    #[serde(default)]
    pub mode: LearningMode,
    /// With mode Canary: the share of the traffic that follows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 99))]
    pub canary_percent: Option<i32>,
}
