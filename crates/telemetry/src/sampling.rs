//! Which traces are kept. The share is an atomic, since a policy changes it while the router runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use opentelemetry::trace::{Link, SpanKind, TraceId};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{Sampler, SamplingResult, ShouldSample};

/// The share of traces that is kept, seen by all clones.
#[derive(Debug, Clone)]
pub struct Sampling(Arc<AtomicU8>);

impl Sampling {
    /// Keeps this share.
    pub fn percent(percent: u8) -> Self {
        Self(Arc::new(AtomicU8::new(percent.min(100))))
    }

    /// Changes the share for traces that begin from now on.
    pub fn set_percent(&self, percent: u8) {
        self.0.store(percent.min(100), Ordering::Relaxed);
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
        let share = f64::from(self.0.load(Ordering::Relaxed)) / 100.0;
        Sampler::TraceIdRatioBased(share).should_sample(parent, trace_id, name, kind, attributes, links)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry_sdk::trace::SamplingDecision;

    #[test]
    fn the_share_changes_while_it_is_used() {
        let sampling = Sampling::percent(0);
        let kept = |sampling: &Sampling| {
            (0..1000u128)
                .map(|i| {
                    TraceId::from(i << 96 | i << 40 | i.wrapping_mul(0x9E37_79B9_7F4A_7C15) & 0xFFFF_FFFF_FFFF_FFFF)
                })
                .filter(|id| {
                    sampling.should_sample(None, *id, "", &SpanKind::Server, &[], &[]).decision
                        == SamplingDecision::RecordAndSample
                })
                .count()
        };
        assert_eq!(kept(&sampling), 0);
        sampling.set_percent(100);
        assert_eq!(kept(&sampling), 1000);
        sampling.set_percent(50);
        assert!((350..650).contains(&kept(&sampling)), "{}", kept(&sampling));
    }
}
