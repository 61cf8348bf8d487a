//! What happened over all seeds: a simulation in which nothing goes wrong, or nothing is answered, shows nothing.

use std::collections::BTreeMap;

use crate::client::End;
use crate::world::Left;

/// How often each thing happened.
#[derive(Debug, Default, Clone)]
pub struct Tally(BTreeMap<String, u64>);

/// What must be among enough seeds.
const EXPECTED: [&str; 47] = [
    "end answered",
    "end broke",
    "end cut",
    "end hung_up",
    "end no_connection",
    "end boundary_denied",
    "end budget_exceeded",
    "end model_not_found",
    "end overloaded",
    "end permitted_tiers_unavailable",
    "end upstream_failed",
    "tier edge",
    "tier node",
    "tier cloud",
    "reason nearest",
    "reason retried",
    "reason degraded",
    "reason overflow_down",
    "reason overflow_saturated",
    "reason overflow_predicted",
    "reason queued",
    "reason chain_hops",
    "reason chain_time",
    "act Answer",
    "act Status(429",
    "act Status(500",
    "act Status(503",
    "act Stall",
    "act StallMidway",
    "act Cut",
    "act CutMidway",
    "act CutAtTheEnd",
    "act Nonsense",
    "act ErrorMidway",
    "fault Crash",
    "fault Partition",
    "fault PartitionTo",
    "fault PartitionFrom",
    "fault Hold",
    "fault Latency",
    "fault Drain",
    "fault Snapshot(Narrow",
    "fault Snapshot(Remove",
    "fault Snapshot(Forged",
    "fault Snapshot(Older",
    "fault Snapshot(OtherPolicy",
    "fault Snapshot(Garbage",
];

impl Tally {
    pub fn of(left: &Left) -> Self {
        let mut tally = Self::default();
        for fate in &left.fates {
            let end = match &fate.end {
                End::Answered { .. } => "answered",
                End::Refused { code, .. } => code,
                End::Broke { .. } => "broke",
                End::Strange(_) => "strange",
                End::NoConnection => "no_connection",
                End::Cut { .. } => "cut",
                End::HungUp => "hung_up",
                End::Lost => "lost",
            };
            tally.count(format!("end {end}"));
            if matches!(fate.end, End::Answered { .. }) {
                tally.count(format!("tier {}", fate.tier));
            }
            fate.reasons.split(',').filter(|r| !r.is_empty()).for_each(|r| tally.count(format!("reason {r}")));
        }
        for line in left.log.lines() {
            if let Some((_, act)) = line.split_once(" got ").and_then(|(_, rest)| rest.split_once(": ")) {
                tally.count(format!("act {}", act.split(',').next().unwrap_or(act)));
            } else if let Some((_, fault)) = line.split_once("fault: ") {
                let end = fault.rfind(['(', ')']).unwrap_or(fault.len());
                let name =
                    if fault.starts_with("Snapshot") { &fault[..end] } else { &fault[..fault.find('(').unwrap()] };
                tally.count(format!("fault {name}"));
            }
        }
        tally
    }

    fn count(&mut self, what: String) {
        *self.0.entry(what).or_default() += 1;
    }

    pub fn add(&mut self, other: &Self) {
        for (what, times) in &other.0 {
            *self.0.entry(what.clone()).or_default() += times;
        }
    }

    /// What should have happened and never did.
    pub fn missing(&self) -> Vec<&'static str> {
        let there = |expected: &str| self.0.keys().any(|what| what.starts_with(expected));
        EXPECTED.into_iter().filter(|expected| !there(expected)).collect()
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|(what, times)| writeln!(f, "{times:>9} {what}"))
    }
}
