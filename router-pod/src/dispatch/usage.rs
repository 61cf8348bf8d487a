//! How far the token counts that a tier tells are believed: as far as they can be true of the request.
//!
//! They are money, and what a tier says of itself is no more than a claim: one wrong figure would use up a day's spend.

use serde_json::Value;
use terrace_contract::tier::Tier;

use super::body::Call;
use super::rebuild::Tokens;
use crate::job::Job;
use crate::sense::tokens;

/// A token is at least a byte, and a count made here at least one each four of them: a tier may count so many times as much.
const FINER: u64 = 4;

/// The most that an answer can have used.
#[derive(Debug, Clone, Copy)]
pub struct Most {
    /// Prompt tokens: what the tier's context holds.
    input: u64,
    /// Output tokens: what was allowed, by the request and by the policy, of all choices together.
    output: u64,
}

impl Most {
    /// Of this request at this tier.
    pub fn of(job: &Job, tier: &Tier) -> Self {
        let allowed = u64::from(job.in_use.snapshot.policy.limits.max_output_tokens);
        let each = tokens::output_limit(&job.request).map_or(allowed, |asked| asked.min(allowed));
        let number = |name: &str| job.request.get(name).and_then(Value::as_u64).unwrap_or(1);
        let prompts = match job.request.get("prompt").and_then(Value::as_array) {
            Some(list) if list.first().is_some_and(|first| !first.is_number()) => list.len() as u64,
            _ => 1,
        };
        let choices = number("n").max(number("best_of")).saturating_mul(prompts);
        let output = if job.call == Call::Embedding { 0 } else { each.saturating_mul(choices) };
        Self { input: tier.capability.context_tokens.into(), output }
    }

    /// What an answer used: as its tier `said`, where that can be, and else as `counted` here; of the output no more than
    /// was allowed or came.
    pub fn believe(self, said: Option<Tokens>, counted: Tokens) -> Tokens {
        let Some(said) = said else { return counted };
        let most = |limit: u64, counted: u64| limit.max(counted.saturating_mul(FINER));
        let input = if said.input <= most(self.input, counted.input) { said.input } else { counted.input };
        let output = said.output.min(most(self.output, counted.output));
        let believed = Tokens { input, output, cached: said.cached.min(input) };
        if believed != said {
            tracing::debug!(?said, ?believed, "a tier's count of tokens cannot be true");
        }
        believed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(input: u64, output: u64, cached: u64) -> Tokens {
        Tokens { input, output, cached }
    }

    #[test]
    fn a_count_is_believed_as_far_as_it_can_be_true() {
        let (most, counted) = (Most { input: 4096, output: 20 }, tokens(30, 7, 0));
        for (said, want) in [
            (tokens(33, 9, 16), tokens(33, 9, 16)),
            (tokens(4096, 28, 4096), tokens(4096, 28, 4096)),
            (tokens(4097, 9, 0), tokens(30, 9, 0)),
            (tokens(u64::MAX, u64::MAX, u64::MAX), tokens(30, 28, 30)),
            (tokens(33, 9, 34), tokens(33, 9, 33)),
        ] {
            assert_eq!(most.believe(Some(said), counted), want, "{said:?}");
        }
        assert_eq!(most.believe(None, counted), counted);
        let long = tokens(5_000, 7, 0);
        assert_eq!(most.believe(Some(tokens(20_000, 7, 0)), long).input, 20_000, "each byte may be a token");
    }
}
