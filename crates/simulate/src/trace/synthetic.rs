//! A trace of our own, for where no recorded one is at hand: three kinds of requests, arriving in bursts.
//!
//! The shape, not the numbers, is that of chat services: short questions with short answers, middling prompts with long
//! answers, long prompts with short ones (retrieval, summaries). Between bursts requests come at the mean rate divided
//! by [`CALM`]; in one, three times as often as then.

use super::{Arrival, BLOCK_TOKENS};
use crate::random::Random;

/// What a trace is made from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Synthetic {
    /// Requests.
    pub requests: usize,
    /// Requests a second, on average.
    pub per_second: f64,
    /// Seed.
    pub seed: u64,
}

/// A third of the time is burst, at three times the calm rate: the mean is 5/3 of the calm rate.
const CALM: f64 = 5.0 / 3.0;
/// Mean length of a burst, seconds; calm lasts twice as long.
const BURST_SECONDS: f64 = 10.0;

/// Share, prompt and answer (median and spread of a log-normal), prefixes shared by that many conversations.
const KINDS: [(u32, f64, f64, f64, f64); 3] =
    [(40, 260.0, 0.5, 90.0, 0.4), (38, 1_200.0, 0.25, 380.0, 0.3), (22, 3_000.0, 0.3, 55.0, 0.5)];

/// Makes the trace.
pub fn make(what: &Synthetic) -> Vec<Arrival> {
    let mut random = Random::new(what.seed);
    let kinds: Vec<(usize, u32)> = KINDS.iter().enumerate().map(|(i, kind)| (i, kind.0)).collect();
    let calm_rate = what.per_second / CALM;
    let (mut at, mut burst, mut until) = (0.0, false, random.exponential(2.0 * BURST_SECONDS));
    let mut arrivals = Vec::with_capacity(what.requests);
    while arrivals.len() < what.requests {
        let rate = if burst { 3.0 * calm_rate } else { calm_rate };
        let next = at + random.exponential(1.0 / rate);
        if next > until {
            (at, burst) = (until, !burst);
            until += random.exponential(if burst { BURST_SECONDS } else { 2.0 * BURST_SECONDS });
            continue;
        }
        at = next;
        let kind = random.pick(&kinds).copied().unwrap_or_default();
        let (_, prompt, prompt_spread, output, output_spread) = KINDS[kind];
        let mut length = |median: f64, spread: f64| (median * (spread * random.normal()).exp()).round().max(1.0) as u32;
        let (prompt_tokens, output_tokens) = (length(prompt, prompt_spread), length(output, output_spread));
        // Every kind has a few system prompts; a whole block of one is shared by all requests that begin with it.
        let family = (random.uniform() * 4.0) as u64 + 10 * kind as u64;
        let shared = u64::from(prompt_tokens >= 2 * BLOCK_TOKENS);
        let blocks = (0..shared).map(|block| family * 1000 + block).collect();
        arrivals.push(Arrival { at_us: (at * 1e6) as u64, prompt_tokens, output_tokens, blocks });
    }
    let start = arrivals.first().map_or(0, |first| first.at_us);
    arrivals.iter_mut().for_each(|arrival| arrival.at_us -= start);
    arrivals
}

/// As Azure publishes its traces; shared prefixes have no column there.
pub fn to_csv(arrivals: &[Arrival]) -> String {
    let mut text = String::from("TIMESTAMP,ContextTokens,GeneratedTokens\n");
    for Arrival { at_us, prompt_tokens, output_tokens, .. } in arrivals {
        let (seconds, rest) = (at_us / 1_000_000, at_us % 1_000_000);
        let (day, hour, minute, second) = (1 + seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
        text.push_str(&format!(
            "2025-01-{day:02} {hour:02}:{minute:02}:{second:02}.{rest:06},{prompt_tokens},{output_tokens}\n"
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_trace_at_the_rate_asked_for_and_it_reads_back() {
        let what = Synthetic { requests: 5_000, per_second: 4.0, seed: 3 };
        let made = make(&what);
        assert_eq!(made, make(&what));
        assert_ne!(made, make(&Synthetic { seed: 4, ..what }));
        let rate = 5_000.0 / (made.last().unwrap().at_us as f64 / 1e6);
        assert!((3.4..4.6).contains(&rate), "{rate}");
        let read = crate::trace::read(&to_csv(&made)).unwrap();
        let plain = |a: &[Arrival]| a.iter().map(|a| (a.at_us, a.prompt_tokens, a.output_tokens)).collect::<Vec<_>>();
        assert_eq!(plain(&read), plain(&made));
    }

    #[test]
    fn it_comes_in_bursts() {
        let made = make(&Synthetic { requests: 20_000, per_second: 5.0, seed: 1 });
        let mut seconds = vec![0.0f64; made.last().unwrap().at_us as usize / 1_000_000 + 1];
        made.iter().for_each(|a| seconds[a.at_us as usize / 1_000_000] += 1.0);
        let mean = seconds.iter().sum::<f64>() / seconds.len() as f64;
        let variance = seconds.iter().map(|n| (n - mean).powi(2)).sum::<f64>() / seconds.len() as f64;
        assert!(variance > 1.8 * mean, "index of dispersion {}; Poisson has 1", variance / mean);
    }
}
