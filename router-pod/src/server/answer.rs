//! Responses: the headers that go back with every one, and error bodies.

use axum::body::Body;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use terrace_contract::headers;
use terrace_contract::reason::{self, Reason};
use terrace_wire::messages;

use super::language::Api;
use crate::refusal::{Refusal, Tried};
use crate::trace::Trace;

/// Room for the headers of a response, those of the HTTP library included.
const HEADERS: usize = 16;

/// The headers of every response to a client.
#[derive(Debug, Clone)]
pub struct Back {
    headers: HeaderMap,
    /// The request's id, where errors are in Anthropic's shape.
    anthropic: Option<String>,
}

impl Back {
    /// With the request's id and where to look.
    pub fn new(request_id: &str, trace: &Trace) -> Self {
        let mut back = Self { headers: HeaderMap::with_capacity(HEADERS), anthropic: None };
        trace.answer(&mut back.headers);
        back.set(const { HeaderName::from_static(headers::REQUEST_ID) }, request_id);
        back
    }

    /// To a client of this API.
    #[must_use]
    pub fn speaking(mut self, api: Api) -> Self {
        if api == Api::Messages
            && let Some(id) = self.headers.get(headers::REQUEST_ID).cloned()
        {
            self.anthropic = id.to_str().ok().map(str::to_owned);
            // Where Anthropic's packages look for it.
            self.headers.insert("request-id", id);
        }
        self
    }

    /// Who answered, or who was tried last.
    pub fn place(&mut self, tried: &Tried) {
        self.set(const { HeaderName::from_static(headers::TIER) }, &tried.tier);
        self.set(const { HeaderName::from_static(headers::DEVICE) }, &tried.device);
        self.set(const { HeaderName::from_static(headers::BOUNDARY) }, tried.boundary);
    }

    /// Why.
    pub fn reasons(&mut self, reasons: &[Reason]) {
        self.set(const { HeaderName::from_static(headers::REASON) }, &reason::join(reasons));
    }

    /// What to present as this session from now on.
    pub fn session(&mut self, token: &str) {
        self.set(const { HeaderName::from_static(headers::SESSION) }, token);
    }

    /// `full` or `degraded`.
    pub fn quality(&mut self, degraded: bool) {
        self.set(const { HeaderName::from_static(headers::QUALITY) }, if degraded { "degraded" } else { "full" });
    }

    /// What it cost.
    pub fn cost(&mut self, micros: u64) {
        self.set(const { HeaderName::from_static(headers::COST_MICROS) }, &micros.to_string());
    }

    fn set(&mut self, name: HeaderName, value: &str) {
        // Node and host names are the only values that come from outside, and those that no header can carry are left out.
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
    }

    /// A JSON response.
    pub fn json(self, status: StatusCode, body: impl Into<Body>) -> Response<Body> {
        self.response(status, "application/json", body.into())
    }

    /// A stream of events.
    pub fn events(self, body: Body) -> Response<Body> {
        let mut response = self.response(StatusCode::OK, "text/event-stream; charset=utf-8", body);
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        response
    }

    /// An error.
    pub fn refusal(mut self, refusal: &Refusal) -> Response<Body> {
        if let Some(tried) = &refusal.tried {
            self.place(tried);
        }
        self.reasons(&refusal.reasons);
        if refusal.is_final() {
            self.set(const { HeaderName::from_static(headers::SHOULD_RETRY) }, "false");
        }
        if let Some(us) = refusal.retry_after_us {
            self.set(const { HeaderName::from_static(headers::RETRY_AFTER_MS) }, &us.div_ceil(1000).max(1).to_string());
            self.set(const { HeaderName::from_static("retry-after") }, &us.div_ceil(1_000_000).max(1).to_string());
        }
        let status = StatusCode::from_u16(refusal.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = match &self.anthropic {
            Some(id) => messages::error(refusal.code, &refusal.body(), Some(id)).to_string().into_bytes(),
            None => refusal.body().to_bytes(),
        };
        self.json(status, body)
    }

    fn response(self, status: StatusCode, kind: &'static str, body: Body) -> Response<Body> {
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = self.headers;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        response
    }
}
