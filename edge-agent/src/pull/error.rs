//! Why there is no model, in the words of the Tier's conditions.

use std::path::Path;

use terrace_contract::status::AgentFailure;

/// Why there is no model.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// The bytes are not the ones asked for.
    #[error(
        "{place} has SHA-256 {found}, but {expected} was asked for: correct the digest, or put the right file there"
    )]
    DigestMismatch {
        /// URL or path.
        place: String,
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
    /// A file that was to be there already cannot be read.
    #[error("the model {path} cannot be read: {why}")]
    NoFile {
        /// Where it should be.
        path: String,
        /// Why not, and the next step.
        why: String,
    },
    /// No room.
    #[error("{folder} has room for {room} more bytes ({bound}), {}: {next}", needed(*need, *came))]
    NoSpace {
        /// The cache.
        folder: String,
        /// What the room is bounded by.
        bound: Bound,
        /// Bytes that the model still needs; none: the source does not say how long the file is.
        need: Option<u64>,
        /// Bytes that had come.
        came: u64,
        /// Bytes that could be had, models that nobody uses already counted as gone.
        room: u64,
        /// The next step.
        next: &'static str,
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

/// What bounds a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// Its file system.
    Disk {
        /// Bytes that are free on it.
        free: u64,
        /// Bytes of it that stay free.
        spare: u64,
    },
    /// `--cache-limit`, so many bytes.
    Limit(u64),
}

impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Bound::Disk { free, spare } => {
                write!(f, "{free} are free on its disk, {spare} stay free for the node, --disk-reserve")
            }
            Bound::Limit(bytes) => write!(f, "under the cache's limit of {bytes}"),
        }
    }
}

fn needed(need: Option<u64>, came: u64) -> String {
    match need {
        Some(need) => format!("the model needs {need}"),
        None => format!("the source does not say how long its file is and had sent {came}"),
    }
}

impl PullError {
    /// The reason of the termination message.
    pub fn reason(&self) -> AgentFailure {
        match self {
            PullError::DigestMismatch { .. } => AgentFailure::DigestMismatch,
            PullError::NotFound { .. } | PullError::NoFile { .. } => AgentFailure::NotFound,
            PullError::NoSpace { .. } => AgentFailure::NoSpace,
            PullError::Unreachable { .. } => AgentFailure::Unreachable,
            PullError::Configuration(_) => AgentFailure::InvalidConfiguration,
        }
    }

    /// No room in a folder.
    pub(super) fn no_space(folder: &Path, bound: Bound, need: Option<u64>, came: u64, room: u64) -> Self {
        let next = match (bound, need) {
            (_, None) => "check that the URL is a model's, or let the source say its length (content-length)",
            (Bound::Disk { .. }, _) => "enlarge the cache or free some space",
            (Bound::Limit(_), _) => {
                "raise the limit (cache.emptyDir.sizeLimit or cache.claim.size, here --cache-limit)"
            }
        };
        PullError::NoSpace { folder: folder.display().to_string(), bound, need, came, room, next }
    }

    /// Something about a file or a folder of the cache.
    pub(super) fn file(what: &str, path: &Path, error: &std::io::Error) -> Self {
        PullError::Configuration(format!("cannot {what} {}: {error}", path.display()))
    }
}
