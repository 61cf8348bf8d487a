//! How long an answer will be: what this feature's answers were like, within what the caller allows.

/// Tokens of an answer of which nothing is known yet.
pub const UNKNOWN_TOKENS: u32 = 128;

/// Expected tokens of the answer: the mean of earlier answers of the same feature (or [`UNKNOWN_TOKENS`]), never more
/// than the caller allows and never none.
pub fn expected(mean_of_feature: Option<f64>, max_output_tokens: u32) -> u32 {
    let mean = mean_of_feature.filter(|m| m.is_finite() && *m >= 0.0).unwrap_or(f64::from(UNKNOWN_TOKENS));
    (mean.round() as u32).clamp(1, max_output_tokens.max(1))
}

/// Adds one answer to a feature's mean; recent ones weigh more (an exponential mean over about 50).
pub fn learn(mean_of_feature: Option<f64>, tokens: u32) -> f64 {
    const WEIGHT: f64 = 0.04;
    match mean_of_feature {
        None => f64::from(tokens),
        Some(mean) => mean + WEIGHT * (f64::from(tokens) - mean),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_more_than_allowed_and_never_none() {
        assert_eq!(expected(None, 16), 16);
        assert_eq!(expected(Some(40.0), 4096), 40);
        assert_eq!(expected(Some(0.0), 0), 1);
        assert_eq!(expected(Some(f64::NAN), 4096), UNKNOWN_TOKENS);
    }

    #[test]
    fn the_mean_follows_the_answers() {
        let mean = (0..200).fold(None, |mean, _| Some(learn(mean, 60)));
        let moved = (0..200).fold(mean, |mean, _| Some(learn(mean, 300)));
        assert!((299.0..=300.0).contains(&moved.unwrap()), "{moved:?}");
    }
}
