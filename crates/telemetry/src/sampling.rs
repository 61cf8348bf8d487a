//! Which of the traces that begin here are kept. A caller's decision goes before.

use opentelemetry::trace::{Link, SpanKind, TraceId};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{Sampler, SamplingDecision, SamplingResult, ShouldSample};

/// The share of traces that is kept.
#[derive(Debug, Clone, Copy)]
pub struct Sampling(u8);

impl Sampling {
    /// Keeps this share.
    pub fn percent(percent: u8) -> Self {
        Self(percent.min(100))
    }

    /// Whether a trace that begins here is kept: the same for the same id.
    pub fn keeps(self, trace: impl Into<TraceId>) -> bool {
        let sampled = self.should_sample(None, trace.into(), "", &SpanKind::Server, &[], &[]);
        sampled.decision == SamplingDecision::RecordAndSample
    }
}

impl ShouldSample for Sampling {
    fn should_sample(
        &self,
        parent: Option<&Context>,
        trace_id: TraceId,
        name: &str,
        kind: &SpanKind,
        attributes: &[KeyValue],
        links: &[Link],
    ) -> SamplingResult {
        let share = f64::from(self.0) / 100.0;
        Sampler::TraceIdRatioBased(share).should_sample(parent, trace_id, name, kind, attributes, links)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_kept_and_the_same_ids_each_time() {
        let ids =
            || (0..1000u128).map(|i| i << 96 | i << 40 | i.wrapping_mul(0x9E37_79B9_7F4A_7C15) & u128::from(u64::MAX));
        let kept = |percent| ids().filter(|id| Sampling::percent(percent).keeps(*id)).collect::<Vec<_>>();
        assert_eq!((kept(0).len(), kept(100).len(), kept(255).len()), (0, 1000, 1000));
        assert!((350..650).contains(&kept(50).len()), "{}", kept(50).len());
        assert_eq!(kept(50), kept(50));
    }
}
