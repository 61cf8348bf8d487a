//! OpenAI's error body with Terrace's stable codes.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::pointer::Pointer;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $status:literal $code:literal $type:literal closed $closed:literal),* $(,)?) => {
        /// A stable error code; each has one HTTP status and one OpenAI error type.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum Code { $($(#[$doc])* #[serde(rename = $code)] $name),* }
        impl Code {
            /// Every code.
            pub const ALL: &'static [Code] = &[$(Code::$name),*];
            /// HTTP status.
            pub fn status(self) -> u16 { match self { $(Code::$name => $status),* } }
            /// The code in the body.
            pub fn as_str(self) -> &'static str { match self { $(Code::$name => $code),* } }
            /// OpenAI's `type`.
            pub fn kind(self) -> &'static str { match self { $(Code::$name => $type),* } }
            /// Whether this answer closes the door on purpose: then `x-should-retry: false` is sent, which SDKs heed.
            pub fn fails_closed(self) -> bool { match self { $(Code::$name => $closed),* } }
        }
    };
}

codes! {
    /// Malformed JSON, unknown role, forbidden field.
    InvalidRequest = 400 "invalid_request" "invalid_request_error" closed false,
    /// No key, or one that is not known.
    InvalidApiKey = 401 "invalid_api_key" "authentication_error" closed false,
    /// The class permits no tier of the ladder, ever.
    BoundaryDenied = 403 "boundary_denied" "permission_error" closed true,
    /// This identity may not do this.
    Forbidden = 403 "forbidden" "permission_error" closed true,
    /// No tier serves that model.
    ModelNotFound = 404 "model_not_found" "invalid_request_error" closed false,
    /// No such path.
    NotFound = 404 "not_found" "invalid_request_error" closed false,
    /// Not that method.
    MethodNotAllowed = 405 "method_not_allowed" "invalid_request_error" closed false,
    /// The caller must consent first.
    ConsentRequired = 409 "consent_required" "permission_error" closed true,
    /// The body is too large.
    RequestTooLarge = 413 "request_too_large" "invalid_request_error" closed false,
    /// A content encoding or type that is not read.
    UnsupportedMediaType = 415 "unsupported_media_type" "invalid_request_error" closed false,
    /// Prompt and answer do not fit.
    ContextTooLong = 422 "context_too_long" "invalid_request_error" closed false,
    /// No tier has an ability that the request needs.
    UnsupportedFeature = 422 "unsupported_feature" "invalid_request_error" closed false,
    /// A rate limit is used up, or the agent is full.
    RateLimited = 429 "rate_limited" "rate_limit_error" closed false,
    /// The program's own fault.
    Internal = 500 "internal_error" "server_error" closed false,
    /// Every permitted attempt failed.
    UpstreamFailed = 502 "upstream_failed" "server_error" closed false,
    /// Permitted tiers exist but none can answer now.
    PermittedTiersUnavailable = 503 "permitted_tiers_unavailable" "server_error" closed true,
    /// The queue is full.
    Overloaded = 503 "overloaded" "server_error" closed false,
    /// Past `overflow.maxPercent`.
    OverflowCapped = 503 "overflow_capped" "server_error" closed false,
    /// No snapshot yet.
    NoPolicy = 503 "no_policy" "server_error" closed false,
    /// It is stopping.
    Draining = 503 "draining" "server_error" closed false,
    /// Nothing could answer in time.
    BudgetExceeded = 504 "budget_exceeded" "server_error" closed false,
}

/// The body of an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// The one member.
    pub error: ErrorDetail,
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorDetail {
    /// A sentence: what, where, and what to do. Never any content.
    pub message: String,
    /// OpenAI's error type.
    pub r#type: String,
    /// JSON pointer of the field at fault.
    #[serde(default)]
    pub param: Option<String>,
    /// Stable code.
    pub code: String,
}

impl ErrorBody {
    /// An error of this code.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            error: ErrorDetail {
                message: message.into(),
                r#type: code.kind().into(),
                param: None,
                code: code.as_str().into(),
            },
        }
    }

    /// An error of this code about one place, which the sentence begins with.
    pub fn about(code: Code, at: &Pointer, what: impl std::fmt::Display) -> Self {
        Self::new(code, format!("{at}: {what}")).at(at)
    }

    /// 400 about one place.
    pub fn invalid(at: &Pointer, what: impl std::fmt::Display) -> Self {
        Self::about(Code::InvalidRequest, at, what)
    }

    /// 422 about one place: understood, but nothing here does it.
    pub fn unsupported(at: &Pointer, what: impl std::fmt::Display) -> Self {
        Self::about(Code::UnsupportedFeature, at, what)
    }

    /// With the field at fault.
    #[must_use]
    pub fn at(mut self, pointer: &Pointer) -> Self {
        self.error.param = Some(pointer.to_string());
        self
    }

    /// As the bytes of a body.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// What others call a prompt that their context does not hold: OpenAI and those that follow it, and llama.cpp.
const TOO_LONG: [&str; 2] = ["context_length_exceeded", "exceed_context_size_error"];
/// How OpenAI and vLLM, which gives it no code, say the same.
const TOO_LONG_TEXT: &str = "maximum context length";

/// Reads only the stable code of an upstream's error body and the place at fault. Nothing of its message is kept: it is
/// looked at for one thing, whether the prompt was too long, which some say in words alone.
pub fn code_of(body: &[u8]) -> (Option<Code>, Option<Pointer>) {
    let Ok(body) = serde_json::from_slice::<Value>(body) else { return (None, None) };
    // Some servers do without the envelope.
    let error = body.get("error").filter(|error| error.is_object()).unwrap_or(&body);
    let said = |name: &str| error.get(name).and_then(Value::as_str);
    let is = |name: &str, words: &[&str]| said(name).is_some_and(|word| words.contains(&word));
    let too_long = is("code", &TOO_LONG)
        || is("type", &TOO_LONG)
        || said("message").is_some_and(|message| message.contains(TOO_LONG_TEXT));
    let own = || Code::ALL.iter().copied().find(|code| said("code") == Some(code.as_str()));
    let code = if too_long { Some(Code::ContextTooLong) } else { own() };
    (code, said("param").and_then(Pointer::read))
}
