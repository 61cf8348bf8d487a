//! `terrace crds`: the custom resource definitions, as `kubectl apply -f -` takes them.

use anyhow::Result;

use crate::out;

/// Prints them.
///
/// # Errors
/// The output was closed.
pub fn run() -> Result<()> {
    out::text(&terrace_crds::render())
}
