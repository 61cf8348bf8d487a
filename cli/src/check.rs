//! `terrace check`: manifests as the API server and the operator would take them, without either.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::out;
use crate::up::manifests;

/// Options of `terrace check`.
#[derive(Debug, Clone, Args)]
pub struct Check {
    /// Manifests: a file, or a folder of YAML files. May be given more than once.
    #[arg(short = 'f', long = "filename", required = true)]
    pub files: Vec<PathBuf>,
}

/// Checks the manifests of a fleet or a part of one, and says what is accepted without effect yet and what refers to a
/// kind that is not among them.
///
/// # Errors
/// Everything that would be refused, with file, document, object, path and what to write instead.
pub fn run(check: &Check) -> Result<()> {
    let manifests = manifests::read(&check.files)?;
    for line in manifests.part()? {
        out::line(line)?;
    }
    out::line("the manifests hold")
}
