//! What an answer took of the device that made it. An agent knows time and tokens; prices are the policy's, so money is
//! the router's to say ([`crate::headers::COST_MICROS`]).

use serde::{Deserialize, Serialize};

/// Sent beside [`crate::confidence::Confidence`]. Times are microseconds by the device's clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Cost {
    /// Waiting for its turn.
    pub queue_us: u64,
    /// From its turn to the first token, others' share of the steps included.
    pub prefill_us: u64,
    /// From the first token to the last, likewise.
    pub decode_us: u64,
    /// Its share of the time that the device worked: each step's time is divided by what every sequence made it do, so
    /// the shares of all answers add up to the time of all steps. What a device hour is charged by.
    pub compute_us: u64,
    /// Prompt tokens that cost nothing, because their keys and values were there.
    pub cached_tokens: u32,
    /// Steps that made its tokens after the first.
    pub steps: u32,
    /// Sequences that got a token in such a step, on average; 0: there was no such step. 1: it had the device to itself.
    pub batch: f64,
}

impl Cost {
    /// Of two answers that were made beside each other, as the choices of one request are: times that passed once count
    /// once, shares add up.
    #[must_use]
    pub fn beside(self, other: Cost) -> Cost {
        let steps = self.steps + other.steps;
        let batches = self.batch * f64::from(self.steps) + other.batch * f64::from(other.steps);
        Cost {
            queue_us: self.queue_us.max(other.queue_us),
            prefill_us: self.prefill_us.max(other.prefill_us),
            decode_us: self.decode_us.max(other.decode_us),
            compute_us: self.compute_us + other.compute_us,
            cached_tokens: self.cached_tokens + other.cached_tokens,
            steps,
            batch: if steps == 0 { 0.0 } else { batches / f64::from(steps) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_and_time_passes_once() {
        let one = Cost {
            queue_us: 5,
            prefill_us: 70,
            decode_us: 300,
            compute_us: 200,
            cached_tokens: 16,
            steps: 3,
            batch: 2.0,
        };
        let other = Cost {
            queue_us: 9,
            prefill_us: 50,
            decode_us: 100,
            compute_us: 40,
            cached_tokens: 0,
            steps: 1,
            batch: 4.0,
        };
        let both = one.beside(other);
        assert_eq!((both.queue_us, both.prefill_us, both.decode_us, both.compute_us), (9, 70, 300, 240));
        assert_eq!((both.cached_tokens, both.steps, both.batch), (16, 4, 2.5));
        assert_eq!(Cost::default().beside(one), one);
        // A later agent may leave out what this one says.
        assert_eq!(serde_json::from_str::<Cost>("{\"computeUs\": 7}").unwrap().compute_us, 7);
    }
}
