//! A call as one of a chain: an agent's session whose calls share one budget of calls and of time.
//!
//! The chain's clock runs from its first call on, so that it counts every part of each: the wire from the client, name
//! resolution, connecting, waiting, the model, and what the agent does in between. A call's own deadline is the smaller of
//! its budget and what the chain has left.
//!
//! Most calls of a chain are short and structured (which tool, with what arguments; yes or no; a few fields). What they
//! cost is the way there and back, once for each call that is still to come, and not the model: so the latency part of
//! the score measures each tier against this call's share of the time that is left ([`Hop::share_us`]), and for a short
//! structured call more quality than enough is worth nothing ([`Hop::is_step`]).

use serde::{Deserialize, Serialize};
use terrace_contract::policy::{Budget, Chain};

/// An answer that most likely stays under so many tokens is short.
pub const SHORT_TOKENS: u32 = 256;

/// Where a call stands in its chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hop {
    /// Which call of the chain it is, from 1.
    pub number: u32,
    /// Calls that the chain may make.
    pub max_hops: u32,
    /// Time that the chain has left, microseconds from the decision on.
    pub left_us: u64,
    /// Time that the whole chain has, microseconds.
    pub total_us: u64,
    /// Name resolution, connecting and TLS of the chain's earlier calls, microseconds.
    pub transport_us: u64,
    /// Whether it asks for something with a form: a tool's call, JSON, or what follows a tool's result.
    pub structured: bool,
}

/// What of a chain is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Spent {
    /// Its calls.
    Hops,
    /// Its time.
    Time,
}

impl Hop {
    /// Call `number` of a chain that began `elapsed_us` ago.
    pub fn of(chain: &Chain, number: u32, elapsed_us: u64, transport_us: u64) -> Self {
        Self {
            number,
            max_hops: chain.max_hops,
            left_us: chain.total_us.saturating_sub(elapsed_us),
            total_us: chain.total_us,
            transport_us,
            structured: false,
        }
    }

    /// The first call of a chain; none: the budget has no chain.
    pub fn first(budget: &Budget) -> Option<Self> {
        budget.chain.as_ref().map(|chain| Self::of(chain, 1, 0, 0))
    }

    /// What is used up, if anything is: then the budget's `onMiss` says what becomes of the call.
    pub fn spent(&self) -> Option<Spent> {
        if self.number > self.max_hops {
            Some(Spent::Hops)
        } else if self.left_us == 0 {
            Some(Spent::Time)
        } else {
            None
        }
    }

    /// This call's share of the time that the chain has left, were it to make all of its calls.
    pub fn share_us(&self) -> u64 {
        let to_come = self.max_hops.saturating_sub(self.number) + 1;
        self.left_us / u64::from(to_come)
    }

    /// Whether it is a short structured call, its answer most likely so many tokens long.
    pub fn is_step(&self, likely_output_tokens: u32) -> bool {
        self.structured && likely_output_tokens <= SHORT_TOKENS
    }

    /// The same call this much later.
    #[must_use]
    pub fn later(self, us: u64) -> Self {
        Self { left_us: self.left_us.saturating_sub(us), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHAIN: Chain = Chain { max_hops: 12, total_us: 6_000_000 };

    #[test]
    fn a_chain_is_used_up_by_its_calls_or_by_its_time() {
        let hop = |number, elapsed| Hop::of(&CHAIN, number, elapsed, 0);
        assert_eq!(hop(12, 5_999_999).spent(), None);
        assert_eq!(hop(13, 0).spent(), Some(Spent::Hops));
        assert_eq!(hop(1, 6_000_000).spent(), Some(Spent::Time));
        assert_eq!(hop(1, 0).later(7_000_000).spent(), Some(Spent::Time));
    }

    #[test]
    fn each_call_has_its_share_of_what_is_left() {
        let share = |number, elapsed| Hop::of(&CHAIN, number, elapsed, 0).share_us();
        assert_eq!((share(1, 0), share(7, 3_000_000), share(12, 5_000_000)), (500_000, 500_000, 1_000_000));
        assert_eq!(share(20, 0), 6_000_000, "one that is past its calls divides by no zero");
    }

    #[test]
    fn eight_calls_of_300_ms_of_transport_take_2400_ms_of_the_chain() {
        // The same for each call, so that it is what the chain's clock shows when they have all been made.
        let elapsed = (0..8).map(|_| 300_000).sum();
        assert_eq!(CHAIN.total_us - Hop::of(&CHAIN, 9, elapsed, elapsed).left_us, 2_400_000);
    }

    #[test]
    fn a_step_is_short_and_has_a_form() {
        let hop = Hop { structured: true, ..Hop::of(&CHAIN, 1, 0, 0) };
        assert!(hop.is_step(SHORT_TOKENS) && !hop.is_step(SHORT_TOKENS + 1));
        assert!(!Hop { structured: false, ..hop }.is_step(1));
    }
}
