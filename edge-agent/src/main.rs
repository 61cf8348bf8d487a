//! The engine on each device: a small quantized model behind the OpenAI wire.

use std::process::ExitCode;

use clap::Parser as _;
use terrace_agent::{Failure, args::Args, run};
use terrace_telemetry::{Options, shutdown};

fn main() -> ExitCode {
    terrace_identity::install_crypto_provider();
    let args = Args::parse();
    let termination_log = args.termination_log.clone();
    let telemetry = match terrace_telemetry::init(Options::from_env("terrace-agent")) {
        Ok(guard) => guard,
        Err(error) => return end(Failure::configuration(error), &termination_log, |m| eprintln!("error: {m}")),
    };
    let result = shutdown::block_on(run(args))
        .unwrap_or_else(|error| Err(Failure::configuration(format!("no threads for the server: {error}"))));
    let code = match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => end(failure, &termination_log, |m| tracing::error!("{m}")),
    };
    drop(telemetry);
    code
}

fn end(failure: Failure, termination_log: &std::path::Path, say: impl Fn(&str)) -> ExitCode {
    say(&format!("{:?}: {failure}", failure.reason));
    if let Err(error) = failure.leave(termination_log) {
        say(&format!("the reason could not be left at {}: {error}", termination_log.display()));
    }
    ExitCode::FAILURE
}
