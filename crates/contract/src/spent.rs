//! What the routers of a policy spent on one day: it goes up with a report, comes back with its answer, and is what a router
//! keeps for a restart.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Spend is counted by the day (UTC): microseconds of one.
pub const DAY_US: u64 = 86_400_000_000;

/// Micro-units by router, on one day. A router's figure only grows, so that whoever holds two of these has the truth of
/// both in the larger of each (a grow-only counter: Shapiro et al., "Conflict-free Replicated Data Types", 2011): routers
/// that are gone are not forgotten while one that knew them lives, and neither is any when the operator starts anew.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Spent {
    /// Days since the Unix epoch (UTC).
    pub day: u64,
    /// Micro-units by UID of the router's pod.
    pub by_router: BTreeMap<String, u64>,
}

impl Spent {
    /// Takes in what another knows of the day that is `today`, and forgets every other day.
    pub fn merge(&mut self, other: &Self, today: u64) {
        if self.day != today {
            *self = Self { day: today, ..Self::default() };
        }
        if other.day == today {
            for (router, micros) in &other.by_router {
                let known = self.by_router.entry(router.clone()).or_default();
                *known = (*known).max(*micros);
            }
        }
    }

    /// What all of them spent.
    pub fn total(&self) -> u64 {
        self.by_router.values().fold(0, |sum, micros| sum.saturating_add(*micros))
    }
}

/// Answer to a report.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Taken {
    /// What the routers of the policy have spent, the reporting one among them, as far as the operator knows.
    pub spent: Spent,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent(day: u64, of: &[(&str, u64)]) -> Spent {
        Spent { day, by_router: of.iter().map(|(router, micros)| ((*router).to_owned(), *micros)).collect() }
    }

    #[test]
    fn the_larger_figure_of_each_router_is_the_truth_in_any_order() {
        let (a, b) = (spent(9, &[("x", 5), ("y", 1)]), spent(9, &[("y", 4), ("gone", 2)]));
        let merged = |first: &Spent, second: &Spent| {
            let mut sum = Spent::default();
            [first, second, first].iter().for_each(|s| sum.merge(s, 9));
            sum
        };
        assert_eq!(merged(&a, &b), merged(&b, &a));
        assert_eq!(merged(&a, &b).total(), 11);
    }

    #[test]
    fn another_day_says_nothing_of_this_one() {
        let mut today = spent(9, &[("x", 5)]);
        today.merge(&spent(8, &[("x", 50)]), 9);
        today.merge(&spent(10, &[("x", 50)]), 9);
        assert_eq!(today.total(), 5);
        today.merge(&spent(9, &[("x", 50)]), 10);
        assert_eq!((today.day, today.total()), (10, 0));
    }
}
