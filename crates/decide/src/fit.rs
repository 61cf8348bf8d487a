//! What an endpoint's answers say of its speed: round trip, queue and token rates, fitted as they come.
//!
//! Time to the first token is fitted as a line over the prompt's length (exponentially weighted least squares): the
//! slope is one over the prefill rate, what it starts at is round trip and queue together.

use crate::view::Rates;

/// How much everything known before weighs against a new answer.
const MEMORY: f64 = 0.95;
/// Prefill rate while all prompts seen were about as long: tokens a second, as hosted models commonly have.
const USUAL_PREFILL: f64 = 4_000.0;
/// Spread of prompt lengths (variance, tokens squared) from which a slope means something.
const SPREAD: f64 = 400.0;

/// A fit over answers.
#[derive(Debug, Clone, Default)]
pub struct Fit {
    weight: f64,
    tokens: f64,
    time: f64,
    tokens_squared: f64,
    tokens_time: f64,
    rtt_us: Option<f64>,
    step_us: Option<f64>,
}

impl Fit {
    /// A TCP handshake took this long: one round trip.
    pub fn round_trip(&mut self, us: u64) {
        self.rtt_us = Some(mix(self.rtt_us, us as f64));
    }

    /// A first token came.
    pub fn first_token(&mut self, prompt_tokens: u64, us: u64) {
        let (x, y) = (prompt_tokens as f64, us as f64);
        self.weight = MEMORY * self.weight + 1.0;
        self.tokens = MEMORY * self.tokens + x;
        self.time = MEMORY * self.time + y;
        self.tokens_squared = MEMORY * self.tokens_squared + x * x;
        self.tokens_time = MEMORY * self.tokens_time + x * y;
    }

    /// The rest of an answer came.
    pub fn rest(&mut self, output_tokens: u64, us: u64) {
        if output_tokens > 1 {
            self.step_us = Some(mix(self.step_us, us as f64 / (output_tokens - 1) as f64));
        }
    }

    /// Round trip, if one was seen.
    pub fn rtt_us(&self) -> Option<u64> {
        self.rtt_us.map(|rtt| rtt as u64)
    }

    /// Rates, once a first token and a rest were seen.
    pub fn rates(&self) -> Option<Rates> {
        let step = self.step_us?;
        (self.weight > 0.0).then(|| Rates {
            prefill_rate: 1e6 / self.slope(),
            step_base_us: step,
            step_per_sequence_us: 0.0,
        })
    }

    /// Time in the endpoint's queue: what the first token takes beyond round trip and prefill.
    pub fn queue_us(&self) -> u64 {
        if self.weight == 0.0 {
            return 0;
        }
        let start = (self.time - self.slope() * self.tokens) / self.weight;
        (start - self.rtt_us.unwrap_or(0.0)).max(0.0) as u64
    }

    /// Microseconds a prompt token.
    fn slope(&self) -> f64 {
        let spread = self.tokens_squared / self.weight - (self.tokens / self.weight).powi(2);
        let together = self.tokens_time / self.weight - self.tokens * self.time / self.weight.powi(2);
        if spread < SPREAD || together <= 0.0 { 1e6 / USUAL_PREFILL } else { (together / spread).max(0.1) }
    }
}

fn mix(old: Option<f64>, new: f64) -> f64 {
    old.map_or(new, |old| 0.8 * old + 0.2 * new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_and_queue_are_found_from_answers_of_different_length() {
        let mut fit = Fit::default();
        fit.round_trip(10_000);
        for i in 0..100u64 {
            let tokens = 50 + (i * 37) % 1000;
            fit.first_token(tokens, 10_000 + 30_000 + tokens * 500);
            fit.rest(11, 10 * 20_000);
        }
        let rates = fit.rates().unwrap();
        assert!((rates.prefill_rate - 2_000.0).abs() < 20.0, "{rates:?}");
        assert!((rates.step_base_us - 20_000.0).abs() < 1.0);
        assert!(fit.queue_us().abs_diff(30_000) < 1_000, "{}", fit.queue_us());
        assert_eq!(fit.rtt_us(), Some(10_000));
    }

    #[test]
    fn with_prompts_of_one_length_the_usual_rate_is_assumed() {
        let mut fit = Fit::default();
        assert_eq!((fit.rates(), fit.queue_us()), (None, 0));
        (0..10).for_each(|_| fit.first_token(100, 60_000));
        fit.rest(3, 40_000);
        assert!((fit.rates().unwrap().prefill_rate - USUAL_PREFILL).abs() < 1.0);
        assert!(fit.queue_us().abs_diff(35_000) < 10);
    }
}
