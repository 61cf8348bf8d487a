//! What the operator counts.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use crate::kinds::Kind;

/// Labels of a reconciliation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Pass {
    kind: &'static str,
    outcome: &'static str,
}

/// The operator's metrics.
#[derive(Debug, Clone)]
pub struct Metrics {
    passes: Family<Pass, Counter>,
    children: Counter,
    statuses: Counter,
    leader: Gauge,
}

impl Metrics {
    /// Registers them.
    pub fn new(registry: &terrace_telemetry::Metrics) -> Self {
        Self {
            passes: registry.register("terrace_reconciles", "Reconciliations by kind and outcome", Family::default()),
            children: registry.register("terrace_children_written", "Children written or deleted", Counter::default()),
            statuses: registry.register("terrace_statuses_written", "Statuses written", Counter::default()),
            leader: registry.register("terrace_leader", "1: this replica writes", Gauge::default()),
        }
    }

    /// One pass.
    pub fn reconciled(&self, kind: Kind, outcome: &'static str) {
        self.passes.get_or_create(&Pass { kind: kind.name(), outcome }).inc();
    }

    /// Children that were written or deleted.
    pub fn children_written(&self, count: usize) {
        self.children.inc_by(u64::try_from(count).unwrap_or(0));
    }

    /// Whether a status was written.
    pub fn status_written(&self, wrote: bool) {
        self.statuses.inc_by(u64::from(wrote));
    }

    /// Whether this replica writes.
    pub fn leads(&self, mine: bool) {
        self.leader.set(i64::from(mine));
    }
}

#[cfg(test)]
mod tests {
    use terrace_telemetry::metrics::{documented, shown};

    use super::*;

    #[test]
    fn the_documentation_lists_every_metric() {
        let registry = terrace_telemetry::Metrics::new();
        Metrics::new(&registry).reconciled(Kind::Tier, "applied");
        assert_eq!(documented(include_str!("../../docs/metrics.md"), "Operator"), shown(&registry));
    }
}
