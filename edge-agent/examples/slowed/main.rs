//! A real agent with a slowed clock: the server, the engine's loop, admission, KV cache, load reports and wire are the
//! agent's own, and so is the network, the tests' small one; only each of its steps takes as long as it would on a device of
//! the given speed. `make confirm-selection` starts some of them behind a router.

mod device;
#[allow(clippy::unwrap_used, reason = "the tests' own")]
#[path = "../../tests/support/tiny.rs"]
mod tiny;
mod words;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use terrace_agent::engine::{Engine, EngineConfig};
use terrace_agent::grammar::Grammars;
use terrace_agent::server::{self, Agent, Meters};
use terrace_contract::status::{DeviceStatus, ModelStatus};
use terrace_identity::IdentityStore;
use terrace_telemetry::{Metrics, ports, shutdown, time};
use tokio::net::TcpListener;

/// A real agent on a device of the given speed.
#[derive(Parser)]
struct Args {
    /// What it is called: pod UID and node.
    #[arg(long)]
    name: String,
    /// The name clients use for the model.
    #[arg(long)]
    model_name: String,
    /// Folder of tls.crt, tls.key and ca.crt.
    #[arg(long)]
    identity_dir: PathBuf,
    /// A file that gets the bound address as JSON.
    #[arg(long)]
    port_file: PathBuf,
    /// Prompt tokens a second while nothing is decoded.
    #[arg(long)]
    prefill_rate: f64,
    /// A decode step without what grows with the batch, microseconds.
    #[arg(long)]
    step_base_us: f64,
    /// What each sequence adds to it, microseconds.
    #[arg(long)]
    step_per_sequence_us: f64,
    /// Prompt and answer together, tokens.
    #[arg(long)]
    context_tokens: u32,
    /// Sequences that run at once.
    #[arg(long)]
    max_sequences: u32,
    /// Requests that wait at most.
    #[arg(long)]
    queue_limit: u32,
}

fn main() -> anyhow::Result<()> {
    terrace_identity::install_crypto_provider();
    // One thread for the server beside the engine's: there are as many of these programs as devices.
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(serve(Args::parse()))
}

async fn serve(args: Args) -> anyhow::Result<()> {
    shutdown::end_with_parent()?;
    let signal = shutdown::on_signal()?;
    let speed = device::Speed {
        prefill_rate: args.prefill_rate,
        step_base: args.step_base_us / 1e6,
        step_per_sequence: args.step_per_sequence_us / 1e6,
    };
    let loaded = device::model(speed, args.context_tokens, args.max_sequences)?;
    let model = ModelStatus {
        name: args.model_name,
        digest: String::new(),
        format: loaded.info.format.clone(),
        parameters: loaded.info.parameters.clone(),
        context_tokens: loaded.info.context_tokens,
    };
    let config =
        EngineConfig { max_sequences: args.max_sequences, queue_limit: args.queue_limit, ..EngineConfig::default() };
    let engine = Engine::start(loaded, config)?;
    let agent = Agent {
        grammars: Grammars::new(engine.tokenizer().clone()),
        engine,
        model,
        device: DeviceStatus { kind: "cpu".into(), detail: "slowed".into(), fallback: None },
        pod_uid: args.name.clone(),
        node: args.name,
        created: time::now_s(),
        meters: Meters::new(&Metrics::new()),
    };
    let store = IdentityStore::load(&args.identity_dir)?;
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
    let address = listener.local_addr()?;
    ports::write(&args.port_file, &serde_json::json!({"listen": address.to_string()}))?;
    terrace_identity::serve(listener, store.identities(), server::router(Arc::new(agent)), signal, Duration::ZERO)
        .await;
    Ok(())
}
