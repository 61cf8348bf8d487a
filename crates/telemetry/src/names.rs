//! Names of spans, attributes and metrics: written once, so that a search finds every use.

/// Names of spans. `chat {model}` and `reconcile {kind}` are made with [`span::chat`] and [`span::reconcile`].
pub mod span {
    /// The router reads a request.
    pub const SENSE: &str = "sense";
    /// The router plans.
    pub const DECIDE: &str = "decide";
    /// One attempt at one place.
    pub const ATTEMPT: &str = "attempt";
    /// The agent reads the prompt.
    pub const PREFILL: &str = "prefill";
    /// The agent writes the answer.
    pub const DECODE: &str = "decode";

    /// A request, at the router or an agent. `model` is of the closed set, else `_other`.
    pub fn chat(model: &str) -> String {
        format!("chat {model}")
    }

    /// One pass of a controller.
    pub fn reconcile(kind: &str) -> String {
        format!("reconcile {kind}")
    }
}

/// Attributes of spans.
pub mod attribute {
    #![allow(missing_docs, reason = "OpenTelemetry's own names, and design/contracts.md's")]
    pub const OPERATION: &str = "gen_ai.operation.name";
    pub const REQUEST_MODEL: &str = "gen_ai.request.model";
    pub const RESPONSE_MODEL: &str = "gen_ai.response.model";
    pub const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
    pub const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
    pub const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
    pub const SERVER_ADDRESS: &str = "server.address";
    pub const SERVER_PORT: &str = "server.port";
    pub const STATUS_CODE: &str = "http.response.status_code";
    pub const ERROR_TYPE: &str = "error.type";

    pub const REQUEST_ID: &str = "terrace.request_id";
    pub const POLICY: &str = "terrace.policy";
    pub const FEATURE: &str = "terrace.feature";
    pub const CLASS: &str = "terrace.class";
    pub const TIER: &str = "terrace.tier";
    pub const DEVICE: &str = "terrace.device";
    pub const BOUNDARY: &str = "terrace.boundary";
    pub const REASONS: &str = "terrace.reasons";
    pub const RULED_OUT: &str = "terrace.ruled_out";
    pub const SCORES: &str = "terrace.scores";
    pub const DEGRADED: &str = "terrace.degraded";
    pub const COST_MICROS: &str = "terrace.cost_micros";
    pub const ATTEMPT: &str = "terrace.attempt";
    pub const DNS_US: &str = "terrace.dns_us";
    pub const CONNECT_US: &str = "terrace.connect_us";
    pub const TLS_US: &str = "terrace.tls_us";
    pub const TTFB_US: &str = "terrace.ttfb_us";
    pub const QUEUE_US: &str = "terrace.queue_us";
    /// Which call of its chain a request is, from 1.
    pub const HOP: &str = "terrace.hop";
    pub const TOKENS: &str = "terrace.tokens";
    pub const CACHED_TOKENS: &str = "terrace.cached_tokens";
    pub const BATCH_SIZE: &str = "terrace.batch_size";
    pub const TOKENS_PER_SECOND: &str = "terrace.tokens_per_second";
    pub const CHILDREN_APPLIED: &str = "terrace.children_applied";
    pub const OUTCOME: &str = "terrace.outcome";
    pub const K8S_NAMESPACE: &str = "k8s.namespace.name";
    pub const OBJECT: &str = "terrace.object";
}

/// Events of spans.
pub mod event {
    /// A connection stands.
    pub const CONNECTED: &str = "connected";
    /// The first token is there.
    pub const FIRST_TOKEN: &str = "first_token";
}

/// Metrics. Counters are registered without `_total`, which the encoder adds.
pub mod metric {
    /// Time to the first token, seconds (`gen_ai.server.time_to_first_token`).
    pub const TIME_TO_FIRST_TOKEN: &str = "gen_ai_server_time_to_first_token_seconds";
    /// Time between tokens, seconds (`gen_ai.server.time_per_output_token`).
    pub const TIME_PER_OUTPUT_TOKEN: &str = "gen_ai_server_time_per_output_token_seconds";
    /// Seconds until this program's certificate ends.
    pub const CERTIFICATE_EXPIRY: &str = "terrace_certificate_expiry_seconds";
    /// Requests by outcome.
    pub const REQUESTS: &str = "terrace_requests";
    /// Agent: sequences that run.
    pub const RUNNING: &str = "terrace_running_sequences";
    /// Agent: sequences that wait.
    pub const QUEUED: &str = "terrace_queued_sequences";
    /// Agent: prompt tokens processed.
    pub const PROMPT_TOKENS: &str = "terrace_prompt_tokens";
    /// Agent: tokens made.
    pub const OUTPUT_TOKENS: &str = "terrace_output_tokens";
    /// Agent: prompt tokens found in the KV cache.
    pub const CACHED_TOKENS: &str = "terrace_cached_prompt_tokens";
    /// Agent: blocks of the KV cache that can be had.
    pub const FREE_KV_BLOCKS: &str = "terrace_kv_blocks_free";
    /// Agent: blocks of the KV cache.
    pub const KV_BLOCKS: &str = "terrace_kv_blocks";
    /// Agent: sequences that gave their blocks back for a while.
    pub const PREEMPTIONS: &str = "terrace_preemptions";
    /// Agent: blocks forgotten to make room.
    pub const EVICTIONS: &str = "terrace_kv_evictions";
    /// Router: age of the snapshot in use, seconds.
    pub const SNAPSHOT_AGE: &str = "terrace_snapshot_age_seconds";
    /// Router: snapshots refused.
    pub const SNAPSHOTS_REFUSED: &str = "terrace_snapshots_refused";
    /// Router: egress records that could not be written.
    pub const LEDGER_FAILURES: &str = "terrace_ledger_failures";
}
