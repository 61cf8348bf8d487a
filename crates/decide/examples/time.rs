//! How long a decision takes: four tiers; ten, a hundred, a thousand, ten thousand devices in two of them.
//! `make bench-decision`, or `cargo run --release -p terrace-decide --example time`: JSON, and the growth as a table on
//! the error output. The peer is round robin through the same code: what looking at forecasts costs.
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
use terrace_decide::{FleetView, Signals};

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

/// Ways to pick that are measured; the last is the peer.
const WAYS: [Strategy; 4] =
    [Strategy::ShortestExpectedCompletion, Strategy::BestFit, Strategy::PowerOfTwo, Strategy::RoundRobin];
/// Rounds; in each every way is measured once, so that a machine that slows down slows all of them.
const ROUNDS: usize = 21;

/// Median microseconds of many decisions.
fn sample(signals: &Signals, view: &FleetView, strategy: Strategy, decisions: usize) -> f64 {
    let mut policy = common::policy();
    policy.selection = strategy;
    let one = |i: usize| {
        let start = Instant::now();
        black_box(terrace_decide::decide(black_box(signals), view, &policy, i as f64 / decisions as f64));
        start.elapsed().as_secs_f64() * 1e6
    };
    median(&(0..decisions).map(one).collect::<Vec<_>>())
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn main() {
    let mut signals = common::signals();
    signals.deadline = common::deadline(2_000, 10_000, OnMiss::Overflow);
    let mut figures = Vec::new();
    eprintln!("{:>8}  {}", "devices", WAYS.map(|way| format!("{way:?} us")).join("  "));
    for (devices, goal) in SIZES {
        let view = view(devices);
        let decisions = 400_000 / (devices as usize + 200);
        let mut samples = WAYS.map(|_| Vec::with_capacity(ROUNDS));
        for _ in 0..ROUNDS {
            for (way, samples) in WAYS.into_iter().zip(&mut samples) {
                samples.push(sample(&signals, &view, way, decisions));
            }
        }
        let medians = samples.each_ref().map(|samples| median(samples));
        let row =
            WAYS.iter().zip(medians).map(|(way, us)| format!("{us:>width$.1}", width = format!("{way:?} us").len()));
        eprintln!("{devices:>8}  {}", row.collect::<Vec<_>>().join("  "));
        let (peer, theirs) = (medians[WAYS.len() - 1], &samples[WAYS.len() - 1]);
        for ((way, ours), samples) in WAYS.iter().zip(medians).zip(&samples).take(WAYS.len() - 1) {
            figures.push(serde_json::json!({
                "name": format!("decision, 4 tiers, {devices} devices, {way:?} against RoundRobin, median microseconds"),
                "ours": ours, "peer": peer, "ratio": ours / peer, "goal": goal, "met": goal.is_none_or(|goal| ours < goal),
                "samples": {"ours": samples, "peer": theirs}, "command": "make bench-decision",
            }));
        }
    }
    let machine = format!("{} {}", std::env::consts::OS, std::env::consts::ARCH);
    println!("{}", serde_json::json!({"bench": "decision", "figures": figures, "machine": machine}));
}
