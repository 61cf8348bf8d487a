//! One device of the simulation against what the agent's loop does (`edge-agent/src/engine/plan.rs`, `forecast.rs`).
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use terrace_simulate::engine::{Did, Engine, Refused, Sequence};

/// 100 tokens a second alone, 1,200 prompt tokens a second.
fn engine() -> Engine {
    Engine::new(common::device("d", 100.0))
}

fn sequence(number: usize, prompt_tokens: u32, output_tokens: u32, deadline_us: u64) -> Sequence {
    Sequence { number, prompt_tokens, output_tokens, max_tokens: 1_000, deadline_us, blocks: Vec::new() }
}

/// When the first token of a sequence came, and when its last, seconds.
fn times(did: &[(u64, Did)], wanted: usize) -> (f64, f64) {
    let at = |which: &dyn Fn(&Did) -> bool| did.iter().find(|(_, did)| which(did)).unwrap().0 as f64 / 1e6;
    let first = at(&|did| matches!(did, Did::FirstToken { number, .. } if *number == wanted));
    (first, at(&|did| matches!(did, Did::Ended { number } if *number == wanted)))
}

fn near(value: f64, expected: f64) {
    assert!((value - expected).abs() < 0.02 * expected, "{value}, not {expected}");
}

#[test]
fn a_prompt_gets_what_a_step_has_left_beside_answers() {
    let (mut engine, mut did) = (engine(), Vec::new());
    engine.offer(sequence(0, 12, 1_000, u64::MAX)).unwrap();
    engine.advance(10_001, &mut did);
    assert_eq!(did.len(), 1, "12 tokens are read in 10 ms");
    engine.offer(sequence(1, 480, 11, u64::MAX)).unwrap();
    engine.advance(60_000_000, &mut did);
    // 30 ms a step, 10 of them for the answer's token: 24 of the prompt's go into one, so it takes twenty.
    let (first, end) = times(&did, 1);
    near(first, 0.01 + 0.6);
    // Then two are decoded, 11 ms a step.
    near(end, first + 10.0 * 0.011);
    // Of the other answer 969 tokens are left after its first, twenty and ten; alone each takes 10 ms.
    near(times(&did, 0).1, end + 969.0 * 0.010);
}

#[test]
fn prompts_share_the_time_of_a_step() {
    let (mut engine, mut did) = (engine(), Vec::new());
    engine.offer(sequence(0, 1_200, 1, u64::MAX)).unwrap();
    engine.offer(sequence(1, 120, 1, u64::MAX)).unwrap();
    engine.advance(60_000_000, &mut did);
    near(times(&did, 1).0, 0.2);
    near(times(&did, 0).0, 1.1);
}

#[test]
fn what_would_be_late_is_refused_by_the_agents_forecast() {
    let (mut engine, mut did) = (engine(), Vec::new());
    engine.offer(sequence(0, 1_200, 2, u64::MAX)).unwrap();
    engine.advance(2_000_000, &mut did);
    // A second for the prompt, and at least its share of 52 tokens that answers are taken to have.
    assert_eq!(engine.offer(sequence(1, 1_200, 2, 3_400_000)), Err(Refused::Late));
    engine.offer(sequence(1, 1_200, 2, 3_700_000)).unwrap();
    // Behind it the same takes a second more, and the loop's step is not all for prompts.
    assert_eq!(engine.offer(sequence(2, 1_200, 2, 4_500_000)), Err(Refused::Late));
    engine.offer(sequence(2, 1_200, 2, 6_000_000)).unwrap();
}
