//! The router's metrics, on the admin port. Labels are tiers of the snapshot, classes and outcomes: closed sets.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use terrace_telemetry::Metrics;
use terrace_telemetry::metrics::{Traced, seconds, short_seconds, traced_seconds, traced_short_seconds};
use terrace_telemetry::names::metric;

/// A tier of the snapshot, by name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct TierLabel {
    /// Its name.
    pub tier: String,
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RequestLabels {
    /// The tier that answered; empty: none did.
    pub tier: String,
    /// The request's class.
    pub class: &'static str,
    /// What became of it.
    pub outcome: &'static str,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct AttemptLabels {
    /// The tier.
    pub tier: String,
    /// `ok`, or the kind of its failure.
    pub outcome: &'static str,
}

/// How a stay in the queue ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct QueueLabels {
    /// `sent`, `late`, `full` or `cancelled`.
    pub outcome: &'static str,
}

/// How a second attempt ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct HedgeLabels {
    /// The tier that it went to.
    pub tier: String,
    /// `won`, `lost` or `failed`.
    pub outcome: &'static str,
}

/// Tokens of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct TokenLabels {
    /// The tier.
    pub tier: String,
    /// `input` or `output`.
    pub kind: &'static str,
}

type Histograms = Family<TierLabel, Traced, fn() -> Traced>;

/// The router's metrics.
#[derive(Debug, Clone)]
pub struct RouterMetrics {
    /// Requests by tier, class and outcome.
    pub requests: Family<RequestLabels, Counter>,
    /// Attempts by tier and outcome.
    pub attempts: Family<AttemptLabels, Counter>,
    /// Tokens by tier and kind.
    pub tokens: Family<TokenLabels, Counter>,
    /// Micro-units by tier.
    pub cost_micros: Family<TierLabel, Counter>,
    /// Time to the first token by tier.
    pub first_token: Histograms,
    /// Time between tokens by tier.
    pub per_output_token: Histograms,
    /// Time that was not the model, by tier.
    pub transport: Histograms,
    /// Time that sense and decide took together.
    pub deciding: Histogram,
    /// Requests in flight.
    pub in_flight: Gauge,
    /// Requests that wait for room.
    pub queued: Gauge,
    /// How long they waited, by how it ended.
    pub queue_wait: Family<QueueLabels, Histogram, fn() -> Histogram>,
    /// Second attempts by tier and outcome.
    pub hedges: Family<HedgeLabels, Counter>,
    /// Age of the snapshot in use.
    pub snapshot_age: Gauge<f64, AtomicU64>,
    /// Snapshots refused.
    pub snapshots_refused: Counter,
    /// Seconds until the certificate ends.
    pub certificate_expiry: Gauge<f64, AtomicU64>,
    /// Seconds until the certificate that clients see ends.
    pub listener_certificate_expiry: Gauge<f64, AtomicU64>,
    /// Egress records that could not be written.
    pub ledger_failures: Counter,
}

impl RouterMetrics {
    /// Registers them.
    pub fn register(metrics: &Metrics) -> Self {
        let long: fn() -> Traced = traced_seconds;
        let short: fn() -> Traced = traced_short_seconds;
        Self {
            requests: metrics.register(metric::REQUESTS, "Requests by tier, class and outcome", Family::default()),
            attempts: metrics.register("terrace_attempts", "Attempts by tier and outcome", Family::default()),
            tokens: metrics.register("terrace_tokens", "Tokens by tier and kind", Family::default()),
            cost_micros: metrics.register(
                "terrace_cost_micros",
                "Cost by tier, millionths of its currency",
                Family::default(),
            ),
            first_token: metrics.register(
                metric::TIME_TO_FIRST_TOKEN,
                "Time to the first token",
                Family::new_with_constructor(long),
            ),
            per_output_token: metrics.register(
                metric::TIME_PER_OUTPUT_TOKEN,
                "Time between output tokens",
                Family::new_with_constructor(short),
            ),
            transport: metrics.register(
                "terrace_transport_seconds",
                "DNS, connect and TLS of a request",
                Family::new_with_constructor(short),
            ),
            deciding: metrics.register(
                "terrace_deciding_seconds",
                "Time of sense and decide together",
                short_seconds(),
            ),
            in_flight: metrics.register("terrace_requests_in_flight", "Requests in flight", Gauge::default()),
            queued: metrics.register("terrace_queued_requests", "Requests that wait for room", Gauge::default()),
            queue_wait: metrics.register(
                "terrace_queue_wait_seconds",
                "Time that requests waited for room",
                Family::new_with_constructor(seconds as fn() -> Histogram),
            ),
            hedges: metrics.register("terrace_hedges", "Second attempts by tier and outcome", Family::default()),
            snapshot_age: metrics.register(metric::SNAPSHOT_AGE, "Age of the snapshot in use", Gauge::default()),
            snapshots_refused: metrics.register(metric::SNAPSHOTS_REFUSED, "Snapshots refused", Counter::default()),
            certificate_expiry: metrics.register(
                metric::CERTIFICATE_EXPIRY,
                "Time until this router's certificate ends",
                Gauge::default(),
            ),
            listener_certificate_expiry: metrics.register(
                "terrace_listener_certificate_expiry_seconds",
                "Time until the certificate that clients see ends",
                Gauge::default(),
            ),
            ledger_failures: metrics.register(
                metric::LEDGER_FAILURES,
                "Egress records that could not be written",
                Counter::default(),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use terrace_telemetry::metrics::{documented, shown};

    use super::*;

    #[test]
    fn the_docs_list_what_is_registered() {
        let metrics = Metrics::new();
        let router = RouterMetrics::register(&metrics);
        // A family shows itself once it has a member.
        let tier = || TierLabel { tier: "t".into() };
        drop(router.requests.get_or_create(&RequestLabels { tier: "t".into(), class: "c", outcome: "o" }));
        drop(router.attempts.get_or_create(&AttemptLabels { tier: "t".into(), outcome: "o" }));
        drop(router.tokens.get_or_create(&TokenLabels { tier: "t".into(), kind: "k" }));
        drop(router.cost_micros.get_or_create(&tier()));
        drop(router.queue_wait.get_or_create(&QueueLabels { outcome: "o" }));
        drop(router.hedges.get_or_create(&HedgeLabels { tier: "t".into(), outcome: "o" }));
        for family in [&router.first_token, &router.per_output_token, &router.transport] {
            drop(family.get_or_create(&tier()));
        }
        let listed = documented(include_str!("../../docs/metrics.md"), "Router");
        assert_eq!(listed, shown(&metrics));
    }
}
