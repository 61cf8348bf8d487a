//! `terrace crds`: the custom resource definitions, as `kubectl apply -f -` takes them.

use std::io::Write as _;

use anyhow::{Context, Result};

/// Prints them.
///
/// # Errors
/// The output was closed.
pub fn run() -> Result<()> {
    std::io::stdout().write_all(terrace_crds::render().as_bytes()).context("the output was closed")
}
