//! Metrics as Prometheus text. No label has unbounded values: what is not in a closed set is `_other`.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::encoding::text::encode;
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

    /// All of them, as OpenMetrics text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing into a String cannot fail.
        let _ = encode(&mut text, &self.0.lock().unwrap_or_else(PoisonError::into_inner));
        text
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

/// A histogram of seconds from 1 ms to about 2 minutes, for first tokens and whole answers.
pub fn seconds() -> Histogram {
    Histogram::new([0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0])
}

/// A histogram of seconds from 10 µs to 1 s, for parts of a request's way and time per token.
pub fn short_seconds() -> Histogram {
    Histogram::new([
        0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
        1.0,
    ])
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
}
