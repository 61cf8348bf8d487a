//! Deterministic fault simulation: the real router, tiers that follow a script, the operator's stream, clients and the
//! clock in one process, under a scheduler that a seed decides (turmoil). Only the router's sockets, time and randomness
//! are not its machine's (`terrace_router::outside`).
//!
//! `make test-sim` runs 10,000 seeds, `SEEDS=n` so many, `SEED=n` one of them with its log; docs/testing.md.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a test that cannot go on has failed")]

mod check;
mod client;
mod dice;
mod fleet;
mod log;
mod operator;
mod papers;
mod plan;
mod scenarios;
mod sea;
mod tally;
mod tier;
mod world;

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Once};
use std::time::Instant;

use tally::Tally;

/// Seeds of a plain `cargo test`.
const SEEDS: u64 = 300;
/// From so many seeds on, each kind of fault and of end must have been among them.
const ENOUGH: u64 = 200;
/// Failures that are shown before a run gives up.
const SHOWN: usize = 5;

thread_local! {
    static PANICS: Cell<u32> = const { Cell::new(0) };
}

/// A panic in a task of a simulated host ends that task alone: it is counted, and fails its seed.
fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICS.set(PANICS.get() + 1);
            before(info);
        }));
    });
}

/// Runs one seed; what does not hold, what happened, and its log.
fn seed(seed: u64) -> (Vec<String>, Tally, Vec<String>) {
    count_panics();
    PANICS.set(0);
    let run = catch_unwind(AssertUnwindSafe(|| {
        let left = world::run(seed);
        (check::all(&left), Tally::of(&left), left.log.lines())
    }));
    let (mut wrong, tally, log) = run.unwrap_or_else(|_| (vec!["it panicked".into()], Tally::default(), vec![]));
    if PANICS.get() > 0 && wrong.is_empty() {
        wrong.push(format!("{} tasks panicked", PANICS.get()));
    }
    (wrong, tally, log)
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().filter(|text| !text.is_empty()).map(|text| text.parse().unwrap())
}

#[test]
fn whatever_fails_each_request_has_one_answer_in_time_and_nothing_is_past_its_clearance() {
    if let Some(one) = number("SEED") {
        let (wrong, _, log) = seed(one);
        println!("{}", log.join("\n"));
        assert!(wrong.is_empty(), "seed {one}:\n{}", wrong.join("\n"));
        return;
    }
    let seeds = number("SEEDS").unwrap_or(SEEDS);
    let _papers = papers::papers();
    let (next, begun) = (AtomicU64::new(0), Instant::now());
    let (failed, tally) = (Mutex::new(Vec::new()), Mutex::new(Tally::default()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while failed.lock().unwrap().len() < SHOWN {
                    let one = next.fetch_add(1, Ordering::Relaxed);
                    if one >= seeds {
                        return;
                    }
                    let (wrong, of_seed, _) = seed(one);
                    tally.lock().unwrap().add(&of_seed);
                    if !wrong.is_empty() {
                        failed.lock().unwrap().push(format!("seed {one}:\n  {}", wrong.join("\n  ")));
                    }
                }
            });
        }
    });
    let tally = tally.into_inner().unwrap();
    println!("{seeds} seeds in {:.1} s\n{tally}", begun.elapsed().as_secs_f64());
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{}\nreplay one: SEED=n make test-sim", failed.join("\n"));
    if seeds >= ENOUGH {
        let missing = tally.missing();
        assert!(missing.is_empty(), "in {seeds} seeds there was never: {missing:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for one in [1, 2, 3, 4, 5, 6, 7, 8] {
        let (first, second) = (seed(one).2, seed(one).2);
        let differs = first.iter().zip(&second).position(|(a, b)| a != b);
        if let Some(at) = differs {
            panic!("seed {one} differs at line {at}:\n{}\n{}", first[at], second[at]);
        }
        assert_eq!(first.len(), second.len(), "seed {one}");
        assert!(first.len() > 20, "seed {one} says what happened");
    }
    assert_ne!(seed(1).2, seed(2).2, "another seed gives another run");
}
