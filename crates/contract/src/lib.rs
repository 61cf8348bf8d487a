//! What crosses a process boundary between Terrace's programs. Serde only: no runtime, no Kubernetes, no I/O.
//!
//! Money is in micro-units of the policy's currency, latencies in microseconds, instants in microseconds since the
//! Unix epoch, shares in whole percents. A reader ignores fields that it does not know and refuses a
//! `schemaVersion` that it does not know ([`check_version`]).

pub mod canonical;
pub mod confidence;
pub mod cost;
pub mod explanation;
pub mod headers;
pub mod load;
pub mod names;
pub mod policy;
pub mod reason;
pub mod report;
pub mod sketch;
pub mod snapshot;
pub mod spent;
pub mod status;
pub mod tier;
pub mod trust;
pub mod units;

/// The version of every document in this crate.
pub const SCHEMA_VERSION: u32 = 1;

/// A document of a version that this program does not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownVersion {
    /// What the document said.
    pub found: u32,
}

impl std::fmt::Display for UnknownVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "schemaVersion {} is not known here, only {SCHEMA_VERSION}: upgrade this program or the one that wrote it",
            self.found
        )
    }
}

impl std::error::Error for UnknownVersion {}

/// Refuses a document of an unknown version by name.
///
/// # Errors
/// [`UnknownVersion`] when `found` is not [`SCHEMA_VERSION`].
pub fn check_version(found: u32) -> Result<(), UnknownVersion> {
    if found == SCHEMA_VERSION { Ok(()) } else { Err(UnknownVersion { found }) }
}
