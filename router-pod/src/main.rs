//! The router: Terrace's data plane.

use std::process::ExitCode;

use clap::Parser as _;
use terrace_router::args::Args;
use terrace_router::run;
use terrace_telemetry::{Options, shutdown};

/// musl's own, which the image would have, takes several times as long for the small pieces that trees of JSON are made of.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    terrace_identity::install_crypto_provider();
    let args = Args::parse();
    match shutdown::block_on(serve(args)).map_err(Into::into).flatten() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("terrace-router: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(args: Args) -> anyhow::Result<()> {
    if args.end_with_parent {
        shutdown::end_with_parent()?;
    }
    let telemetry = terrace_telemetry::init(Options::from_env("terrace-router"))?;
    let shutdown = shutdown::on_signal()?;
    let port_file = args.port_file.clone();
    let running = run::start(args, shutdown, telemetry.spans()).await?;
    if let Some(file) = port_file {
        running.announce(&file).await?;
    }
    running.ended().await;
    tracing::info!("the router has stopped");
    Ok(())
}
