//! Logs, traces, metrics, the admin server and orderly shutdown: the same in every program.
//!
//! No content in telemetry: prompts and answers live in [`Redacted`], which prints a length.

pub mod admin;
pub mod logs;
pub mod metrics;
pub mod names;
pub mod ports;
pub mod shutdown;
pub mod spans;
pub mod time;
pub mod traces;

mod collector;
mod redacted;
mod sampling;
mod trace_file;

use std::path::PathBuf;

use tracing_subscriber::Layer as _;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

pub use admin::{Gate, Health};
pub use metrics::Metrics;
pub use redacted::Redacted;
pub use sampling::Sampling;
pub use spans::Spans;

/// What a program tells this crate at its start.
#[derive(Debug, Clone)]
pub struct Options {
    /// `service.name`: `terrace-router`, `terrace-agent`, `terrace-operator`.
    pub service: &'static str,
    /// Base address of an OTLP collector over HTTP, for example `http://jaeger:4318`; none: no export.
    pub otlp_endpoint: Option<String>,
    /// A file that gets one JSON line a finished span.
    pub trace_file: Option<PathBuf>,
    /// Share of the traces begun here that is kept. A caller's decision is always followed.
    pub sample_percent: u8,
}

impl Options {
    /// From `OTEL_EXPORTER_OTLP_ENDPOINT` and `TERRACE_TRACE_FILE`; every trace is kept.
    pub fn from_env(service: &'static str) -> Self {
        let env = |name| std::env::var(name).ok().filter(|v: &String| !v.is_empty());
        Self {
            service,
            otlp_endpoint: env("OTEL_EXPORTER_OTLP_ENDPOINT"),
            trace_file: env("TERRACE_TRACE_FILE").map(PathBuf::from),
            sample_percent: 100,
        }
    }
}

/// Why telemetry could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// A log filter that cannot be read.
    #[error("TERRACE_LOG cannot be read: {0}; use for example `info` or `info,terrace_router=debug`")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    /// A collector's address that cannot be used.
    #[error("the OTLP endpoint {endpoint:?} cannot be used: {why}; use for example http://jaeger:4318")]
    Endpoint {
        /// What was given.
        endpoint: String,
        /// Why not.
        why: String,
    },
    /// The trace file cannot be opened.
    #[error("the trace file {path} cannot be opened: {source}")]
    TraceFile {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// Called twice.
    #[error("telemetry is set up once, first thing in main: {0}")]
    Twice(#[from] tracing_subscriber::util::TryInitError),
}

/// Keeps telemetry going; sends what is left when dropped.
#[must_use = "spans are sent when this is dropped"]
pub struct Guard {
    provider: Option<opentelemetry_sdk::trace::SdkTracerProvider>,
    spans: Option<Spans>,
}

impl Guard {
    /// Where spans go that are made once they have ended; none: traces go nowhere.
    pub fn spans(&self) -> Option<Spans> {
        self.spans.clone()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(provider) = &self.provider {
            // What cannot be sent within this time is lost; the exporter has said so.
            let _ = provider.shutdown_with_timeout(std::time::Duration::from_secs(2));
        }
    }
}

/// Sets up logs and traces for this process.
///
/// # Errors
/// A filter, an address or a file that cannot be used, by name.
pub fn init(options: Options) -> Result<Guard, InitError> {
    let (provider, spans) = traces::provider(&options)?.unzip();
    let layer = provider.as_ref().map(|provider| traces::layer(provider, options.service).boxed());
    tracing_subscriber::registry().with(logs::layer()?).with(layer).try_init()?;
    Ok(Guard { provider, spans })
}
