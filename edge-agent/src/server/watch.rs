//! The span and the metrics of one request.

use std::sync::Arc;
use std::time::Instant;

use axum::response::{IntoResponse as _, Response};
use http::HeaderMap;
use terrace_telemetry::names::attribute;
use terrace_telemetry::traces;
use tracing::{Span, field};

use super::Agent;
use super::error::ApiError;
use super::meters::Outcome;
use crate::engine::{Done, Usage};

/// One request from its arrival; one that nobody ended was cancelled.
pub(super) struct Watch {
    pub(super) span: Span,
    pub(super) arrived: Instant,
    agent: Arc<Agent>,
    /// When each choice had its last token.
    tokens: Vec<Option<Instant>>,
    /// The trace, once the first token came, if it is kept.
    trace: Option<String>,
    outcome: Outcome,
}

impl Watch {
    /// Of `gen_ai.operation.name`.
    pub(super) fn begin(agent: Arc<Agent>, operation: &'static str, headers: &HeaderMap) -> Self {
        let model = &agent.model.name;
        let span = tracing::info_span!(
            "chat",
            otel.name = format!("{operation} {model}"),
            otel.kind = "server",
            otel.status_code = field::Empty,
            gen_ai.operation.name = operation,
            gen_ai.request.model = model,
            gen_ai.response.finish_reasons = field::Empty,
            gen_ai.usage.input_tokens = field::Empty,
            gen_ai.usage.output_tokens = field::Empty,
            terrace.queue_us = field::Empty,
            http.response.status_code = field::Empty,
            "error.type" = field::Empty,
        );
        traces::set_parent(&span, headers);
        Self { span, arrived: Instant::now(), agent, tokens: Vec::new(), trace: None, outcome: Outcome::Cancelled }
    }

    pub(super) fn queued(&self, queued: std::time::Duration) {
        self.span.record(attribute::QUEUE_US, queued.as_micros() as i64);
        self.agent.meters.queued(queued);
    }

    /// A token of a choice came.
    pub(super) fn token(&mut self, choice: usize) {
        let now = Instant::now();
        if self.tokens.is_empty() {
            self.trace = traces::kept_id(&self.span);
            self.agent.meters.first_token(now.duration_since(self.arrived), self.trace.as_deref());
        }
        if self.tokens.len() <= choice {
            self.tokens.resize(choice + 1, None);
        }
        if let Some(last) = self.tokens[choice].replace(now) {
            self.agent.meters.token(now.duration_since(last));
        }
    }

    /// A choice is complete.
    pub(super) fn choice(&self, done: &Done) {
        self.agent.meters.choice(done, self.trace.as_deref());
    }

    /// All of it is.
    pub(super) fn answered(&mut self, tokens: Usage, finish_reasons: &[&str]) {
        self.outcome = Outcome::Answered;
        self.agent.meters.answered(tokens, self.arrived.elapsed());
        self.span.record(attribute::INPUT_TOKENS, i64::from(tokens.prompt));
        self.span.record(attribute::OUTPUT_TOKENS, i64::from(tokens.completion));
        if !finish_reasons.is_empty() {
            self.span.record(attribute::FINISH_REASONS, finish_reasons.join(","));
        }
        self.span.record(attribute::STATUS_CODE, 200);
    }

    /// Ends it with an error.
    pub(super) fn fail(&mut self, error: ApiError) -> ApiError {
        self.outcome = match error.code.status() {
            429 | 503 => Outcome::Refused,
            400..500 => Outcome::Invalid,
            _ => Outcome::Failed,
        };
        self.span.record(attribute::STATUS_CODE, i64::from(error.code.status()));
        self.span.record(attribute::ERROR_TYPE, error.code.as_str());
        if error.code.status() >= 500 {
            self.span.record("otel.status_code", "ERROR");
        }
        error
    }

    pub(super) fn refuse(mut self, error: ApiError) -> Response {
        self.fail(error).into_response()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.agent.meters.ended(self.outcome);
        if self.outcome == Outcome::Cancelled {
            self.span.record(attribute::ERROR_TYPE, "client_gone");
        }
        // A stream outlives the handler that the span was entered for.
        traces::end_now(&self.span);
        tracing::debug!(
            parent: &self.span, outcome = self.outcome.as_str(), total_ms = self.arrived.elapsed().as_millis() as u64, "ended"
        );
    }
}
