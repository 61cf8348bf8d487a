//! Structured logs on stderr: JSON lines for machines, short lines for a terminal.

use std::io::IsTerminal as _;

use tracing::Subscriber;
use tracing_subscriber::filter::{EnvFilter, ParseError};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, fmt};

/// The variable that holds the filter.
pub const ENV: &str = "TERRACE_LOG";

/// The layer that [`crate::init`] installs. `TERRACE_LOG_FORMAT=json|human` overrides what the terminal says.
pub(crate) fn layer<S>() -> Result<Box<dyn Layer<S> + Send + Sync>, ParseError>
where
    S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
{
    let filter = match std::env::var(ENV) {
        Ok(filter) if !filter.is_empty() => EnvFilter::try_new(filter)?,
        _ => EnvFilter::new("info"),
    };
    let human = match std::env::var("TERRACE_LOG_FORMAT").as_deref() {
        Ok("json") => false,
        Ok("human") => true,
        _ => std::io::stderr().is_terminal(),
    };
    let layer = fmt::layer().with_writer(std::io::stderr);
    Ok(if human {
        layer.compact().with_target(false).with_ansi(std::io::stderr().is_terminal()).with_filter(filter).boxed()
    } else {
        layer.json().flatten_event(true).with_span_list(false).with_filter(filter).boxed()
    })
}
