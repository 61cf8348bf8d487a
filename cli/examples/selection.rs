//! Device selection on a trace with a mixed fleet, against the field's balancers: overflow and lateness at the load
//! where round robin overflows a third of the requests.
//!
//! `cargo run --release -p terrace-cli --example selection -- FLEET TRACE` prints `target/bench/selection.json`'s
//! content. Without a trace a synthetic one is made, and the output says so. Constants were chosen on the first half of
//! the trace; the second half, which is judged here, was not looked at for that.
#![expect(clippy::print_stdout, reason = "measuring is its purpose")]

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use terrace_cli::simulate::{outcomes, read};
use terrace_decide::select::Selection;
use terrace_simulate::trace::synthetic::{self, Synthetic};
use terrace_simulate::trace::{self, Arrival};
use terrace_simulate::{Options, Outcome, World, run};

/// The load is sought at which round robin overflows this share, percent.
const PEER_OVERFLOW: f64 = 100.0 / 3.0;
/// Overflows that ours may have for each of round robin's.
const GOAL: f64 = 0.65;
/// Each figure is the mean over these.
const SEEDS: [u64; 3] = [1, 2, 3];
/// The curve: loads around the one that is judged.
const CURVE: [f64; 7] = [0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6];
/// The part of the trace that is judged, percent.
const JUDGED: std::ops::Range<u32> = 50..100;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let fleet = PathBuf::from(arguments.next().context("the first argument is the fleet: examples/simulate")?);
    let world = read::world(&[fleet], None)?;
    let file = arguments.next().filter(|file| !file.is_empty());
    let arrivals = match &file {
        Some(file) => read::trace(file.as_ref(), JUDGED)?,
        None => {
            let made = synthetic::make(&Synthetic { requests: 20_000, per_second: 5.5, seed: 1 });
            trace::part(made, JUDGED)
        }
    };
    let load = load_of_peer(&world, &arrivals);
    let at: Vec<Vec<Outcome>> =
        SEEDS.iter().map(|&seed| outcomes(&world, &arrivals, &[load], &Selection::ALL, seed)).collect();
    let command = format!(
        "cargo run --release -p terrace-cli --example selection -- examples/simulate {}",
        if file.is_some() { "TRACE" } else { "" }
    );
    let figures: Vec<Value> = [Selection::ShortestExpectedCompletion, Selection::BestFit]
        .into_iter()
        .flat_map(|ours| figures(&at, ours, load, command.trim()))
        .collect();
    let curve = CURVE.map(|step| (step * load * 100.0).round() / 100.0);
    let curve = outcomes(&world, &arrivals, &curve, &Selection::ALL, SEEDS[0]);
    let machine = format!("{} {}", std::env::consts::OS, std::env::consts::ARCH);
    let text = serde_json::to_string_pretty(&json!({
        "bench": "selection",
        "trace": if file.is_some() { "as given, second half" } else { "synthetic, second half: no trace was given" },
        "outputLengths": "predicted from earlier answers",
        "load": load,
        "figures": figures,
        "atLoad": at,
        "curve": curve,
        "machine": machine,
    }))?;
    println!("{text}");
    Ok(())
}

/// The load at which round robin overflows a third.
fn load_of_peer(world: &World, arrivals: &[Arrival]) -> f64 {
    let overflow = |load: f64| {
        run(world, arrivals, &Options { selection: Selection::RoundRobin, load, seed: SEEDS[0] }).overflow_percent
    };
    let (mut low, mut high) = (0.05, 20.0);
    for _ in 0..14 {
        // The scale of loads is one of factors.
        let middle = f64::sqrt(low * high);
        if overflow(middle) < PEER_OVERFLOW {
            low = middle;
        } else {
            high = middle;
        }
    }
    (high * 1000.0).round() / 1000.0
}

fn figures(at: &[Vec<Outcome>], ours: Selection, load: f64, command: &str) -> Vec<Value> {
    let samples = |selection: Selection, value: fn(&Outcome) -> f64| -> Vec<f64> {
        at.iter().flatten().filter(|o| o.strategy == selection.name()).map(value).collect()
    };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let overflow: fn(&Outcome) -> f64 = |o| o.overflow_percent;
    let late: fn(&Outcome) -> f64 = |o| o.late_percent;
    let figure = |what: &str, peer: Selection, value: fn(&Outcome) -> f64, goal: f64, strict: bool| {
        let (mine, theirs) = (samples(ours, value), samples(peer, value));
        let (a, b) = (mean(&mine), mean(&theirs));
        let met = if strict { a < goal * b } else { a <= goal * b };
        json!({
            "name": format!("{what}, percent of requests, {} against {}, load {load}", ours.name(), peer.name()),
            "ours": a, "peer": b, "ratio": if b > 0.0 { a / b } else { 0.0 }, "goal": goal, "met": met,
            "samples": {"ours": mine, "peer": theirs}, "command": command,
        })
    };
    let mut figures = vec![figure("overflow", Selection::RoundRobin, overflow, GOAL, false)];
    let peers =
        Selection::ALL.into_iter().filter(|s| !matches!(s, Selection::ShortestExpectedCompletion | Selection::BestFit));
    for peer in peers {
        if peer != Selection::RoundRobin {
            figures.push(figure("overflow", peer, overflow, 1.0, true));
        }
        figures.push(figure("late", peer, late, 1.0, false));
    }
    figures
}
