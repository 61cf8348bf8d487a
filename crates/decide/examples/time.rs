//! How long a decision takes: four tiers, a hundred devices. `cargo run --release -p terrace-decide --example time`
//! prints JSON.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    reason = "measuring is its purpose"
)]

#[path = "../tests/common/mod.rs"]
mod common;

use std::hint::black_box;
use std::time::Instant;

use terrace_contract::policy::{OnMiss, Strategy};
use terrace_contract::trust::Boundary;

const ROUNDS: usize = 20_000;

fn main() {
    let mut view = common::view();
    let fleet = |count: u32| (0..count).map(|i| common::device(&i.to_string(), i % 5, i % 3)).collect();
    *common::devices(&mut view) = fleet(60);
    view.tiers.insert(1, common::fleet("closet", 60, fleet(40)));
    assert_eq!(view.tiers.last().map(|t| t.tier.boundary), Some(Boundary::Public));
    let mut signals = common::signals();
    signals.deadline = common::deadline(2_000, 10_000, OnMiss::Overflow);

    let mut figures = Vec::new();
    for strategy in [Strategy::ShortestExpectedCompletion, Strategy::BestFit, Strategy::PowerOfTwo] {
        let mut policy = common::policy();
        policy.selection = strategy;
        let mut samples: Vec<f64> = (0..ROUNDS)
            .map(|i| {
                let start = Instant::now();
                black_box(terrace_decide::decide(black_box(&signals), &view, &policy, i as f64 / ROUNDS as f64));
                start.elapsed().as_secs_f64() * 1e6
            })
            .collect();
        samples.sort_by(f64::total_cmp);
        let at = |q: f64| samples[((ROUNDS - 1) as f64 * q) as usize];
        figures.push(serde_json::json!({
            "name": format!("decide, 4 tiers, 100 devices, {strategy:?}, microseconds"),
            "p50": at(0.5), "p99": at(0.99), "goal": 20, "met": at(0.5) < 20.0,
        }));
    }
    println!("{}", serde_json::json!({"bench": "decide", "figures": figures}));
}
