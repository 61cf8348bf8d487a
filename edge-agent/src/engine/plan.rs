//! Who gets how many tokens of the next step. Decoding sequences get their one each; prompts share what time is left,
//! a quantum at a time, the one that waited longest first: a short prompt is through soon, however long its
//! neighbours are.

use std::time::Duration;

use super::rates::{Rates, Work};

/// Tokens that a prompt gets before the next one's turn.
const QUANTUM: usize = 64;

/// Limits of one step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Time of a step while others wait for their next token.
    pub(super) beside: Duration,
    /// Time of a step of prompts alone.
    pub(super) alone: Duration,
    /// Prompt tokens of a step at most.
    pub(super) tokens: usize,
}

/// A prompt that is not in the cache yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prompt {
    /// Tokens in the cache.
    pub(super) position: usize,
    /// Tokens left.
    pub(super) left: usize,
}

/// How many tokens each prompt gets; `prompts` come in the order of their turns.
pub(super) fn share(limits: &Limits, rates: &Rates, decoding: Work, prompts: &[Prompt]) -> Vec<usize> {
    let mut shares = vec![0; prompts.len()];
    let Some(first) = prompts.first() else { return shares };
    let mut budget = budget(limits, rates, decoding, first.position);
    while budget > 0 {
        let before = budget;
        for (share, prompt) in shares.iter_mut().zip(prompts) {
            let more = (prompt.left - *share).min(QUANTUM).min(budget);
            *share += more;
            budget -= more;
        }
        if budget == before {
            break;
        }
    }
    shares
}

fn budget(limits: &Limits, rates: &Rates, decoding: Work, position: usize) -> usize {
    if !rates.known() {
        return QUANTUM.min(limits.tokens).max(1);
    }
    let fixed = rates.predict(decoding);
    let time = if decoding.decoding > 0 {
        // A device whose decoding alone takes the whole step still has to get on with prompts.
        limits.beside.saturating_sub(fixed).max(fixed / 4)
    } else {
        limits.alone.saturating_sub(fixed)
    };
    rates.tokens_in(time, position).clamp(1, limits.tokens.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { beside: Duration::from_millis(50), alone: Duration::from_millis(200), tokens: 256 };

    /// 5 ms a step, 1 ms a sequence, 0.5 ms a prompt token.
    fn rates() -> Rates {
        let mut rates = Rates::default();
        for turn in 0..200 {
            let work = Work { decoding: turn % 4, prompt: turn * 7 % 50, ..Work::default() };
            let millis = 5.0 + work.decoding as f64 + 0.5 * work.prompt as f64;
            rates.measured(work, Duration::from_secs_f64(millis / 1e3));
        }
        rates
    }

    fn prompts(left: &[usize]) -> Vec<Prompt> {
        left.iter().map(|&left| Prompt { position: 0, left }).collect()
    }

    fn decoding(count: usize) -> Work {
        Work { decoding: count, ..Work::default() }
    }

    #[test]
    fn a_step_ends_in_time_and_all_of_it_is_used() {
        let rates = rates();
        let total = |decoding, left: &[usize]| share(&LIMITS, &rates, decoding, &prompts(left)).iter().sum::<usize>();
        // (50 - 5 - 1) / 0.5 and so on, within a tenth.
        for (work, left, expected) in
            [(decoding(1), 2000, 88), (decoding(20), 2000, 50), (decoding(0), 2000, 256), (decoding(1), 30, 30)]
        {
            let found = total(work, &[left]);
            assert!(
                found * 10 >= expected * 9 && found * 10 <= expected * 11,
                "{work:?} {left}: {found}, not {expected}"
            );
        }
        // Even where decoding alone takes longer than a step may.
        assert!(total(decoding(100), &[2000]) > 20);
        assert_eq!(share(&LIMITS, &rates, decoding(3), &[]), Vec::<usize>::new());
        assert_eq!(share(&LIMITS, &Rates::default(), decoding(3), &prompts(&[1000])), [QUANTUM]);
    }

    #[test]
    fn turns_go_round() {
        let rates = rates();
        let found = share(&LIMITS, &rates, decoding(1), &prompts(&[2000, 10, 2000]));
        assert_eq!((found[0], found[1]), (QUANTUM, 10));
        assert!(found[2] > 0 && found[2] < QUANTUM, "the rest, and first in the next step: {found:?}");
        // Quanta go round until the step is full.
        let alone = share(&LIMITS, &rates, decoding(0), &prompts(&[2000, 2000, 20]));
        assert_eq!(alone.iter().sum::<usize>(), 256);
        assert_eq!(alone[2], 20);
        assert!(alone[0].abs_diff(alone[1]) <= QUANTUM, "{alone:?}");
    }
}
