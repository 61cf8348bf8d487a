//! `terrace-e2e SUITE`: runs one suite and ends with the line that cargo's own tests end with, so that one script can add them up.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use terrace_e2e::{Place, api_server, cluster, standalone};

/// Tests of the whole. Each suite builds nothing: `make test` has built what it needs.
#[derive(Parser)]
#[command(version)]
struct Options {
    #[command(subcommand)]
    suite: Suite,
}

#[derive(Subcommand)]
enum Suite {
    /// Layer 2: `terrace up` with the quick start, through the openai packages for Python and Node.
    Standalone,
    /// Layer 3: a real API server, no nodes.
    ApiServer {
        /// Only this part; for work on one part. The API server and the kinds are always there.
        #[arg(long)]
        only: Option<api_server::Part>,
        /// Stop after the step whose name holds this text; for work on one step.
        #[arg(long)]
        until: Option<String>,
    },
    /// Layer 4: the two-node cluster. Needs root.
    Cluster {
        /// Leave the cluster running after the last step.
        #[arg(long)]
        keep: bool,
        /// Stop after the step whose name holds this text; for work on one step.
        #[arg(long)]
        until: Option<String>,
    },
    /// The two-node cluster under mixed traffic, with a fault each minute; to target/bench/soak-cluster.json. Needs root.
    Faults {
        /// How long, and so how many faults.
        #[arg(long, default_value_t = 60)]
        minutes: u64,
        /// Decides which fault comes when, and what clients ask.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Leave the cluster running after the last step.
        #[arg(long)]
        keep: bool,
    },
}

fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    let place = Place::find()?;
    terrace_identity::install_crypto_provider();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        tokio::select! {
            result = async { match options.suite {
                Suite::Standalone => standalone::run(&place).await,
                Suite::ApiServer { only, until } => Box::pin(api_server::run(&place, only, until)).await,
                Suite::Cluster { keep, until } => cluster::run(&place, keep, until).await,
                Suite::Faults { minutes, seed, keep } => {
                    cluster::soak::run(&place, cluster::soak::Soak { minutes, seed, keep }).await
                }
            } } => result,
            // What runs ends with its guard, when the suite's future is dropped.
            _ = tokio::signal::ctrl_c() => Ok(ExitCode::from(130)),
        }
    })
}
