//! Headers that a client may send and gets back. A router drops every other `x-terrace-*`.

/// The caller's context; selects a LatencyBudget.
pub const FEATURE: &str = "x-terrace-feature";
/// A chain of calls.
pub const SESSION: &str = "x-terrace-session";
/// Raises the class (lowers the floor only with a key that has `trustLabel`).
pub const CLASS: &str = "x-terrace-class";
/// `privacy`, `latency`, `cost` or `quality`.
pub const PREFER: &str = "x-terrace-prefer";

/// Back: the request's id, also on errors.
pub const REQUEST_ID: &str = "x-terrace-request-id";
/// Back: the tier that answered.
pub const TIER: &str = "x-terrace-tier";
/// Back: the device that answered (its node, or the endpoint's host).
pub const DEVICE: &str = "x-terrace-device";
/// Back: the boundary of that tier.
pub const BOUNDARY: &str = "x-terrace-boundary";
/// Back: reason codes of the plan, comma separated, also on errors.
pub const REASON: &str = "x-terrace-reason";
/// Back: `full` or `degraded`.
pub const QUALITY: &str = "x-terrace-quality";
/// Back: what it cost, micro-units. In a trailer-less stream it rides in the last event's `terrace` member.
pub const COST_MICROS: &str = "x-terrace-cost-micros";

/// Router to agent: the time that remains, milliseconds.
pub const DEADLINE_MS: &str = "x-terrace-deadline-ms";
/// Router to agent: `1` asks for [`crate::confidence::Confidence`] and [`crate::cost::Cost`].
pub const CONFIDENCE: &str = "x-terrace-confidence";
/// Router to agent: `mean`, `last` or `mean,last` asks for those hidden states of the prompt, beside the answer. The mean
/// is over every token, so for it nothing of the prompt is taken from the KV cache.
pub const HIDDEN: &str = "x-terrace-hidden";
/// Router to agent: an opaque name of those who may share computed prompts. Requests of one policy's routers with the
/// same name find each other's blocks in the agent's KV cache; one without a name shares with nobody.
pub const CACHE_DOMAIN: &str = "x-terrace-cache-domain";
/// Router to router: UIDs of the policies that a request passed; stops loops.
pub const VIA: &str = "x-terrace-via";
/// Agent to router: the load line ([`crate::load::Load`]).
pub const LOAD: &str = "endpoint-load-metrics";
/// Gateway to agent: `TEXT` or `JSON`, the form of the load line.
pub const LOAD_FORMAT: &str = "endpoint-load-metrics-format";
/// With a 429: when to come back, milliseconds.
pub const RETRY_AFTER_MS: &str = "retry-after-ms";
/// `false` on fail-closed answers: OpenAI's SDKs heed it.
pub const SHOULD_RETRY: &str = "x-should-retry";
