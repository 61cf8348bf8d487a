//! Metrics as Prometheus text. No label has unbounded values: what is not in a closed set is `_other`.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::encoding::{EncodeLabelSet, prometheus_text, text};
use prometheus_client::metrics::exemplar::HistogramWithExemplars;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

/// The metrics of a program. Clones are the same.
#[derive(Clone)]
pub struct Metrics(Arc<Mutex<Registry>>);

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// None yet.
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(Registry::default())))
    }

    /// Registers a metric under its full name (see [`crate::names::metric`]) and gives it back. Counters get `_total`
    /// from the encoder. `help` ends without a full stop: the encoder adds it.
    pub fn register<M: Metric + Clone>(&self, name: &str, help: &str, metric: M) -> M {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).register(name, help, metric.clone());
        metric
    }

    /// For metrics that all have these labels.
    pub fn labelled(&self, labels: &[(&'static str, &str)]) -> Labelled {
        let labels = labels.iter().map(|(name, value)| (Cow::Borrowed(*name), Cow::Owned((*value).to_owned())));
        Labelled { metrics: self.clone(), labels: labels.collect() }
    }

    /// All of them, as OpenMetrics text: with exemplars.
    pub fn text(&self) -> String {
        let mut out = String::new();
        // Writing into a String cannot fail.
        let _ = text::encode(&mut out, &self.0.lock().unwrap_or_else(PoisonError::into_inner));
        out
    }

    /// All of them, as Prometheus text 0.0.4, for whoever does not ask for the other: it has no exemplars.
    pub fn plain_text(&self) -> String {
        let mut out = String::new();
        // Writing into a String cannot fail.
        let _ = prometheus_text::encode(&mut out, &self.0.lock().unwrap_or_else(PoisonError::into_inner));
        out
    }
}

/// Registers metrics that all have the same labels beside their own.
pub struct Labelled {
    metrics: Metrics,
    labels: Vec<(Cow<'static, str>, Cow<'static, str>)>,
}

impl Labelled {
    /// As [`Metrics::register`].
    pub fn register<M: Metric + Clone>(&self, name: &str, help: &str, metric: M) -> M {
        let mut registry = self.metrics.0.lock().unwrap_or_else(PoisonError::into_inner);
        registry.sub_registry_with_labels(self.labels.iter().cloned()).register(name, help, metric.clone());
        metric
    }
}

/// Names under which these metrics are shown, as docs/metrics.md lists them: counters with `_total`.
pub fn shown(metrics: &Metrics) -> BTreeSet<String> {
    let types = metrics.text();
    let types = types.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    types.map(|(name, kind)| format!("{name}{}", if kind == "counter" { "_total" } else { "" })).collect()
}

/// Names in the table of one section of docs/metrics.md: the first word in backticks of each row.
pub fn documented(text: &str, section: &str) -> BTreeSet<String> {
    let section = text.split("\n## ").find(|s| s.starts_with(&format!("{section}\n"))).unwrap_or_default();
    section.lines().filter_map(|line| Some(line.strip_prefix("| `")?.split('`').next()?.to_owned())).collect()
}

/// The trace of an exemplar: only of traces that are kept.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct TraceLabel {
    /// The trace's id, in hex.
    pub trace_id: String,
}

/// A histogram whose buckets each remember the trace of their last observation that has one.
pub type Traced = HistogramWithExemplars<TraceLabel>;

/// Observes `value` in a histogram with exemplars. `trace` is the id of a trace that is kept.
pub fn observe(histogram: &Traced, value: f64, trace: Option<&str>) {
    let at = trace.map(|_| std::time::SystemTime::now());
    histogram.observe(value, trace.map(|id| TraceLabel { trace_id: id.to_owned() }), at);
}

/// From 1 ms to 2 minutes.
const SECONDS: [f64; 16] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0];
/// From 10 µs to 1 s.
const SHORT: [f64; 16] =
    [0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0];

/// A histogram of seconds from 1 ms to 2 minutes, for first tokens and whole answers.
pub fn seconds() -> Histogram {
    Histogram::new(SECONDS)
}

/// The same with exemplars.
pub fn traced_seconds() -> Traced {
    Traced::new(SECONDS.into_iter())
}

/// A histogram of seconds from 10 µs to 1 s, for parts of a request's way and time per token.
pub fn short_seconds() -> Histogram {
    Histogram::new(SHORT)
}

/// The same with exemplars.
pub fn traced_short_seconds() -> Traced {
    Traced::new(SHORT.into_iter())
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::metrics::counter::Counter;

    #[test]
    fn a_metric_comes_out_under_its_own_name() {
        let metrics = Metrics::new();
        let requests = metrics.register("terrace_requests", "Requests", Counter::<u64>::default());
        requests.inc();
        metrics.register("gen_ai_server_time_to_first_token_seconds", "First token", seconds()).observe(0.2);
        let text = metrics.text();
        assert!(text.contains("terrace_requests_total 1\n"), "{text}");
        assert!(text.contains("gen_ai_server_time_to_first_token_seconds_bucket{le=\"0.25\"} 1\n"), "{text}");
    }

    #[test]
    fn exemplars_are_for_those_who_ask_for_openmetrics() {
        let metrics = Metrics::new();
        let histogram = metrics.register("first_token_seconds", "First token", traced_seconds());
        observe(&histogram, 0.2, None);
        observe(&histogram, 0.7, Some("0af7651916cd43dd8448eb211c80319c"));
        metrics.register("requests", "Requests", Counter::<u64>::default()).inc();
        let (text, plain) = (metrics.text(), metrics.plain_text());
        assert!(text.contains("first_token_seconds_bucket{le=\"0.25\"} 1\n"), "{text}");
        let exemplar =
            "first_token_seconds_bucket{le=\"1.0\"} 2 # {trace_id=\"0af7651916cd43dd8448eb211c80319c\"} 0.7 ";
        assert!(text.contains(exemplar), "{text}");
        assert!(plain.contains("# TYPE requests_total counter\nrequests_total 1\n"), "{plain}");
        assert!(plain.contains("first_token_seconds_bucket{le=\"1\"} 2\n") && !plain.contains("trace_id"), "{plain}");
    }
}
