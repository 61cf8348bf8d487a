//! Real figures beside simulated ones, and whether they agree.

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::{Value, json};
use terrace_decide::select::Selection;
use terrace_simulate::Outcome;
use terrace_simulate::trace::Arrival;

/// How far a real ratio may be from the simulated one, as a part of it.
const WITHIN: f64 = 0.15;

/// One strategy on real processes. Shares are percent of all requests.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Real {
    /// Requests.
    pub requests: usize,
    /// Answered by the farther tier.
    pub overflow_percent: f64,
    /// Past the budget, or cut off by it.
    pub late_percent: f64,
    /// Not answered for another reason.
    pub refused_percent: f64,
    /// Time to the first token, milliseconds: median and 95th percentile.
    pub first_token_ms: (f64, f64),
    /// Time to the end.
    pub total_ms: (f64, f64),
    /// What was left of the machine's processors: with little left it is they that are measured.
    pub idle_percent: f64,
}

/// One strategy, both ways.
pub struct Compared {
    /// Which.
    pub selection: Selection,
    /// By seed.
    pub simulated: Vec<Outcome>,
    /// On real processes.
    pub real: Real,
}

impl Compared {
    fn mean(&self, value: impl Fn(&Outcome) -> f64) -> f64 {
        self.simulated.iter().map(value).sum::<f64>() / self.simulated.len().max(1) as f64
    }

    fn overflow(&self) -> f64 {
        self.mean(|outcome| outcome.overflow_percent)
    }

    /// Both, in a line.
    pub fn line(&self) -> String {
        let Real { overflow_percent, late_percent, refused_percent, first_token_ms, total_ms, idle_percent, .. } =
            &self.real;
        format!(
            "{:<27} real: overflow {overflow_percent:5.2} late {late_percent:5.2} refused {refused_percent:5.2} first token {:5.0} {:5.0} total {:5.0} {:5.0} idle {idle_percent:3.0}; simulated: overflow {:5.2} late {:5.2} refused {:5.2} first token {:5.0} {:5.0} total {:5.0} {:5.0} busy {:3.0}",
            self.selection.name(),
            first_token_ms.0,
            first_token_ms.1,
            total_ms.0,
            total_ms.1,
            self.overflow(),
            self.mean(|o| o.late_percent),
            self.mean(|o| o.refused_percent),
            self.mean(|o| o.first_token_ms.p50),
            self.mean(|o| o.first_token_ms.p95),
            self.mean(|o| o.total_ms.p50),
            self.mean(|o| o.total_ms.p95),
            self.mean(|o| o.busy_percent),
        )
    }
}

/// A strategy's overflow over round robin's.
struct Ratio {
    real: f64,
    simulated: f64,
}

/// Whether they agree.
pub struct Verdict<'a> {
    compared: &'a [Compared],
    ratios: Vec<Ratio>,
    real_order: Vec<&'static str>,
    simulated_order: Vec<&'static str>,
}

/// Compares.
///
/// # Errors
/// Round robin is not among them, or overflows nothing.
pub fn verdict(compared: &[Compared]) -> Result<Verdict<'_>> {
    let base = compared.iter().find(|one| one.selection == Selection::RoundRobin);
    let base = base.context("RoundRobin must be among the strategies: the others are held against it")?;
    let over = |value: f64, of: f64| if of > 0.0 { value / of } else { 0.0 };
    let ratio = |one: &Compared| Ratio {
        real: over(one.real.overflow_percent, base.real.overflow_percent),
        simulated: over(one.overflow(), base.overflow()),
    };
    let order = |value: fn(&Compared) -> f64| {
        let mut sorted: Vec<&Compared> = compared.iter().collect();
        sorted.sort_by(|a, b| value(a).total_cmp(&value(b)));
        sorted.iter().map(|one| one.selection.name()).collect()
    };
    Ok(Verdict {
        compared,
        ratios: compared.iter().map(ratio).collect(),
        real_order: order(|one| one.real.overflow_percent),
        simulated_order: order(Compared::overflow),
    })
}

impl Ratio {
    fn is_near(&self) -> bool {
        self.simulated > 0.0 && (self.real / self.simulated - 1.0).abs() <= WITHIN
    }
}

impl Verdict<'_> {
    /// Same order, and each ratio near what is simulated.
    pub fn confirmed(&self) -> bool {
        self.real_order == self.simulated_order && self.ratios.iter().all(Ratio::is_near)
    }

    /// A line a strategy, and the verdict.
    pub fn table(&self) -> String {
        let lines = self.compared.iter().zip(&self.ratios).map(|(one, ratio)| {
            let near = if ratio.is_near() { "within 15 %" } else { "NOT within 15 %" };
            format!(
                "{:<27} overflow, percent: real {:5.2}, simulated {:5.2}; over round robin's: real {:.3}, simulated {:.3}: {near}",
                one.selection.name(),
                one.real.overflow_percent,
                one.overflow(),
                ratio.real,
                ratio.simulated,
            )
        });
        let order = format!(
            "least overflow first: real {}; simulated {}",
            self.real_order.join(", "),
            self.simulated_order.join(", ")
        );
        let verdict = if self.confirmed() { "confirmed" } else { "NOT CONFIRMED" };
        lines.chain([order, verdict.to_owned()]).collect::<Vec<_>>().join("\n")
    }

    /// As docs/testing.md's benches write their figures.
    pub fn document(&self, arrivals: &[Arrival], load: f64, seconds: f64) -> Value {
        let figures = self.compared.iter().zip(&self.ratios).map(|(one, ratio)| {
            let simulated: Vec<f64> = one.simulated.iter().map(|o| o.overflow_percent).collect();
            json!({
                "name": format!("overflow over round robin's, {}: real processes against the simulation", one.selection.name()),
                "ours": ratio.real, "peer": ratio.simulated,
                "ratio": if ratio.simulated > 0.0 { ratio.real / ratio.simulated } else { 0.0 },
                "goal": 1.0 + WITHIN, "met": ratio.is_near(),
                "samples": {"ours": [one.real.overflow_percent], "peer": simulated},
                "command": "make confirm-selection",
            })
        });
        let runs = self
            .compared
            .iter()
            .map(|one| json!({"strategy": one.selection.name(), "real": one.real, "simulated": one.simulated}));
        json!({
            "bench": "confirm-selection", "requests": arrivals.len(), "load": load, "seconds": seconds,
            "order": {"ours": self.real_order, "peer": self.simulated_order}, "confirmed": self.confirmed(),
            "figures": figures.collect::<Vec<_>>(), "runs": runs.collect::<Vec<_>>(),
            "machine": format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        })
    }
}
