//! How an attempt can end without an answer, and what follows from each.

use terrace_contract::reason::Reason;
use terrace_wire::error::Code;
use terrace_wire::pointer::Pointer;

use super::connection::ConnectError;

/// Why an attempt gave no answer. No content: an upstream's words stay upstream.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// It is full, or stopping: cost it nothing, and spends no retry.
    #[error("it is full")]
    Full {
        /// When it wants to be asked again.
        retry_after_us: Option<u64>,
    },
    /// No connection.
    #[error("no connection: {0}")]
    Connect(#[from] ConnectError),
    /// The credential is missing or was refused.
    #[error("its credential is missing or was refused")]
    Credential,
    /// The request may no longer go there.
    #[error("the clearance no longer holds")]
    NotCleared(Reason),
    /// It judged the request to be the caller's mistake.
    #[error("it answered {status}")]
    Caller {
        /// Its status.
        status: u16,
        /// Our code for it.
        code: Code,
        /// The place in the call that it blames; only of a device, whose places name no content.
        at: Option<Pointer>,
    },
    /// It judged the prompt to be too long for it: another one's context may hold it.
    #[error("its context does not hold the prompt: it answered {status}")]
    TooLong {
        /// Its status.
        status: u16,
        /// The place in the call that it blames; only of a device.
        at: Option<Pointer>,
    },
    /// It answered, but not with an answer.
    #[error("it answered {status}")]
    Status {
        /// Its status.
        status: u16,
    },
    /// The connection broke, or what came is no answer.
    #[error("{0}")]
    Broken(&'static str),
    /// No first token in the time that it had.
    #[error("no first token in time")]
    Late,
    /// Another attempt at the same request answered first.
    #[error("another attempt answered first")]
    Outrun,
}

impl Failure {
    /// The reason code of the attempt.
    pub fn reason(&self) -> Reason {
        match self {
            Failure::Full { .. } => Reason::Saturated,
            Failure::Connect(ConnectError::Denied) => Reason::AddressDenied,
            Failure::Credential => Reason::Credential,
            Failure::TooLong { .. } => Reason::ContextLength,
            Failure::NotCleared(reason) => *reason,
            _ => Reason::AttemptFailed,
        }
    }

    /// Why the next tier is asked.
    pub fn overflow(&self) -> Reason {
        match self {
            Failure::Full { .. } => Reason::OverflowSaturated,
            Failure::Late => Reason::OverflowPredicted,
            Failure::TooLong { .. } => Reason::ContextLength,
            _ => Reason::OverflowDown,
        }
    }

    /// `error.type` of the attempt's span: a closed set.
    pub fn kind(&self) -> &'static str {
        match self {
            Failure::Full { .. } => "full",
            Failure::Connect(ConnectError::Denied) => "address_denied",
            Failure::Connect(ConnectError::Dns(_)) => "dns",
            Failure::Connect(ConnectError::Tls(_) | ConnectError::Configuration(_)) => "tls",
            Failure::Connect(_) => "connect",
            Failure::Credential => "credential",
            Failure::NotCleared(_) => "not_cleared",
            Failure::Caller { .. } => "caller",
            Failure::TooLong { .. } => "too_long",
            Failure::Status { .. } => "status",
            Failure::Broken(_) => "broken",
            Failure::Late => "late",
            Failure::Outrun => "outrun",
        }
    }

    /// Whether the place itself is to blame: only then its breaker hears of it, and a retry is spent.
    pub fn is_fault(&self) -> bool {
        matches!(self, Failure::Connect(_) | Failure::Status { .. } | Failure::Broken(_) | Failure::Late)
    }

    /// Whether nothing that could answer was reached at all: what a context does not hold, it could not answer.
    pub fn never_reached(&self) -> bool {
        use Failure::{Connect, Credential, Full, NotCleared, TooLong};
        matches!(self, Connect(_) | Credential | NotCleared(_) | Full { .. } | TooLong { .. })
    }
}
