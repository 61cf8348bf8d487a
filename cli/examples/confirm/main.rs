//! The simulated figures of device selection beside real ones: the same fleet, the same part of a trace and the same
//! strategies, once through the simulation and once through a real router, mutual TLS and real agent processes whose
//! clocks are slowed to the fleet's speeds (`edge-agent/examples/slowed`).
//!
//! `make confirm-selection` builds what is needed and starts it. It ends with 0 if strategies overflow in the same order
//! and each one's overflow against round robin's is within 15 % of what is simulated.
#![expect(clippy::print_stdout, reason = "measuring is its purpose")]

mod backup;
mod compare;
mod fleet;
mod replay;
#[path = "../../../edge-agent/examples/slowed/words.rs"]
mod words;

use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Parser;
use terrace_cli::simulate::{outcomes, read};
use terrace_contract::policy::Strategy;
use terrace_decide::select::Selection;
use terrace_simulate::trace::Arrival;

use compare::{Compared, Real};

/// Simulated overflow beside that of real processes.
#[derive(Parser)]
struct Args {
    /// Azure's CSV or Mooncake's JSONL.
    #[arg(long)]
    trace: PathBuf,
    /// Manifests and one Simulation.
    #[arg(long)]
    fleet: PathBuf,
    /// Where the part begins, percent of the trace's requests.
    #[arg(long, default_value_t = 50)]
    from: u32,
    /// How long each strategy gets requests, seconds.
    #[arg(long, default_value_t = 150.0)]
    seconds: f64,
    /// How many times as fast requests come as in the trace.
    #[arg(long)]
    load: f64,
    /// The strategies; RoundRobin, which the others are held against, must be among them.
    #[arg(long, value_delimiter = ',', default_value = "RoundRobin,LeastRequests,BestFit,ShortestExpectedCompletion")]
    strategy: Vec<String>,
    /// Only the simulation: to look for a load.
    #[arg(long)]
    dry: bool,
    /// Where the figures go.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Simulations of each strategy, of which the mean is taken: what is drawn in them differs.
const SEEDS: Range<u64> = 1..10;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    terrace_identity::install_crypto_provider();
    match run(Args::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("confirm: {error:#}");
            ExitCode::from(2)
        }
    }
}

async fn run(args: Args) -> Result<bool> {
    let strategies = args.strategy.iter().map(|name| strategy(name)).collect::<Result<Vec<_>>>()?;
    let files = [args.fleet.clone()];
    let world = read::world(&files, None)?;
    let arrivals = part(read::trace(&args.trace, args.from..100)?, args.load * args.seconds);
    let selections: Vec<Selection> = strategies.iter().map(|&strategy| strategy.into()).collect();
    let simulated: Vec<_> = SEEDS.map(|seed| outcomes(&world, &arrivals, &[args.load], &selections, seed)).collect();
    println!("{} requests in {} s, load {}", arrivals.len(), args.seconds, args.load);
    let mut compared = Vec::new();
    for (index, &strategy) in strategies.iter().enumerate() {
        let of_seeds = simulated.iter().filter_map(|outcomes| outcomes.get(index)).cloned().collect();
        let real =
            if args.dry { Real::default() } else { real(&files, &world, strategy, &arrivals, args.load).await? };
        let one = Compared { selection: strategy.into(), simulated: of_seeds, real };
        println!("{}", one.line());
        compared.push(one);
    }
    if args.dry {
        return Ok(true);
    }
    let verdict = compare::verdict(&compared)?;
    println!("{}", verdict.table());
    if let Some(out) = &args.out {
        let document = verdict.document(&arrivals, args.load, args.seconds);
        std::fs::write(out, serde_json::to_string_pretty(&document)? + "\n")
            .with_context(|| format!("cannot write {}", out.display()))?;
    }
    Ok(verdict.confirmed())
}

/// One strategy on real processes, all of them new: nothing is known of the devices at first, as in the simulation.
async fn real(
    files: &[PathBuf],
    world: &terrace_simulate::World,
    strategy: Strategy,
    arrivals: &[Arrival],
    load: f64,
) -> Result<Real> {
    let mut snapshot = read::snapshot(files, None, fleet::CLUSTER)?;
    snapshot.policy.selection = strategy;
    let budget = world.budgets.first().context("the fleet needs a LatencyBudget: what is late is told by it")?;
    let (near, far) = match world.rungs.as_slice() {
        [near, far] => (near, far),
        _ => bail!("the fleet needs two tiers: devices, and an endpoint behind them"),
    };
    let fleet = fleet::Fleet::start(snapshot, near, far).await?;
    let asked = replay::replay(fleet.router, arrivals, load, budget, &far.tier.name).await;
    fleet.stop().await;
    asked
}

fn strategy(name: &str) -> Result<Strategy> {
    serde_json::from_value(name.into()).with_context(|| format!("--strategy {name}: it is none of a RoutingPolicy's"))
}

/// The requests that come in so much of the trace's time.
fn part(arrivals: Vec<Arrival>, seconds: f64) -> Vec<Arrival> {
    arrivals.into_iter().take_while(|arrival| arrival.at_us as f64 <= seconds * 1e6).collect()
}
