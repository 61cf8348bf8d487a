//! Choosing the next token: penalties, then temperature, then the filters (top-k, min-p, top-p), then one draw.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};

use super::Sampling;

/// Candidates whose probability is below e^-30 of the likeliest are never drawn: together they weigh less than one in
/// a million for any vocabulary, and sorting the rest is quick.
const NEGLIGIBLE: f32 = 30.0;

/// One answer's sampler.
#[derive(Debug)]
pub(super) struct Sampler {
    sampling: Sampling,
    random: SplitMix64,
    prompt: HashMap<u32, u32>,
    answer: HashMap<u32, u32>,
}

impl Sampler {
    pub(super) fn new(sampling: Sampling, prompt: &[u32]) -> Self {
        let seed = sampling.seed.unwrap_or_else(|| std::hash::RandomState::new().build_hasher().finish());
        let mut seen = HashMap::new();
        if sampling.repetition_penalty != 1.0 {
            prompt.iter().for_each(|&id| *seen.entry(id).or_default() += 1);
        }
        Sampler { sampling, random: SplitMix64(seed), prompt: seen, answer: HashMap::new() }
    }

    /// Whether [`Self::sample`] leaves the logits other than it found them.
    pub(super) fn changes_logits(&self) -> bool {
        let s = &self.sampling;
        s.repetition_penalty != 1.0 || s.presence_penalty != 0.0 || s.frequency_penalty != 0.0
    }

    /// Chooses, and remembers what was chosen. Penalties change the logits.
    pub(super) fn sample(&mut self, logits: &mut [f32]) -> u32 {
        self.penalise(logits);
        let id = if self.sampling.temperature <= 0.0 { likeliest(logits) } else { self.draw(logits) };
        *self.answer.entry(id).or_default() += 1;
        id
    }

    fn penalise(&self, logits: &mut [f32]) {
        let Sampling { repetition_penalty: repetition, presence_penalty, frequency_penalty, .. } = self.sampling;
        if repetition != 1.0 && repetition > 0.0 {
            let new_in_answer = self.answer.keys().filter(|id| !self.prompt.contains_key(id));
            for &id in self.prompt.keys().chain(new_in_answer) {
                if let Some(logit) = logits.get_mut(id as usize) {
                    *logit = if *logit > 0.0 { *logit / repetition } else { *logit * repetition };
                }
            }
        }
        if presence_penalty != 0.0 || frequency_penalty != 0.0 {
            for (&id, &times) in &self.answer {
                if let Some(logit) = logits.get_mut(id as usize) {
                    *logit -= presence_penalty + frequency_penalty * times as f32;
                }
            }
        }
    }

    fn draw(&mut self, logits: &[f32]) -> u32 {
        let Sampling { temperature, top_p, top_k, min_p, .. } = self.sampling;
        let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let floor = max - NEGLIGIBLE * temperature;
        let mut candidates: Vec<(u32, f32)> =
            logits.iter().enumerate().filter(|(_, x)| **x >= floor).map(|(id, x)| (id as u32, *x)).collect();
        candidates.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        if top_k > 0 {
            candidates.truncate(top_k as usize);
        }
        candidates.iter_mut().for_each(|(_, x)| *x = ((*x - max) / temperature).exp());
        if min_p > 0.0 {
            // The likeliest weighs 1.
            candidates.retain(|(_, weight)| *weight >= min_p.min(1.0));
        }
        let total: f64 = candidates.iter().map(|(_, w)| f64::from(*w)).sum();
        if top_p < 1.0 {
            let enough = f64::from(top_p.max(0.0)) * total;
            let mut sum = 0.0;
            let kept = candidates.iter().take_while(|(_, w)| {
                let more = sum < enough;
                sum += f64::from(*w);
                more
            });
            let kept = kept.count().max(1);
            candidates.truncate(kept);
        }
        let total: f64 = candidates.iter().map(|(_, w)| f64::from(*w)).sum();
        let mut point = self.random.unit() * total;
        for (id, weight) in &candidates {
            point -= f64::from(*weight);
            if point < 0.0 {
                return *id;
            }
        }
        candidates.last().map_or_else(|| likeliest(logits), |(id, _)| *id)
    }
}

/// The lowest id among the largest.
fn likeliest(logits: &[f32]) -> u32 {
    let best = logits.iter().enumerate().fold(
        (0, f32::NEG_INFINITY),
        |best, (id, &x)| {
            if x > best.1 { (id, x) } else { best }
        },
    );
    best.0 as u32
}

