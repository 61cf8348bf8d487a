//! The agent's figures under the names of vLLM's metrics: what endpoint pickers of inference gateways, autoscalers and
//! dashboards look for (docs/gateways.md). They stand beside Terrace's own, which say more.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use terrace_contract::load::Load;
use terrace_telemetry::Metrics;
use terrace_telemetry::metrics::{seconds, short_seconds};

use crate::engine::{Done, EngineStats, Usage};
use crate::model::BLOCK_TOKENS;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Finished {
    finished_reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Cache {
    block_size: u64,
    num_gpu_blocks: u64,
    enable_prefix_caching: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Adapters {
    max_lora: u32,
    running_lora_adapters: &'static str,
    waiting_lora_adapters: &'static str,
}

/// An agent serves one model and no adapters. It says so, since a picker takes the lack of this metric for an error and
/// then says nothing of the next one.
const NO_ADAPTERS: Adapters = Adapters { max_lora: 0, running_lora_adapters: "", waiting_lora_adapters: "" };

type Share = Gauge<f64, AtomicU64>;

/// vLLM's metrics, each with the labels `model_name` and `engine`.
pub(super) struct Vllm {
    running: Gauge,
    waiting: Gauge,
    kv_usage: Share,
    /// The name of [`Self::kv_usage`] until vLLM 0.10.
    gpu_usage: Share,
    prompt_tokens: Counter,
    generation_tokens: Counter,
    prefix_queries: Counter,
    prefix_hits: Counter,
    preemptions: Counter,
    success: Family<Finished, Counter>,
    first_token: Histogram,
    between_tokens: Histogram,
    /// The name of [`Self::between_tokens`] until vLLM 0.11.
    per_token: Histogram,
    mean_per_token: Histogram,
    whole: Histogram,
    queue: Histogram,
    prefill: Histogram,
    decode: Histogram,
}

impl Vllm {
    /// Registers them for a model, whose KV cache has so many blocks.
    pub(super) fn register(metrics: &Metrics, model: &str, blocks: u64) -> Self {
        let under = metrics.labelled(&[("model_name", model), ("engine", "0")]);
        let gauge = |name, help| under.register(name, help, Gauge::default());
        let share = |name| under.register(name, "KV cache in use, 1 is all of it", Share::default());
        let counter = |name, help| under.register(name, help, Counter::default());
        let long = |name, help| under.register(name, help, seconds());
        let short = |name, help| under.register(name, help, short_seconds());
        let cache: Family<Cache, Gauge> = Family::default();
        let facts = Cache { block_size: BLOCK_TOKENS as u64, num_gpu_blocks: blocks, enable_prefix_caching: "True" };
        cache.get_or_create(&facts).set(1);
        under.register("vllm:cache_config_info", "The KV cache", cache);
        let adapters: Family<Adapters, Gauge> = Family::default();
        // The protocol wants a time here: of several series the latest counts.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        adapters.get_or_create(&NO_ADAPTERS).set(now.as_secs().cast_signed());
        under.register("vllm:lora_requests_info", "LoRA adapters: none", adapters);
        Self {
            running: gauge("vllm:num_requests_running", "Sequences that run"),
            waiting: gauge("vllm:num_requests_waiting", "Sequences that wait"),
            kv_usage: share("vllm:kv_cache_usage_perc"),
            gpu_usage: share("vllm:gpu_cache_usage_perc"),
            prompt_tokens: counter("vllm:prompt_tokens", "Prompt tokens of answered requests"),
            generation_tokens: counter("vllm:generation_tokens", "Tokens of answers"),
            prefix_queries: counter("vllm:prefix_cache_queries", "Prompt tokens looked for in the KV cache"),
            prefix_hits: counter("vllm:prefix_cache_hits", "Of those, the ones found"),
            preemptions: counter("vllm:num_preemptions", "Sequences that gave their blocks back for a while"),
            success: under.register("vllm:request_success", "Answers by why they ended", Family::default()),
            first_token: long("vllm:time_to_first_token_seconds", "From a request's arrival to its first token"),
            between_tokens: short("vllm:inter_token_latency_seconds", "Between two tokens"),
            per_token: short("vllm:time_per_output_token_seconds", "Between two tokens"),
            mean_per_token: short("vllm:request_time_per_output_token_seconds", "Mean of an answer's tokens"),
            whole: long("vllm:e2e_request_latency_seconds", "From a request's arrival to its end"),
            queue: long("vllm:request_queue_time_seconds", "Waiting"),
            prefill: long("vllm:request_prefill_time_seconds", "From leaving the queue to the first token"),
            decode: long("vllm:request_decode_time_seconds", "From the first token to the last"),
        }
    }

    /// The gauges of now, and what the engine counts itself.
    pub(super) fn observe(&self, load: &Load, stats: EngineStats) {
        self.running.set(i64::from(load.running));
        self.waiting.set(i64::from(load.queued));
        let usage = load.kv_usage();
        self.kv_usage.set(usage);
        self.gpu_usage.set(usage);
        self.preemptions.inner().store(stats.preemptions, Relaxed);
    }

    pub(super) fn queued(&self, queued: Duration) {
        self.queue.observe(queued.as_secs_f64());
    }

    pub(super) fn first_token(&self, after: Duration) {
        self.first_token.observe(after.as_secs_f64());
    }

    /// Another token of a choice, so long after the last.
    pub(super) fn token(&self, gap: Duration) {
        self.between_tokens.observe(gap.as_secs_f64());
        self.per_token.observe(gap.as_secs_f64());
    }

    pub(super) fn choice(&self, done: &Done) {
        self.prefill.observe(done.timings.prefill.as_secs_f64());
        self.decode.observe(done.timings.decode.as_secs_f64());
        if done.usage.completion > 1 {
            let each = done.timings.decode.as_secs_f64() / f64::from(done.usage.completion - 1);
            self.mean_per_token.observe(each);
        }
        self.finished(done.finish_reason.as_str());
    }

    /// `stop`, `length`, or `abort`: the client went away.
    pub(super) fn finished(&self, finished_reason: &'static str) {
        self.success.get_or_create(&Finished { finished_reason }).inc();
    }

    pub(super) fn answered(&self, tokens: Usage, after: Duration) {
        self.prompt_tokens.inc_by(u64::from(tokens.prompt));
        self.generation_tokens.inc_by(u64::from(tokens.completion));
        self.prefix_queries.inc_by(u64::from(tokens.prompt));
        self.prefix_hits.inc_by(u64::from(tokens.cached));
        self.whole.observe(after.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use terrace_telemetry::metrics::{documented, shown};

    use super::*;

    /// Every metric that the model server protocol of the Gateway API Inference Extension names for vLLM.
    const PROTOCOL: [&str; 5] = [
        "vllm:num_requests_waiting",
        "vllm:num_requests_running",
        "vllm:kv_cache_usage_perc",
        "vllm:cache_config_info",
        "vllm:lora_requests_info",
    ];

    fn registered() -> (Metrics, Vllm) {
        let metrics = Metrics::new();
        let vllm = Vllm::register(&metrics, "small", 128);
        (metrics, vllm)
    }

    #[test]
    fn the_documentation_lists_every_metric_and_the_protocols_are_among_them() {
        let (metrics, vllm) = registered();
        vllm.finished("stop");
        let shown = shown(&metrics);
        assert_eq!(documented(include_str!("../../../docs/metrics.md"), "Agent, by vLLM's names"), shown);
        let protocol: BTreeSet<String> = PROTOCOL.map(str::to_owned).into();
        assert!(shown.is_superset(&protocol), "{shown:?}");
    }

    #[test]
    fn an_endpoint_picker_reads_what_it_expects() {
        let (metrics, vllm) = registered();
        let load = Load { running: 2, queued: 3, free_kv_blocks: 32, total_kv_blocks: 128, ..Load::default() };
        vllm.observe(&load, EngineStats { preemptions: 7, evictions: 0 });
        vllm.answered(Usage { prompt: 10, completion: 4, cached: 6 }, Duration::from_millis(300));
        vllm.finished("length");
        let text = metrics.plain_text();
        let labels = "model_name=\"small\",engine=\"0\"";
        for (line, kind) in [
            (format!("vllm:num_requests_running{{{labels}}} 2"), "gauge"),
            (format!("vllm:num_requests_waiting{{{labels}}} 3"), "gauge"),
            (format!("vllm:kv_cache_usage_perc{{{labels}}} 0.75"), "gauge"),
            (format!("vllm:gpu_cache_usage_perc{{{labels}}} 0.75"), "gauge"),
            (format!("vllm:num_preemptions_total{{{labels}}} 7"), "counter"),
            (format!("vllm:prompt_tokens_total{{{labels}}} 10"), "counter"),
            (format!("vllm:generation_tokens_total{{{labels}}} 4"), "counter"),
            (format!("vllm:prefix_cache_hits_total{{{labels}}} 6"), "counter"),
            (format!("vllm:e2e_request_latency_seconds_count{{{labels}}} 1"), "histogram"),
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
            let name = line.split('{').next().unwrap();
            let family = name.strip_suffix("_count").unwrap_or(name);
            assert!(text.contains(&format!("# TYPE {family} {kind}\n")), "{family} is no {kind} in\n{text}");
        }
        // One series with the value 1 whose labels are the facts, whatever their order.
        let info = text.lines().find(|l| l.starts_with("vllm:cache_config_info{")).unwrap();
        for part in [labels, "block_size=\"16\"", "num_gpu_blocks=\"128\"", "} 1"] {
            assert!(info.contains(part), "{part} is not in {info}");
        }
        // The same for adapters, with the time as its value.
        let lora = text.lines().find(|l| l.starts_with("vllm:lora_requests_info{")).unwrap();
        for part in [labels, "max_lora=\"0\"", "running_lora_adapters=\"\"", "waiting_lora_adapters=\"\""] {
            assert!(lora.contains(part), "{part} is not in {lora}");
        }
        assert!(lora.rsplit(' ').next().unwrap().parse::<u64>().unwrap() > 1_700_000_000, "{lora}");
        let success = text.lines().find(|l| l.starts_with("vllm:request_success_total{")).unwrap();
        assert!(success.contains("finished_reason=\"length\"") && success.ends_with(" 1"), "{success}");
    }
}
