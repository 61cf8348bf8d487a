//! `terrace simulate`: a trace against a model of the fleet, decided by the code that the routers run.

pub mod read;

use std::ops::Range;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use serde_json::json;
use terrace_decide::select::Selection;
use terrace_simulate::{Options, Outcome, World, report, run as simulate, trace};

use crate::out;

/// Options of `terrace simulate`.
#[derive(Debug, Clone, Args)]
pub struct Simulate {
    /// When requests came and how long they were: Azure's CSV or Mooncake's JSONL, as they are published.
    #[arg(long)]
    pub trace: PathBuf,
    /// Manifests of the fleet and one Simulation that says how fast it is: a file, or a folder of YAML files. May be
    /// given more than once.
    #[arg(long, required = true)]
    pub fleet: Vec<PathBuf>,
    /// The policy, if the manifests hold more than one.
    #[arg(long)]
    pub policy: Option<String>,
    /// How many times as fast requests come as in the trace; several make a curve.
    #[arg(long, value_delimiter = ',', default_value = "1")]
    pub load: Vec<f64>,
    /// Ways to pick devices, to be compared [default: all of them]
    #[arg(long, value_delimiter = ',', value_parser = strategy)]
    pub strategy: Vec<Selection>,
    /// Part of the trace to run, percent of its requests.
    #[arg(long, default_value = "0-100", value_parser = part)]
    pub part: Range<u32>,
    /// Seed of everything that is drawn. One seed, one fleet and one trace give one result.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// What to print.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub output: Output,
    /// Draws overflow and lateness over load into this file.
    #[arg(long)]
    pub svg: Option<PathBuf>,
}

/// What to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// A line a strategy.
    Table,
    /// Everything, for programs.
    Json,
}

fn strategy(text: &str) -> Result<Selection, String> {
    let found = Selection::ALL.into_iter().find(|s| s.name().eq_ignore_ascii_case(text));
    found.ok_or_else(|| format!("there are {}", Selection::ALL.map(Selection::name).join(", ")))
}

fn part(text: &str) -> Result<Range<u32>, String> {
    let ends = text.split_once('-').and_then(|(from, to)| Some((from.trim().parse().ok()?, to.trim().parse().ok()?)));
    match ends {
        Some((from, to)) if from < to && to <= 100 => Ok(from..to),
        _ => Err("write two percentages, such as 50-100".to_owned()),
    }
}

/// Runs and prints.
///
/// # Errors
/// The trace or the fleet cannot be read: file, place, and what to write instead.
pub fn run(options: &Simulate) -> Result<()> {
    if let Some(load) = options.load.iter().find(|load| !(load.is_finite() && **load > 0.0)) {
        bail!("--load {load}: a load is above 0; 1 is the trace's own");
    }
    let world = read::world(&options.fleet, options.policy.as_deref())?;
    let arrivals = read::trace(&options.trace, options.part.clone())?;
    let strategies = if options.strategy.is_empty() { Selection::ALL.to_vec() } else { options.strategy.clone() };
    let outcomes = outcomes(&world, &arrivals, &options.load, &strategies, options.seed);
    if let Some(file) = &options.svg {
        let picture = report::svg::draw(&outcomes);
        std::fs::write(file, picture).with_context(|| format!("cannot write {}", file.display()))?;
    }
    match options.output {
        Output::Table => out::text(&report::table(&outcomes)),
        Output::Json => out::line(serde_json::to_string_pretty(&json!({"outcomes": outcomes}))?),
    }
}

/// Every strategy at every load: the same requests and the same seed for each.
pub fn outcomes(
    world: &World,
    arrivals: &[trace::Arrival],
    loads: &[f64],
    strategies: &[Selection],
    seed: u64,
) -> Vec<Outcome> {
    let at = |load: f64| strategies.iter().map(move |&selection| Options { selection, load, seed });
    loads.iter().flat_map(|&load| at(load)).map(|options| simulate(world, arrivals, &options)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strategies_and_parts_are_read_and_what_is_wrong_is_said() {
        assert_eq!(strategy("bestfit"), Ok(Selection::BestFit));
        assert!(strategy("fastest").unwrap_err().contains("ShortestExpectedCompletion"));
        assert_eq!(part("50-100"), Ok(50..100));
        for bad in ["", "50", "60-50", "0-101", "a-b"] {
            assert!(part(bad).is_err(), "{bad}");
        }
    }
}
