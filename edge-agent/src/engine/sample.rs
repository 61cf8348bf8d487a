//! Choosing the next token. The order is vLLM's (docs.vllm.ai, `vllm.v1.sample.sampler`), so that the same request means
//! the same there and here:
//!
//! 1. the grammar's mask: what it does not allow is out
//! 2. `logit_bias`, added
//! 3. penalties: repetition (Keskar et al. 2019; prompt and answer), then frequency and presence (OpenAI's; answer)
//! 4. greedy, if the temperature is 0
//! 5. temperature
//! 6. min-p (Nguyen et al. 2024), top-k, then top-p over what top-k left
//! 7. one draw
//!
//! Log-probabilities that are reported are those before all of it.

use std::collections::{HashMap, HashSet};
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
    /// Of the prompt, for the repetition penalty; empty without one.
    prompt: HashSet<u32>,
    /// How often the answer has each token.
    answer: HashMap<u32, u32>,
    changed: Vec<f32>,
}

impl Sampler {
    pub(super) fn new(sampling: Sampling, prompt: &[u32]) -> Self {
        let seed = sampling.seed.unwrap_or_else(|| std::hash::RandomState::new().build_hasher().finish());
        let prompt = if sampling.repetition_penalty == 1.0 { HashSet::new() } else { prompt.iter().copied().collect() };
        Sampler { sampling, random: SplitMix64(seed), prompt, answer: HashMap::new(), changed: Vec::new() }
    }

    /// Chooses, and remembers what was chosen. `allowed` has a bit for each token, the lowest first; tokens past its end
    /// are not allowed. With nothing allowed it chooses as if all were.
    pub(super) fn sample(&mut self, logits: &[f32], allowed: Option<&[u32]>) -> u32 {
        let mut changed = std::mem::take(&mut self.changed);
        let id = self.choose(self.change(logits, allowed, &mut changed));
        self.changed = changed;
        *self.answer.entry(id).or_default() += 1;
        id
    }

    /// Steps 1 to 3, in `room` where there is something to do.
    fn change<'a>(&self, logits: &'a [f32], allowed: Option<&[u32]>, room: &'a mut Vec<f32>) -> &'a [f32] {
        let Sampling { repetition_penalty: repetition, presence_penalty, frequency_penalty, .. } = self.sampling;
        let repeats = repetition != 1.0 && repetition > 0.0;
        let counts = presence_penalty != 0.0 || frequency_penalty != 0.0;
        if allowed.is_none() && self.sampling.logit_bias.is_empty() && !repeats && !counts {
            return logits;
        }
        room.clear();
        room.extend_from_slice(logits);
        if let Some(allowed) = allowed {
            forbid(room, allowed);
        }
        for (&id, &bias) in &self.sampling.logit_bias {
            if let Some(logit) = room.get_mut(id as usize) {
                *logit += bias;
            }
        }
        if repeats {
            let new_in_answer = self.answer.keys().filter(|id| !self.prompt.contains(id));
            for &id in self.prompt.iter().chain(new_in_answer) {
                if let Some(logit) = room.get_mut(id as usize) {
                    *logit = if *logit > 0.0 { *logit / repetition } else { *logit * repetition };
                }
            }
        }
        if counts {
            for (&id, &times) in &self.answer {
                if let Some(logit) = room.get_mut(id as usize) {
                    *logit -= frequency_penalty * times as f32 + presence_penalty;
                }
            }
        }
        room
    }

    fn choose(&mut self, logits: &[f32]) -> u32 {
        if self.sampling.temperature <= 0.0 {
            return likeliest(logits);
        }
        let candidates = candidates(&self.sampling, logits);
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

/// Takes away what has no bit, unless nothing would be left.
fn forbid(logits: &mut [f32], allowed: &[u32]) {
    let words = logits.len().div_ceil(32);
    if allowed.iter().take(words).all(|word| *word == 0) {
        return;
    }
    for (word, logits) in logits.chunks_mut(32).enumerate() {
        let bits = allowed.get(word).copied().unwrap_or(0);
        if bits == u32::MAX {
            continue;
        }
        for (bit, logit) in logits.iter_mut().enumerate() {
            if bits & (1 << bit) == 0 {
                *logit = f32::NEG_INFINITY;
            }
        }
    }
}

/// Steps 5 and 6: what may be drawn, the likeliest first, each with its weight; the likeliest weighs 1.
fn candidates(sampling: &Sampling, logits: &[f32]) -> Vec<(u32, f32)> {
    let Sampling { temperature, top_p, top_k, min_p, .. } = *sampling;
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let floor = max - NEGLIGIBLE * temperature;
    let mut candidates: Vec<(u32, f32)> =
        logits.iter().enumerate().filter(|(_, x)| **x >= floor).map(|(id, x)| (id as u32, *x)).collect();
    let by_logit = |a: &(u32, f32), b: &(u32, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
    let most = if top_k == 0 { candidates.len() } else { top_k as usize };
    if most < candidates.len() {
        candidates.select_nth_unstable_by(most, by_logit);
        candidates.truncate(most);
    }
    candidates.sort_unstable_by(by_logit);
    candidates.iter_mut().for_each(|(_, x)| *x = ((*x - max) / temperature).exp());
    if min_p > 0.0 {
        candidates.retain(|(_, weight)| *weight >= min_p.min(1.0));
    }
    if top_p < 1.0 {
        let total: f64 = candidates.iter().map(|(_, w)| f64::from(*w)).sum();
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
    candidates
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
#[path = "sample_tests.rs"]
mod tests;
