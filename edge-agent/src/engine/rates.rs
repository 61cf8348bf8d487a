//! How long a step takes on this device, fitted while it works:
//! `a + c * sequences + u, if a prompt is in it + p * prompt tokens + w * attended`.
//!
//! `u` is what weights take to be unpacked for the many rows of a prompt, however many they are: nothing where rows are
//! multiplied with packed ones.
//!
//! A Kalman filter over the five figures (Kalman 1960; with one measurement a step it is recursive least squares that
//! forgets): a figure that current steps say nothing about keeps its last estimate, which plain forgetting would lose.

use std::time::Duration;

/// What a step had to do.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Work {
    /// Sequences that got their next token.
    pub(super) decoding: usize,
    /// Prompt tokens.
    pub(super) prompt: usize,
    /// Positions that the step's tokens looked back at, all together.
    pub(super) attended: usize,
    /// Whether tokens are computed as a prompt's.
    pub(super) unpacking: bool,
}

impl Work {
    /// One sequence's next token, at this position.
    pub(super) fn decode(position: usize) -> Work {
        Work { decoding: 1, attended: position + 1, ..Work::default() }
    }

    /// A chunk of a prompt.
    pub(super) fn prefill(position: usize, tokens: usize) -> Work {
        let attended = tokens * position + tokens * (tokens + 1) / 2;
        Work { decoding: 0, prompt: tokens, attended, unpacking: tokens > 0 }
    }

    /// Both at once.
    pub(super) fn and(self, other: Work) -> Work {
        Work {
            decoding: self.decoding + other.decoding,
            prompt: self.prompt + other.prompt,
            attended: self.attended + other.attended,
            unpacking: self.unpacking || other.unpacking,
        }
    }

    fn features(self) -> [f64; FIGURES] {
        let unpacking = f64::from(u8::from(self.unpacking));
        [1.0, self.decoding as f64, unpacking, self.prompt as f64, self.attended as f64 / ATTENDED]
    }
}

const FIGURES: usize = 5;
/// Attended positions are counted in thousands, so that all figures are of a like size.
const ATTENDED: f64 = 1000.0;
/// A measurement is this far off, relatively: other programs run too.
const NOISE: f64 = 0.1;
/// From step to step a figure may drift by this share of itself.
const DRIFT: f64 = 0.02;
/// Before anything was measured a figure may be anything up to about this, in seconds.
const UNKNOWN: [f64; FIGURES] = [1.0, 0.1, 0.1, 0.1, 0.1];
/// Surprises count for at most so many standard deviations: a step that the machine slept through is no slow device.
const SURPRISE: f64 = 3.0;

/// The fit. All times in seconds.
#[derive(Debug, Clone)]
pub(super) struct Rates {
    figures: [f64; FIGURES],
    covariance: [[f64; FIGURES]; FIGURES],
    measured: u64,
}

impl Default for Rates {
    fn default() -> Self {
        let mut covariance = [[0.0; FIGURES]; FIGURES];
        for i in 0..FIGURES {
            covariance[i][i] = UNKNOWN[i] * UNKNOWN[i];
        }
        Rates { figures: [0.0; FIGURES], covariance, measured: 0 }
    }
}

impl Rates {
    /// Learns from one step.
    pub(super) fn measured(&mut self, work: Work, took: Duration) {
        let (x, y) = (work.features(), took.as_secs_f64());
        for (i, unknown) in UNKNOWN.iter().enumerate() {
            let drifted = self.covariance[i][i] + (DRIFT * self.figures[i]).powi(2);
            if drifted < unknown * unknown {
                self.covariance[i][i] = drifted;
            }
        }
        let spread: [f64; FIGURES] = std::array::from_fn(|i| dot(&self.covariance[i], &x));
        let variance = dot(&spread, &x) + (NOISE * y).powi(2) + 1e-12;
        let surprise = y - dot(&self.figures, &x);
        let most = SURPRISE * variance.sqrt();
        // The first few steps teach whatever they say: there is nothing yet to be surprised against.
        let surprise = if self.measured < 8 { surprise } else { surprise.clamp(-most, most) };
        for i in 0..FIGURES {
            self.figures[i] = (self.figures[i] + spread[i] / variance * surprise).max(0.0);
            for j in 0..FIGURES {
                self.covariance[i][j] -= spread[i] * spread[j] / variance;
            }
        }
        self.measured += 1;
    }

    /// Whether anything was measured.
    pub(super) fn known(&self) -> bool {
        self.measured > 0
    }

    /// What a step should take.
    pub(super) fn predict(&self, work: Work) -> Duration {
        Duration::from_secs_f64(dot(&self.figures, &work.features()).clamp(0.0, 1e6))
    }

    /// How many tokens of a prompt that stands at `position` fit into `time` beside the rest of the step. Unpacking takes at
    /// most half of the work: a step that is too short for that does not get on at all.
    pub(super) fn tokens_in(&self, time: Duration, position: usize) -> usize {
        let [_, _, unpacking, token, attended] = self.figures;
        // A chunk of n looks back at n * position + n^2 / 2; solve for n.
        let (linear, square) = (token + attended * position as f64 / ATTENDED, attended / ATTENDED / 2.0);
        let time = (time.as_secs_f64() - unpacking).max(unpacking);
        let tokens = if square * time > 1e-9 * linear * linear {
            ((linear * linear + 4.0 * square * time).sqrt() - linear) / (2.0 * square)
        } else {
            time / linear.max(1e-12)
        };
        tokens.min(1e6) as usize
    }

