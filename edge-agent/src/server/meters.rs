//! The agent's metrics.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use terrace_contract::load::Load;
use terrace_telemetry::Metrics;
use terrace_telemetry::metrics::{Traced, observe, traced_seconds, traced_short_seconds};
use terrace_telemetry::names::metric;

use super::vllm::Vllm;
use crate::engine::{Done, EngineStats, Usage};

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Answered.
    Answered,
    /// The caller's own mistake.
    Invalid,
    /// No room, no time, or draining: said at once.
    Refused,
    /// Broke off on this side.
    Failed,
    /// The caller went away.
    Cancelled,
}

impl Outcome {
    /// The label's value.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Outcome::Answered => "answered",
            Outcome::Invalid => "invalid",
            Outcome::Refused => "refused",
            Outcome::Failed => "failed",
            Outcome::Cancelled => "cancelled",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByOutcome {
    outcome: &'static str,
}

/// The agent's metrics. Clones are the same.
#[derive(Clone)]
pub struct Meters {
    first_token: Traced,
    per_token: Traced,
    requests: Family<ByOutcome, Counter>,
    prompt_tokens: Counter,
    output_tokens: Counter,
    cached_tokens: Counter,
    running: Gauge,
    queued: Gauge,
    free_kv_blocks: Gauge,
    kv_blocks: Gauge,
    preemptions: Counter,
    evictions: Counter,
    certificate: Gauge,
    /// The same by vLLM's names, once the model is there.
    vllm: Arc<OnceLock<Vllm>>,
}

impl Meters {
    /// Registers them.
    pub fn new(metrics: &Metrics) -> Self {
        let gauge = |name, help| metrics.register(name, help, Gauge::default());
        let counter = |name, help| metrics.register(name, help, Counter::default());
        Self {
            first_token: metrics.register(
                metric::TIME_TO_FIRST_TOKEN,
                "From a request's arrival to its first token",
                traced_seconds(),
            ),
            per_token: metrics.register(
                metric::TIME_PER_OUTPUT_TOKEN,
                "Between two tokens of an answer",
                traced_short_seconds(),
            ),
            requests: metrics.register(metric::REQUESTS, "Requests by outcome", Family::default()),
            prompt_tokens: counter(metric::PROMPT_TOKENS, "Prompt tokens of answered requests"),
            output_tokens: counter(metric::OUTPUT_TOKENS, "Tokens of answers"),
            cached_tokens: counter(metric::CACHED_TOKENS, "Prompt tokens that were found in the KV cache"),
            running: gauge(metric::RUNNING, "Sequences that run"),
            queued: gauge(metric::QUEUED, "Sequences that wait"),
            free_kv_blocks: gauge(metric::FREE_KV_BLOCKS, "Blocks of the KV cache that can be had"),
            kv_blocks: gauge(metric::KV_BLOCKS, "Blocks of the KV cache"),
            preemptions: counter(metric::PREEMPTIONS, "Sequences that had to give their blocks back for a while"),
            evictions: counter(metric::EVICTIONS, "Blocks whose content was forgotten to make room"),
            certificate: gauge(metric::CERTIFICATE_EXPIRY, "Seconds until the certificate ends"),
            vllm: Arc::default(),
        }
    }

    /// The model is there: from now on the figures are shown by vLLM's names too.
    pub fn loaded(&self, metrics: &Metrics, model: &str, kv_blocks: u64) {
        self.vllm.get_or_init(|| Vllm::register(metrics, model, kv_blocks));
    }

    fn by_vllms_names(&self, write: impl FnOnce(&Vllm)) {
        if let Some(vllm) = self.vllm.get() {
            write(vllm);
        }
    }

    /// Writes the gauges of now, and what the engine counts itself.
    pub fn observe(&self, load: &Load, stats: EngineStats, certificate_left: Option<Duration>) {
        self.running.set(i64::from(load.running));
        self.queued.set(i64::from(load.queued));
        self.free_kv_blocks.set(load.free_kv_blocks.cast_signed());
        self.kv_blocks.set(load.total_kv_blocks.cast_signed());
        self.preemptions.inner().store(stats.preemptions, Relaxed);
        self.evictions.inner().store(stats.evictions, Relaxed);
        if let Some(left) = certificate_left {
            self.certificate.set(i64::try_from(left.as_secs()).unwrap_or(i64::MAX));
        }
        self.by_vllms_names(|vllm| vllm.observe(load, stats));
    }

    pub(super) fn ended(&self, outcome: Outcome) {
        self.requests.get_or_create(&ByOutcome { outcome: outcome.as_str() }).inc();
        if outcome == Outcome::Cancelled {
            self.by_vllms_names(|vllm| vllm.finished("abort"));
        }
    }

    pub(super) fn queued(&self, queued: Duration) {
        self.by_vllms_names(|vllm| vllm.queued(queued));
    }

    /// The first token of a request; `trace` is the id of its trace if that is kept.
    pub(super) fn first_token(&self, after: Duration, trace: Option<&str>) {
        observe(&self.first_token, after.as_secs_f64(), trace);
        self.by_vllms_names(|vllm| vllm.first_token(after));
    }

    /// Another token of a choice, so long after the last one.
    pub(super) fn token(&self, gap: Duration) {
        self.by_vllms_names(|vllm| vllm.token(gap));
    }

    /// A whole request, so long after it came.
    pub(super) fn answered(&self, tokens: Usage, after: Duration) {
        self.prompt_tokens.inc_by(u64::from(tokens.prompt));
        self.output_tokens.inc_by(u64::from(tokens.completion));
        self.cached_tokens.inc_by(u64::from(tokens.cached));
        self.by_vllms_names(|vllm| vllm.answered(tokens, after));
    }

    /// One of its choices.
    pub(super) fn choice(&self, done: &Done, trace: Option<&str>) {
        if done.usage.completion > 1 {
            let each = done.timings.decode.as_secs_f64() / f64::from(done.usage.completion - 1);
            observe(&self.per_token, each, trace);
        }
        self.by_vllms_names(|vllm| vllm.choice(done));
    }
}

#[cfg(test)]
mod tests {
    use terrace_telemetry::metrics::{documented, shown};

    use super::*;

    #[test]
    fn the_documentation_lists_every_metric() {
        let metrics = Metrics::new();
        Meters::new(&metrics).ended(Outcome::Answered);
        let listed = documented(include_str!("../../../docs/metrics.md"), "Agent");
        assert_eq!(listed, shown(&metrics));
    }
}
