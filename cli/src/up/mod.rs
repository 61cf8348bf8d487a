//! `terrace up`: the manifests of a fleet as processes of this machine, no cluster.
//!
//! The same files that `kubectl apply` takes: a DaemonSet is one agent, a Deployment its replicas, an endpoint is used as it
//! is, each policy gets one router. A throw-away authority makes the identities, so mutual TLS is never off.

mod child;
pub mod fleet;
mod folder;
mod log;
pub mod manifests;
mod models;
pub mod state;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use terrace_telemetry::shutdown::Hangup;
use tokio::signal::unix::{SignalKind, signal};

use self::child::Traces;
use self::fleet::Fleet;
use self::folder::Folder;
use self::state::State;
use crate::out;

/// Options of `terrace up`.
#[derive(Debug, Clone, Args)]
pub struct Up {
    /// Manifests: a file, or a folder of YAML files. May be given more than once.
    #[arg(short = 'f', long = "filename", required = true)]
    pub files: Vec<PathBuf>,
    /// Where the first policy's router listens; further routers choose their own port.
    #[arg(long, default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,
    /// Ask this once it serves, print the answer, and end.
    #[arg(long)]
    pub ask: Option<String>,
    /// Where traces go (OTLP over http, such as http://127.0.0.1:4318) [default: shown by `terrace ask`]
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", value_parser = collector)]
    pub otlp: Option<String>,
    /// Models by digest: <folder>/<sha256>.gguf [default: terrace/models in the user's cache folder]
    #[arg(long)]
    pub models: Option<PathBuf>,
    /// Seconds that an agent may take until it serves (a first download takes the longest).
    #[arg(long, default_value_t = 600)]
    pub ready_timeout: u64,
    /// Writes {"listen": "ip:port"} of the first router here once it serves.
    #[arg(long)]
    pub port_file: Option<PathBuf>,
    /// Keep the folder with logs, identities and snapshots after the end.
    #[arg(long)]
    pub keep: bool,
}

/// The base address of a collector; an empty one, as an empty variable of the environment gives it, is none.
fn collector(text: &str) -> Result<String, String> {
    let uri = text.parse::<http::Uri>().ok();
    let usable = uri.is_some_and(|uri| uri.scheme_str() == Some("http") && uri.host().is_some_and(|h| !h.is_empty()));
    if text.is_empty() || usable {
        return Ok(text.to_owned());
    }
    Err("a collector is given by its http:// URL (TLS is not spoken to it), such as http://127.0.0.1:4318".to_owned())
}

/// Runs the fleet until Ctrl-C, SIGTERM, SIGHUP or, with `--ask`, until the answer is printed. What ends by itself meanwhile is
/// started again.
///
/// # Errors
/// A manifest is refused, a program is missing or does not come up, or the port is in use: each named.
pub async fn run(up: Up) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for signals")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for signals")?;
    let mut hangup = Hangup::listen().context("cannot listen for signals")?;
    let manifests = manifests::read(&up.files)?;
    for line in manifests.check()? {
        out::note(line);
    }
    free(up.listen)?;
    let folder = Folder::new(up.keep)?;
    let traces = match up.otlp.as_deref().filter(|url| !url.is_empty()) {
        Some(url) => Traces::Collector(url.to_owned()),
        None => Traces::Files(folder.inner("traces")?),
    };
    let mut fleet = Fleet::default();
    let outcome = tokio::select! {
        outcome = serve(&up, manifests, &folder, traces, &mut fleet) => outcome,
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
        () = hangup.recv() => Ok(()),
    };
    fleet.stop().await;
    if up.keep {
        out::note(format_args!("kept: {}", folder.path().display()));
    }
    outcome
}

async fn serve(
    up: &Up,
    manifests: manifests::Manifests,
    folder: &Folder,
    traces: Traces,
    fleet: &mut Fleet,
) -> Result<()> {
    let limit = Duration::from_secs(up.ready_timeout);
    let models = up.models.clone().unwrap_or_else(|| state::cache_folder().join("models"));
    let urls = fleet.start(&manifests, folder, &traces, &models, up.listen, limit).await?;
    for (policy, url) in &urls {
        out::note(format_args!("policy {policy}: OpenAI base URL {url}/v1, model `auto`"));
    }
    let Some((_, url)) = urls.first() else { bail!("no policy was started") };
    let (pid, since_us) = (std::process::id(), terrace_telemetry::time::now_us());
    let state = State { pid, since_us, url: url.clone(), traces: traces.files().to_owned() };
    let published = state.publish()?;
    if let Some(file) = &up.port_file {
        let listen = serde_json::json!({"listen": url.split_once("://").map_or(url.as_str(), |(_, at)| at)});
        terrace_telemetry::ports::write(file, &listen).with_context(|| format!("cannot write {}", file.display()))?;
    }
    let outcome = match &up.ask {
        Some(prompt) => crate::ask::run(crate::ask::Ask::plain(prompt, url)).await,
        None => {
            out::note(if url.starts_with("https://") {
                "it speaks TLS alone (listener.tls), `terrace ask` plain HTTP: ask with a client that trusts its certificate   (Ctrl-C ends everything)"
            } else {
                "ask in another terminal: terrace ask \"Why is the sky blue?\"   (Ctrl-C ends everything)"
            });
            fleet.keep_up().await;
            Ok(())
        }
    };
    drop(published);
    outcome
}

/// Says at once that a port is taken, before a model is loaded in vain.
fn free(listen: SocketAddr) -> Result<()> {
    std::net::TcpListener::bind(listen).map(drop).with_context(|| {
        format!("cannot listen on {listen}: give another address with --listen, such as 127.0.0.1:0 for any free port")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_is_a_http_url() {
        for good in ["http://127.0.0.1:4318", "http://jaeger.observability:4318/base", ""] {
            assert_eq!(collector(good).as_deref(), Ok(good));
        }
        for bad in ["nonsense", "127.0.0.1:4318", "https://jaeger:4318", "ftp://x", "http://", "http:// x"] {
            assert!(collector(bad).unwrap_err().contains("http://127.0.0.1:4318"), "{bad}");
        }
    }
}
