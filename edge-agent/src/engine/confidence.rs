//! How sure the model was of an answer: figures over its tokens, from the distributions before temperature and filters.

use terrace_contract::confidence::Confidence;

use crate::kernels::Distribution;

/// Collects one answer's figures.
#[derive(Debug, Default)]
pub(super) struct ConfidenceMeter {
    logprobs: Vec<f32>,
    entropy: f64,
    margin: f64,
}

impl ConfidenceMeter {
    pub(super) fn add(&mut self, logprob: f32, distribution: &Distribution) {
        self.logprobs.push(logprob);
        self.entropy += f64::from(distribution.entropy);
        self.margin += f64::from(distribution.margin);
    }

    /// None without tokens.
    pub(super) fn result(&self) -> Option<Confidence> {
        let mut sorted = self.logprobs.clone();
        sorted.sort_by(f32::total_cmp);
        let count = sorted.len() as f64;
        let min = f64::from(*sorted.first()?);
        // Nearest rank.
        let percentile = |p: f64| {
            let rank = (p / 100.0 * count).ceil().max(1.0) as usize;
            f64::from(sorted[rank.min(sorted.len()) - 1])
        };
        Some(Confidence {
            mean: sorted.iter().copied().map(f64::from).sum::<f64>() / count,
            min,
            p05: percentile(5.0),
            p10: percentile(10.0),
            p25: percentile(25.0),
            p50: percentile(50.0),
            entropy: self.entropy / count,
            margin: self.margin / count,
            tokens: sorted.len() as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_tokens() {
        let mut meter = ConfidenceMeter::default();
        assert_eq!(meter.result(), None);
        let distribution = Distribution::of(&[0.0, 0.0]).unwrap();
        for n in (1..=100).rev() {
            meter.add(-(n as f32), &distribution);
        }
        let c = meter.result().unwrap();
        assert_eq!((c.min, c.p05, c.p10, c.p25, c.p50, c.mean), (-100.0, -96.0, -91.0, -76.0, -51.0, -50.5));
        assert!((c.entropy - std::f64::consts::LN_2).abs() < 1e-6 && c.margin.abs() < 1e-6, "{c:?}");
        assert_eq!(c.tokens, 100);
    }
}
