//! Errors as OpenAI's body, with Terrace's stable codes and the headers that SDKs heed.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use terrace_contract::headers;
use terrace_wire::error::{Code, ErrorBody};
use terrace_wire::pointer::Pointer;

use crate::engine::{Failure, Refused};

/// An answer that is none.
#[derive(Debug)]
pub(super) struct ApiError {
    pub(super) code: Code,
    pub(super) body: ErrorBody,
    retry_after: Option<Duration>,
}

impl ApiError {
    pub(super) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, body: ErrorBody::new(code, message), retry_after: None }
    }

    pub(super) fn at(self, pointer: &Pointer) -> Self {
        Self { body: self.body.at(pointer), ..self }
    }
}

impl From<ErrorBody> for ApiError {
    fn from(body: ErrorBody) -> Self {
        let code = Code::ALL.iter().copied().find(|c| c.as_str() == body.error.code).unwrap_or(Code::InvalidRequest);
        Self { code, body, retry_after: None }
    }
}

impl From<Refused> for ApiError {
    fn from(refused: Refused) -> Self {
        let code = match refused {
            Refused::QueueFull { .. } | Refused::DeadlineUnmeetable { .. } => Code::RateLimited,
            Refused::Draining { .. } => Code::Draining,
            Refused::ContextTooLong { .. } => Code::ContextTooLong,
            Refused::EmptyPrompt | Refused::TooManyChoices { .. } => Code::InvalidRequest,
            // The server has checked them: those of prompts by their places.
            Refused::UnknownToken { .. } => Code::Internal,
        };
        Self { retry_after: refused.retry_after(), ..Self::new(code, refused.to_string()) }
    }
}

impl From<Failure> for ApiError {
    fn from(failure: Failure) -> Self {
        let code = match failure {
            Failure::Refused(refused) => return refused.into(),
            Failure::DeadlineExceeded => Code::BudgetExceeded,
            Failure::Stopped => Code::Draining,
            Failure::Grammar { .. } => Code::UnsupportedFeature,
            Failure::Model { .. } => Code::Internal,
        };
        Self::new(code, failure.to_string())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let json = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        let mut response = (status, json, self.body.to_bytes()).into_response();
        if let Some(wait) = self.retry_after {
            let millis = wait.as_millis().min(u128::from(u32::MAX)) as u64;
            response.headers_mut().insert(headers::RETRY_AFTER_MS, millis.into());
            response.headers_mut().insert(header::RETRY_AFTER, millis.div_ceil(1000).into());
        }
        if self.code.fails_closed() {
            response.headers_mut().insert(headers::SHOULD_RETRY, HeaderValue::from_static("false"));
        }
        response
    }
}

pub(super) async fn no_such_path() -> ApiError {
    ApiError::new(
        Code::NotFound,
        "no such path; there are /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/models and /terrace/status",
    )
}

pub(super) async fn no_such_method() -> ApiError {
    ApiError::new(Code::MethodNotAllowed, "this path does not take that method")
}
