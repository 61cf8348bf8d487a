//! What `make bench-router` measures with: scripted tiers to route to, and a client that keeps its connections.
//!
//! `load tiers --folder DIR` serves the tiers and writes what a router needs to reach each of them; `load ask --to
//! ADDRESS --body FILE` asks. Each prints one line of JSON. router-pod/benches/router.py starts both.
#![expect(clippy::print_stdout, reason = "measuring is its purpose")]

mod client;
mod fleet;
mod tier;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Serves the tiers until its input ends.
    Tiers {
        /// Where routers find their identities and snapshots.
        #[arg(long)]
        folder: PathBuf,
    },
    /// Asks a router, or a tier itself.
    Ask(client::Asks),
}

fn main() -> anyhow::Result<()> {
    terrace_identity::install_crypto_provider();
    // One thread: the other core belongs to what is measured.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let said = match Args::parse().what {
        What::Tiers { folder } => return runtime.block_on(fleet::serve(&folder)),
        What::Ask(asks) => runtime.block_on(client::ask(asks))?,
    };
    println!("{said}");
    Ok(())
}
