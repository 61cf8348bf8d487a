//! How long an answer will be, learned as answers come: by feature, and within a feature by the prompt's length.
//!
//! Templates make prompts of alike length ask for alike answers: a summary of four pages is short, a letter from one
//! paragraph is not. In Azure's trace of conversations (2023, 19,366 requests) eighths of an octave of prompt length
//! explain 0.75 of the variance of answer length.
//!
//! Prompts are sorted into bands of an eighth of an octave. Each band keeps its most recent answers; one that has seen
//! few borrows from all of them.

use std::collections::{BTreeMap, VecDeque};

/// Tokens of an answer of which nothing is known yet.
pub const UNKNOWN_TOKENS: u32 = 128;
/// Share of answers that should be no longer than [`Length::likely`].
pub const QUANTILE: f64 = 0.98;
/// Bands to a doubling of the prompt's length.
const BANDS: f64 = 8.0;
/// Answers remembered in a band.
const IN_BAND: usize = 64;
/// Answers remembered over all bands.
const IN_ALL: usize = 256;
/// How many answers of all are mixed into those of a band.
const BORROWED: usize = 4;

/// How long an answer is expected to be, tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Length {
    /// On average.
    pub expected: u32,
    /// No longer than this, forty-nine times of fifty.
    pub likely: u32,
}

/// The most recent lengths, as they came and by size: kept sorted, since every request asks for them so.
#[derive(Debug, Clone, Default, PartialEq)]
struct Recent {
    came: VecDeque<u16>,
    sorted: Vec<u16>,
}

impl Recent {
    fn keep(&mut self, tokens: u16, most: usize) {
        let oldest = if self.came.len() == most { self.came.pop_front() } else { None };
        if let Some(Ok(at)) = oldest.map(|oldest| self.sorted.binary_search(&oldest)) {
            self.sorted.remove(at);
        }
        self.came.push_back(tokens);
        insert(&mut self.sorted, tokens);
    }
}

/// Puts a value where it belongs among sorted ones.
fn insert(sorted: &mut Vec<u16>, value: u16) {
    let at = sorted.partition_point(|other| *other <= value);
    sorted.insert(at, value);
}

/// Lengths of a feature's answers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lengths {
    all: Recent,
    bands: BTreeMap<u16, Recent>,
}

fn band(prompt_tokens: u32) -> u16 {
    (BANDS * (f64::from(prompt_tokens) + 1.0).log2()) as u16
}

/// The value below which a share of sorted values lies.
fn quantile(sorted: &[u16], share: f64) -> u16 {
    let at = (sorted.len() as f64 * share) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
}

impl Lengths {
    /// An answer to a prompt of this length was this long.
    pub fn learn(&mut self, prompt_tokens: u32, output_tokens: u32) {
        let tokens = u16::try_from(output_tokens).unwrap_or(u16::MAX);
        self.all.keep(tokens, IN_ALL);
        self.bands.entry(band(prompt_tokens)).or_default().keep(tokens, IN_BAND);
    }

    /// The length of the next answer to a prompt of this length, never more than the caller allows and never none.
    /// With nothing learned: [`UNKNOWN_TOKENS`].
    pub fn next(feature: Option<&Self>, prompt_tokens: u32, max_output_tokens: u32) -> Length {
        let within = |tokens: f64| (tokens.round() as u32).clamp(1, max_output_tokens.max(1));
        let seen = feature.map(|lengths| lengths.alike(prompt_tokens)).unwrap_or_default();
        if seen.is_empty() {
            let unknown = within(f64::from(UNKNOWN_TOKENS));
            return Length { expected: unknown, likely: unknown };
        }
        // The limit cuts the long ones short, so it comes before the mean.
        let cut: f64 = seen.iter().map(|&tokens| f64::from(within(f64::from(tokens)))).sum();
        Length { expected: within(cut / seen.len() as f64), likely: within(f64::from(quantile(&seen, QUANTILE))) }
    }

    /// Answers to prompts of alike length and a few that stand for all of them, sorted; none: nothing was learned yet.
    fn alike(&self, prompt_tokens: u32) -> Vec<u16> {
        let band = self.bands.get(&band(prompt_tokens)).map(|recent| recent.sorted.as_slice()).unwrap_or_default();
        let mut alike = Vec::with_capacity(band.len() + BORROWED);
        alike.extend_from_slice(band);
        if !self.all.sorted.is_empty() {
            let borrowed = |i: usize| quantile(&self.all.sorted, (i as f64 + 0.5) / BORROWED as f64);
            (0..BORROWED).for_each(|i| insert(&mut alike, borrowed(i)));
        }
        alike
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(lengths: &Lengths, prompt_tokens: u32) -> Length {
        Lengths::next(Some(lengths), prompt_tokens, 4096)
    }

    #[test]
    fn never_more_than_allowed_and_never_none() {
        assert_eq!(Lengths::next(None, 10, 16), Length { expected: 16, likely: 16 });
        assert_eq!(Lengths::next(None, 10, 4096).expected, UNKNOWN_TOKENS);
        let mut short = Lengths::default();
        (0..100).for_each(|_| short.learn(10, 0));
        assert_eq!(Lengths::next(Some(&short), 10, 0), Length { expected: 1, likely: 1 });
    }

    #[test]
    fn a_limit_cuts_only_what_is_longer() {
        let mut lengths = Lengths::default();
        (0..IN_BAND).for_each(|i| lengths.learn(10, if i % 2 == 0 { 40 } else { 400 }));
        assert_eq!(Lengths::next(Some(&lengths), 10, 100), Length { expected: 70, likely: 100 });
    }

    #[test]
    fn the_mean_follows_the_answers() {
        let mut lengths = Lengths::default();
        (0..300).for_each(|_| lengths.learn(100, 60));
        assert_eq!(next(&lengths, 100), Length { expected: 60, likely: 60 });
        (0..300).for_each(|_| lengths.learn(100, 300));
        assert_eq!(next(&lengths, 100), Length { expected: 300, likely: 300 });
    }

    #[test]
    fn nearly_all_are_no_longer_than_likely() {
        let mut lengths = Lengths::default();
        (0..640).for_each(|i| lengths.learn(100, 1 + (i * 37) % 100));
        let next = next(&lengths, 100);
        assert!((90..=99).contains(&next.likely), "{next:?}");
        assert!((45..=55).contains(&next.expected), "{next:?}");
    }

    #[test]
    fn prompts_of_another_length_have_answers_of_their_own_and_a_new_length_those_of_all() {
        let mut lengths = Lengths::default();
        for _ in 0..200 {
            lengths.learn(1_200, 400);
            lengths.learn(3_000, 50);
        }
        assert!(next(&lengths, 1_210).expected.abs_diff(400) < 20);
        assert!(next(&lengths, 3_010).expected.abs_diff(50) < 20);
        assert_eq!(next(&lengths, 20).expected, 225);
        assert_eq!(next(&lengths, 20).likely, 400);
    }
}