    /// Prompt tokens a second, in chunks of this size at this depth; 0: not measured yet.
    pub(super) fn prefill_rate(&self, chunk: usize, position: usize) -> f64 {
        let took = self.predict(Work::prefill(position, chunk)).as_secs_f64();
        if self.known() && took > 0.0 { chunk as f64 / took } else { 0.0 }
    }

    /// A decode step's seconds at this depth: alone, and for each sequence.
    pub(super) fn step(&self, position: usize) -> (f64, f64) {
        let [base, sequence, _, _, attended] = self.figures;
        (base, sequence + attended * position as f64 / ATTENDED)
    }
}

fn dot(a: &[f64; FIGURES], b: &[f64; FIGURES]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device with these figures, in seconds; time varies by up to 5 % and now and then by a lot.
    fn took(work: Work, speed: f64, turn: usize) -> Duration {
        let exact = 0.008 + 0.0015 * work.decoding as f64 + 0.002 * work.prompt as f64 + 2e-7 * work.attended as f64;
        let noise = 1.0 + 0.05 * (turn as f64 * 12.9898).sin();
        let stall = if turn % 23 == 22 { 4.0 } else { 1.0 };
        Duration::from_secs_f64(exact * speed * noise * stall)
    }

    fn off(rates: &Rates, work: Work, speed: f64) -> f64 {
        rates.predict(work).as_secs_f64() / took(work, speed, 0).as_secs_f64() - 1.0
    }

    fn teach(rates: &mut Rates, speed: f64, turns: std::ops::Range<usize>) {
        for turn in turns {
            let mut work = (0..turn % 5).fold(Work::default(), |w, i| w.and(Work::decode(100 + turn * 7 % 900 + i)));
            if turn % 3 != 0 {
                work = work.and(Work::prefill(turn * 31 % 1500, 1 + turn * 13 % 64));
            }
            rates.measured(work, took(work, speed, turn));
        }
    }

    #[test]
    fn steps_are_foretold_and_a_slower_machine_is_noticed() {
        let mut rates = Rates::default();
        teach(&mut rates, 1.0, 0..120);
        let probes = [
            Work::decode(500),
            (0..8).fold(Work::default(), |w, _| w.and(Work::decode(300))),
            Work::prefill(0, 64),
            Work::prefill(1800, 64).and(Work::decode(50)),
        ];
        for work in probes {
            assert!(off(&rates, work, 1.0).abs() < 0.2, "{work:?}: {}", off(&rates, work, 1.0));
        }
        teach(&mut rates, 2.0, 120..240);
        for work in probes {
            assert!(off(&rates, work, 2.0).abs() < 0.25, "{work:?}: {}", off(&rates, work, 2.0));
        }
    }

    #[test]
    fn what_a_prompt_takes_whatever_its_length_is_told_apart() {
        let mut rates = Rates::default();
        let exact = |work: Work| took(work, 1.0, 0) + Duration::from_millis(if work.unpacking { 12 } else { 0 });
        for turn in 0..400 {
            let beside = Work::decode(100 + turn);
            let work =
                if turn % 3 == 0 { beside } else { beside.and(Work::prefill(turn * 16 % 1500, 4 + turn * 13 % 40)) };
            rates.measured(work, exact(work));
        }
        let tokens = rates.tokens_in(Duration::from_millis(40), 500);
        let with = exact(Work::decode(10).and(Work::prefill(500, tokens))) - exact(Work::decode(10));
        assert!((30..=42).contains(&with.as_millis()), "{tokens} take {with:?} of 40 ms");
        assert!(rates.tokens_in(Duration::from_millis(2), 0) >= 4, "too short for any: half of it is unpacking");
    }

    #[test]
    fn what_current_steps_do_not_show_is_not_forgotten() {
        let mut rates = Rates::default();
        teach(&mut rates, 1.0, 0..60);
        for turn in 0..20_000 {
            let work = Work::decode(200);
            rates.measured(work, took(work, 1.0, turn));
        }
        assert!(off(&rates, Work::prefill(0, 64), 1.0).abs() < 0.3);
        assert!(off(&rates, Work::decode(200), 1.0).abs() < 0.15);
    }

    #[test]
    fn as_many_tokens_as_fit_are_found() {
        let mut rates = Rates::default();
        assert!(!rates.known() && rates.prefill_rate(64, 0) == 0.0);
        teach(&mut rates, 1.0, 0..100);
        for (millis, position) in [(40, 0), (40, 1900), (5, 300), (200, 0)] {
            let tokens = rates.tokens_in(Duration::from_millis(millis), position);
            let beside = Work::decode(10);
            let with = rates.predict(beside.and(Work::prefill(position, tokens)));
            let without = rates.predict(beside);
            let added = (with - without).as_secs_f64() * 1e3;
            assert!(
                added <= millis as f64 * 1.01 && added > millis as f64 * 0.9 - 3.0,
                "{tokens} take {added} ms of {millis}"
            );
        }
    }
}
