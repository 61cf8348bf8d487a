//! Why a tier or device was chosen or ruled out: a closed set, in spans, headers and `terrace explain`.

use serde::{Deserialize, Serialize};

macro_rules! reasons {
    ($($(#[doc = $doc:literal])* $name:ident = $code:literal),* $(,)?) => {
        /// One reason code.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub enum Reason { $($(#[doc = $doc])* #[serde(rename = $code)] $name),* }
        impl Reason {
            /// Every reason.
            pub const ALL: &'static [Reason] = &[$(Reason::$name),*];
            /// Its code, as it appears in headers and spans.
            pub fn code(self) -> &'static str { match self { $(Reason::$name => $code),* } }
            /// What it means, in a sentence.
            pub fn sentence(self) -> &'static str { match self { $(Reason::$name => concat!($($doc),*).trim_start()),* } }
        }
    };
}

reasons! {
    // Why a tier was chosen.
    /// The nearest tier that may, can and is quick enough.
    Nearest = "nearest",
    /// It scored best among those left.
    BestScore = "best_score",
    /// The client named its model.
    ModelRequested = "model_requested",
    /// The request is judged complex; a more able tier was preferred.
    Complex = "complex",
    /// A nearer tier was full.
    OverflowSaturated = "overflow_saturated",
    /// A nearer tier was predicted to be late.
    OverflowPredicted = "overflow_predicted",
    /// A nearer tier did not answer.
    OverflowDown = "overflow_down",
    /// An attempt failed before its first token and another place was tried.
    Retried = "retried",
    /// It waited for room, since every permitted tier was full.
    Queued = "queued",
    /// The first token was late; a second attempt elsewhere was started beside it.
    Hedged = "hedged",
    /// A nearer tier answers than the one decided.
    Degraded = "degraded",
    /// The answer was not sure enough.
    Escalated = "escalated",
    // Why a tier or device was ruled out.
    /// The class does not permit its boundary.
    Boundary = "boundary",
    /// The snapshot is too old for Public.
    StalePolicy = "stale_policy",
    /// Its region is not permitted for the class.
    Residency = "residency",
    /// It serves another domain's routers.
    Locality = "locality",
    /// The client asked for another model.
    Model = "model",
    /// The prompt and answer do not fit.
    ContextLength = "context_length",
    /// It lacks an ability that the request needs.
    Capability = "capability",
    /// It has no device that is up.
    NoDevice = "no_device",
    /// Its breaker is open.
    BreakerOpen = "breaker_open",
    /// It is full.
    Saturated = "saturated",
    /// It is predicted to miss the budget.
    PredictedLate = "predicted_late",
    /// A rate limit of it is used up.
    RateLimited = "rate_limited",
    /// A spend limit is used up.
    SpendLimit = "spend_limit",
    /// Its credential is missing or refused.
    Credential = "credential",
    /// The share of overflow is used up.
    OverflowCapped = "overflow_capped",
    /// Its load report is too old.
    StaleLoad = "stale_load",
    /// It failed in this request.
    AttemptFailed = "attempt_failed",
    /// The address it resolves to is not inside what the tier allows.
    AddressDenied = "address_denied",
    /// The request came through this policy before.
    Loop = "loop",
    // Why the class is what it is.
    /// The policy's floor.
    ClassFloor = "class_floor",
    /// The caller's label.
    ClassLabel = "class_label",
    /// The detector.
    ClassDetector = "class_detector",
    /// The conversation's earlier class.
    ClassSession = "class_session",
    /// The detector failed: Restricted.
    DetectorError = "detector_error",
    /// The detector took too long: Restricted.
    DetectorTimeout = "detector_timeout",
    /// Content that cannot be read: Restricted.
    Unreadable = "unreadable",
    // Why a request ended without an answer.
    /// The time is used up.
    BudgetExceeded = "budget_exceeded",
    /// The chain has made its calls.
    ChainHops = "chain_hops",
    /// The chain has used up its time.
    ChainTime = "chain_time",
    /// The client went away.
    ClientGone = "client_gone",
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.code())
    }
}

/// Codes, comma separated, as the header and the span carry them.
pub fn join<'a>(reasons: impl IntoIterator<Item = &'a Reason>) -> String {
    reasons.into_iter().map(|r| r.code()).collect::<Vec<_>>().join(",")
}
