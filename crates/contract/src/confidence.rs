//! How sure a model was of an answer, from its untempered token distributions.

use serde::{Deserialize, Serialize};

/// Sent in the last event of a stream, or as the `terrace` member of a JSON body, when asked for with
/// [`crate::headers::CONFIDENCE`]. Log-probabilities are natural logarithms; entropy is in nats.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Confidence {
    /// Mean log-probability of the sampled tokens.
    pub mean: f64,
    /// The lowest one.
    pub min: f64,
    /// 5th percentile.
    pub p05: f64,
    /// 10th percentile.
    pub p10: f64,
    /// 25th percentile.
    pub p25: f64,
    /// Median.
    pub p50: f64,
    /// Mean entropy of the distributions.
    pub entropy: f64,
    /// Mean difference between the two most likely tokens' probabilities.
    pub margin: f64,
    /// Tokens of the answer.
    pub tokens: u32,
}
