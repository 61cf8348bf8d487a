//! Why there is no model, in the words of the Tier's conditions.

use terrace_contract::status::AgentFailure;

/// Why there is no model.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// The bytes are not the ones asked for.
    #[error("{url} has SHA-256 {found}, but {expected} was asked for: correct the digest, or put the right file there")]
    DigestMismatch {
        /// Where from.
        url: String,
        /// What was asked for.
        expected: String,
        /// What came.
        found: String,
    },
    /// The source answers, but not with the file.
    #[error("{url} answers HTTP {status}: {hint}")]
    NotFound {
        /// Where from.
        url: String,
        /// The status.
        status: u16,
        /// The next step.
        hint: &'static str,
    },
    /// No room.
    #[error("{folder} has {free} bytes free, the model needs {need} more: enlarge the cache or free some space")]
    NoSpace {
        /// The cache.
        folder: String,
        /// Bytes that are missing from the file.
        need: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// No answer, or one that broke off.
    #[error("{url} cannot be reached: {why}")]
    Unreachable {
        /// Where from.
        url: String,
        /// Why not.
        why: String,
    },
    /// A flag, a file or a folder on this side.
    #[error("{0}")]
    Configuration(String),
}

impl PullError {
    /// The reason of the termination message.
    pub fn reason(&self) -> AgentFailure {
        match self {
            PullError::DigestMismatch { .. } => AgentFailure::DigestMismatch,
            PullError::NotFound { .. } => AgentFailure::NotFound,
            PullError::NoSpace { .. } => AgentFailure::NoSpace,
            PullError::Unreachable { .. } => AgentFailure::Unreachable,
            PullError::Configuration(_) => AgentFailure::InvalidConfiguration,
        }
    }
}
