//! Why this program ends before it serves: one sentence, and one reason that the operator shows in a condition.

use std::io::Write as _;
use std::path::Path;

use terrace_contract::status::{AgentFailure, Termination};

use crate::args::TERMINATION_LOG;
use crate::pull::PullError;

/// Why this program cannot serve.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The reason of a condition.
    pub reason: AgentFailure,
    /// A sentence that names the thing and the next step.
    pub message: String,
}

impl Failure {
    /// Of this reason.
    pub fn new(reason: AgentFailure, message: impl std::fmt::Display) -> Self {
        Self { reason, message: message.to_string() }
    }

    /// A flag, a file or an address.
    pub fn configuration(message: impl std::fmt::Display) -> Self {
        Self::new(AgentFailure::InvalidConfiguration, message)
    }

    /// Leaves it where the kubelet reads it. The usual place exists only in a pod and is never made.
    ///
    /// # Errors
    /// What the file system says.
    pub fn leave(&self, path: &Path) -> std::io::Result<()> {
        let usual = path == Path::new(TERMINATION_LOG);
        if usual && !path.exists() {
            return Ok(());
        }
        let message = Termination { reason: self.reason, message: self.message.clone() };
        let mut file = std::fs::File::options().write(true).create(!usual).truncate(true).open(path)?;
        file.write_all(&serde_json::to_vec(&message)?)
    }
}

impl From<PullError> for Failure {
    fn from(error: PullError) -> Self {
        Self::new(error.reason(), error)
    }
}
