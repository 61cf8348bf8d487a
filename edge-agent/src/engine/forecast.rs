//! When a request would be through: what admission by deadline goes by.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::rates::{Rates, Work};
use super::shared::TYPICAL;

/// Of a step's time, what prompts get at least while others decode.
const LEAST_SHARE: f64 = 0.2;

/// When a request would be through.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Forecast {
    /// Until its own prefill begins.
    pub(super) wait: Duration,
    /// Prefill and decode.
    pub(super) own: Duration,
}

/// What the device has to do before a request, and how fast it is.
pub(super) struct Outlook<'a> {
    pub(super) rates: &'a Rates,
    /// Sequences that run at once.
    pub(super) slots: usize,
    /// Time of a step while others decode.
    pub(super) step_limit: Duration,
    /// For each running sequence, the tokens that its answer still needs.
    pub(super) running: Vec<u64>,
    /// Prompt tokens of running sequences that are not computed yet.
    pub(super) prefill: usize,
}

impl Outlook<'_> {
    /// For a request with so many tokens to compute and to make, behind others whose answers need `ahead` and whose
    /// prompts need `prefill_ahead`.
    pub(super) fn forecast(&self, ahead: &[u64], prefill_ahead: usize, prompt: usize, answer: u64) -> Forecast {
        let wait = self.slot_free(ahead) + self.prefill(self.prefill + prefill_ahead);
        let beside = (self.running.len() + ahead.len() + 1).min(self.slots);
        Forecast { wait, own: self.prefill(prompt) + self.decode(answer, beside) }
    }

    /// Until a sequence behind `ahead` finds a place: each takes the one that is free first.
    pub(super) fn slot_free(&self, ahead: &[u64]) -> Duration {
        let idle = self.slots.saturating_sub(self.running.len());
        let mut free: BinaryHeap<Reverse<u64>> =
            self.running.iter().copied().chain(std::iter::repeat_n(0, idle)).map(Reverse).collect();
        for tokens in ahead {
            if let Some(Reverse(at)) = free.pop() {
                free.push(Reverse(at + tokens));
            }
        }
        self.decode(free.peek().map_or(0, |at| at.0), self.slots)
    }

    /// While others decode, their step is taken out of the step's time.
    fn prefill(&self, tokens: usize) -> Duration {
        let (chunk, depth) = TYPICAL;
        let rate = self.rates.prefill_rate(chunk, depth);
        let decoding = self.step(self.running.len()).as_secs_f64() / self.step_limit.as_secs_f64().max(1e-3);
        let share = if self.running.is_empty() { 1.0 } else { (1.0 - decoding).max(LEAST_SHARE) };
        let seconds = if rate > 0.0 { tokens as f64 / rate / share } else { 0.0 };
        Duration::from_secs_f64(seconds.min(1e6))
    }

    fn decode(&self, tokens: u64, sequences: usize) -> Duration {
        Duration::from_secs_f64((self.step(sequences).as_secs_f64() * tokens as f64).min(1e6))
    }

    fn step(&self, sequences: usize) -> Duration {
        let attended = sequences * TYPICAL.1;
        self.rates.predict(Work { decoding: sequences, attended, ..Work::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10 ms a step whatever the batch, 1 ms a prompt token.
    fn outlook(rates: &Rates, slots: usize, running: &[u64], prefill: usize) -> Vec<u64> {
        let outlook =
            Outlook { rates, slots, step_limit: Duration::from_millis(50), running: running.to_vec(), prefill };
        let near = |d: Duration| ((d.as_secs_f64() * 1e3) / 10.0).round() as u64 * 10;
        let alone = outlook.forecast(&[], 0, 100, 20);
        let behind = outlook.forecast(&[50, 60], 100, 0, 20);
        vec![near(alone.wait), near(alone.own), near(behind.wait), near(behind.own)]
    }

    fn rates() -> Rates {
        let mut rates = Rates::default();
        for turn in 0..400 {
            let work = Work { decoding: turn % 5, prompt: (turn * 7 % 50) * (turn % 2), ..Work::default() };
            rates.measured(work, Duration::from_secs_f64(0.01 + 0.001 * work.prompt as f64));
        }
        rates
    }

    #[test]
    fn waits_are_for_the_first_free_place_and_for_prompts_before() {
        let rates = rates();
        // An empty device: 64 tokens of a prompt take 74 ms, so 100 take 120.
        let [wait, own, behind, _] = outlook(&rates, 1, &[], 0)[..] else { panic!("four") };
        assert_eq!(wait, 0);
        assert!(own.abs_diff(320) <= 20, "{own}");
        assert!(behind.abs_diff(1100 + 120) <= 60, "one after the other: {behind}");
        // Two places, both taken: 30 tokens until one is free, four fifths of the time for prompts.
        let [wait, own, behind, _] = outlook(&rates, 2, &[30, 80], 80)[..] else { panic!("four") };
        assert!(wait.abs_diff(300 + 115) <= 30, "{wait}");
        assert!(own.abs_diff(200 + 145) <= 30, "{own}");
        // 30 + 50 and 80 + 60 are the places' ends then.
        assert!(behind.abs_diff(800 + 260) <= 60, "{behind}");
        assert_eq!(outlook(&Rates::default(), 2, &[30, 80], 80), [0, 0, 0, 0], "nothing is known yet");
    }
}
