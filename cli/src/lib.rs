//! The commands of `terrace`, which is also installed as `kubectl-terrace`.

mod ask;
mod caller;
mod check;
mod crds;
mod explain;
mod http;
mod out;
pub mod simulate;
mod trace;
mod up;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Terrace: tiered inference, on Kubernetes or on this machine.
#[derive(Debug, Parser)]
#[command(version, about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the manifests of a file or folder here: router and agents as processes, no cluster.
    Up(up::Up),
    /// Ask one question and show the answer, where it came from and why, and the hops.
    Ask(ask::Ask),
    /// Show what is decided of a request and why: what was ruled out by which rule, scores, forecasts, the plan.
    Explain(explain::Explain),
    /// Run a trace against a model of the fleet, decided as the routers decide: overflow, lateness, cost.
    Simulate(simulate::Simulate),
    /// Check manifests as the API server and the operator would: those of a fleet, or of a part of one.
    Check(check::Check),
    /// Print the custom resource definitions.
    Crds,
}

/// Runs the command that the arguments name, and says in a sentence why it failed.
#[tokio::main]
pub async fn main() -> ExitCode {
    terrace_identity::install_crypto_provider();
    let result = match Cli::parse().command {
        Command::Up(up) => up::run(up).await,
        Command::Ask(ask) => ask::run(ask).await,
        Command::Explain(explain) => explain::run(explain).await,
        Command::Simulate(simulate) => simulate::run(&simulate),
        Command::Check(check) => check::run(&check),
        Command::Crds => crds::run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.downcast_ref::<out::Closed>().is_some() => ExitCode::SUCCESS,
        Err(error) => {
            out::note(format_args!("terrace: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