/// The likeliest tokens with their log-probabilities, the likeliest first.
pub(super) fn top(logits: &[f32], log_sum_exp: f32, count: usize) -> Vec<(u32, f32)> {
    let count = count.min(logits.len());
    if count == 0 {
        return Vec::new();
    }
    let mut ids: Vec<u32> = (0..logits.len() as u32).collect();
    let by_logit = |a: &u32, b: &u32| logits[*b as usize].total_cmp(&logits[*a as usize]).then(a.cmp(b));
    if count < ids.len() {
        ids.select_nth_unstable_by(count, by_logit);
        ids.truncate(count);
    }
    ids.sort_by(by_logit);
    ids.into_iter().map(|id| (id, logits[id as usize] - log_sum_exp)).collect()
}

/// Steele, Lea and Flood's generator: small, fast, and good enough to draw tokens with.
#[derive(Debug)]
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// At least 0, below 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(sampling: Sampling, logits: &[f32], draws: usize) -> Vec<usize> {
        let mut sampler = Sampler::new(Sampling { seed: Some(7), ..sampling }, &[]);
        let mut counts = vec![0; logits.len()];
        for _ in 0..draws {
            counts[sampler.sample(&mut logits.to_vec()) as usize] += 1;
        }
        counts
    }

    #[test]
    fn greedy_takes_the_lowest_of_equals() {
        assert_eq!(counts(Sampling::default(), &[0.0, 2.0, 2.0, -1.0], 3), [0, 3, 0, 0]);
    }

    #[test]
    fn draws_follow_the_probabilities() {
        let logits = [0.5f32.ln(), 0.3f32.ln(), 0.2f32.ln()];
        let drawn = counts(Sampling { temperature: 1.0, ..Sampling::default() }, &logits, 20_000);
        for (count, share) in drawn.iter().zip([0.5, 0.3, 0.2]) {
            assert!((*count as f64 / 20_000.0 - share).abs() < 0.015, "{drawn:?}");
        }
    }

    #[test]
    fn filters_leave_only_what_they_allow() {
        let logits = [0.5f32.ln(), 0.3f32.ln(), 0.15f32.ln(), 0.05f32.ln()];
        let hot = Sampling { temperature: 1.0, ..Sampling::default() };
        assert_eq!(counts(Sampling { top_k: 2, ..hot.clone() }, &logits, 500)[2..], [0, 0]);
        assert_eq!(counts(Sampling { top_p: 0.75, ..hot.clone() }, &logits, 500)[2..], [0, 0]);
        assert_eq!(counts(Sampling { top_p: 0.0, ..hot.clone() }, &logits, 500)[1..], [0, 0, 0]);
        assert_eq!(counts(Sampling { min_p: 0.2, ..hot.clone() }, &logits, 500)[3..], [0]);
        assert!(counts(hot, &logits, 500).iter().all(|c| *c > 0));
    }

    #[test]
    fn the_same_seed_draws_the_same() {
        let logits: Vec<f32> = (0..50).map(|i| (i as f32 * 0.7).sin()).collect();
        let draw = |seed| {
            let mut s = Sampler::new(Sampling { temperature: 1.3, seed: Some(seed), ..Sampling::default() }, &[]);
            (0..40).map(|_| s.sample(&mut logits.clone())).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn penalties_push_down_what_was_said() {
        let sampling = Sampling { presence_penalty: 5.0, ..Sampling::default() };
        let mut s = Sampler::new(sampling, &[]);
        let said: Vec<u32> = (0..3).map(|_| s.sample(&mut [3.0, 2.0, 1.0])).collect();
        assert_eq!(said, [0, 1, 2]);
        let mut s = Sampler::new(Sampling { repetition_penalty: 4.0, ..Sampling::default() }, &[0]);
        assert_eq!(s.sample(&mut [3.0, 2.0, 1.0]), 1);
    }

    #[test]
    fn the_top_is_sorted_and_normalised() {
        let logits = [0.1f32.ln(), 0.6f32.ln(), 0.3f32.ln()];
        let top = top(&logits, 0.0, 2);
        assert_eq!(top.iter().map(|t| t.0).collect::<Vec<_>>(), [1, 2]);
        assert!((top[0].1.exp() - 0.6).abs() < 1e-6);
    }
}
