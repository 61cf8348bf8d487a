//! How long a decision takes: four tiers; ten, a hundred, a thousand, ten thousand devices in two of them.
//! `cargo run --release -p terrace-decide --example time` prints JSON.
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
use terrace_decide::FleetView;

/// Devices, and the median that a decision may take with so many, microseconds; none: printed to show the growth.
const SIZES: [(u32, Option<f64>); 4] = [(10, None), (100, Some(20.0)), (1_000, None), (10_000, Some(200.0))];

/// Four tiers with so many devices in two of them.
fn view(devices: u32) -> FleetView {
    let mut view = common::view();
    let fleet = |count: u32| (0..count).map(|i| common::device(&i.to_string(), i % 5, i % 3)).collect();
    let near = devices * 6 / 10;
    *common::devices(&mut view) = fleet(near);
    view.tiers.insert(1, common::fleet("closet", 60, fleet(devices - near)));
    assert_eq!(view.tiers.last().map(|t| t.tier.boundary), Some(Boundary::Public));
    view
}

fn main() {
    let mut signals = common::signals();
    signals.deadline = common::deadline(2_000, 10_000, OnMiss::Overflow);
    let mut figures = Vec::new();
    for (devices, goal) in SIZES {
        let view = view(devices);
        let rounds = 4_000_000 / (devices as usize + 200);
        for strategy in [Strategy::ShortestExpectedCompletion, Strategy::BestFit, Strategy::PowerOfTwo] {
            let mut policy = common::policy();
            policy.selection = strategy;
            let mut samples: Vec<f64> = (0..rounds)
                .map(|i| {
                    let start = Instant::now();
                    black_box(terrace_decide::decide(black_box(&signals), &view, &policy, i as f64 / rounds as f64));
                    start.elapsed().as_secs_f64() * 1e6
                })
                .collect();
            samples.sort_by(f64::total_cmp);
            let at = |q: f64| samples[((rounds - 1) as f64 * q) as usize];
            figures.push(serde_json::json!({
                "name": format!("decide, 4 tiers, {devices} devices, {strategy:?}, microseconds"),
                "ours": at(0.5), "p99": at(0.99), "goal": goal, "met": goal.is_none_or(|goal| at(0.5) < goal),
            }));
        }
    }
    println!("{}", serde_json::json!({"bench": "decide", "figures": figures}));
}
