//! One endpoint's state: requests in flight, what it grants a minute, its pause after a 429, its breaker, its speed.
//!
//! Limits are shared by the policy's replicas: each takes its part.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use terrace_contract::tier::EndpointLimits;
use terrace_decide::EndpointView;
use terrace_decide::breaker::{Breaker, Event};
use terrace_decide::correction::Correction;
use terrace_decide::fit::Fit;

use crate::server::rate::{Bucket, part};

/// The pause after a 429 that names none.
const USUAL_PAUSE_US: u64 = 1_000_000;
/// The longest pause that a peer may ask for.
const LONGEST_PAUSE_US: u64 = 600_000_000;

/// One endpoint.
#[derive(Debug, Default)]
pub struct Endpoint(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    in_flight: u32,
    requests: Bucket,
    tokens: Bucket,
    cooling_until_us: u64,
    breaker: Breaker,
    correction: Correction,
    fit: Fit,
    refused: Option<u64>,
    unreachable: &'static str,
}

impl Endpoint {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The endpoint at `now_us`. `credential` says whether the file is there.
    pub fn view(&self, limits: &EndpointLimits, routers: u32, credential: bool, now_us: u64) -> EndpointView {
        let state = self.state();
        EndpointView {
            rtt_us: state.fit.rtt_us(),
            queue_us: state.fit.queue_us(),
            rates: state.fit.rates(),
            in_flight: state.in_flight,
            concurrency_left: limits.concurrency.map(|n| part(n, routers).saturating_sub(state.in_flight)),
            requests_left: limits
                .requests_per_minute
                .map(|n| u32::try_from(state.requests.left(part(n, routers).into(), now_us)).unwrap_or(u32::MAX)),
            tokens_left: limits.tokens_per_minute.map(|n| state.tokens.left(part(n, routers).into(), now_us)),
            cooling_until_us: state.cooling_until_us,
            breaker: state.breaker.state(now_us),
            // A refused credential is tried again when its file changes, or after the pause.
            credential: credential && state.refused.is_none_or(|until| now_us >= until),
            correction: state.correction.relaxed(now_us).factor(),
        }
    }

    /// Counts a request before it is sent; none: its breaker or a limit holds it back.
    pub fn admit(
        self: &Arc<Self>,
        limits: &EndpointLimits,
        routers: u32,
        tokens: u64,
        now_us: u64,
    ) -> Option<EndpointGuard> {
        let mut state = self.state();
        let full = limits.concurrency.is_some_and(|n| state.in_flight >= part(n, routers));
        let per_minute = |limit: Option<u32>| limit.map(|n| u64::from(part(n, routers)));
        let (requests, token_limit) = (per_minute(limits.requests_per_minute), per_minute(limits.tokens_per_minute));
        if full
            || now_us < state.cooling_until_us
            || requests.is_some_and(|n| state.requests.left(n, now_us) == 0)
            || token_limit.is_some_and(|n| state.tokens.left(n, now_us) < tokens.min(n))
            || !state.breaker.admit(now_us)
        {
            return None;
        }
        if let Some(n) = requests {
            let _ = state.requests.take(1, n, now_us);
        }
        if let Some(n) = token_limit {
            let _ = state.tokens.take(tokens, n, now_us);
        }
        state.in_flight += 1;
        drop(state);
        Some(EndpointGuard { endpoint: Arc::clone(self), expected_tokens: tokens, told: false })
    }

    /// Why it could not be reached last; empty: it could.
    pub fn reachability(&self, now_us: u64) -> &'static str {
        let state = self.state();
        if now_us < state.cooling_until_us { "RateLimited" } else { state.unreachable }
    }

    /// It could not be reached: a reason of the condition `Reachable`.
    pub fn unreachable(&self, reason: &'static str) {
        self.state().unreachable = reason;
    }
}

/// One request in flight to an endpoint.
#[derive(Debug)]
pub struct EndpointGuard {
    endpoint: Arc<Endpoint>,
    expected_tokens: u64,
    told: bool,
}

impl EndpointGuard {
    /// The endpoint.
    pub fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }

    /// How the attempt went, for the breaker.
    pub fn record(&mut self, event: Event, now_us: u64) {
        self.told = true;
        let mut state = self.endpoint.state();
        state.breaker.record(now_us, event);
        if event != Event::Failed {
            state.unreachable = "";
            state.refused = None;
        }
    }

    /// A 429: nothing more until the pause that it asked for is over.
    pub fn cool(&mut self, retry_after_us: Option<u64>, now_us: u64) {
        let pause = retry_after_us.unwrap_or(USUAL_PAUSE_US).min(LONGEST_PAUSE_US);
        let mut state = self.endpoint.state();
        state.cooling_until_us = state.cooling_until_us.max(now_us + pause);
    }

    /// A 401 or 403: the credential is not tried again for half a minute.
    pub fn credential_refused(&mut self, now_us: u64) {
        let mut state = self.endpoint.state();
        state.refused = Some(now_us + 30_000_000);
        state.unreachable = "CredentialRejected";
    }

    /// A connection was made.
    pub fn connected(&self, rtt_us: u64) {
        self.endpoint.state().fit.round_trip(rtt_us);
    }

    /// A first token that was forecast and came.
    pub fn first_token(&self, prompt_tokens: u64, forecast_us: f64, actual_us: u64, now_us: u64) {
        let mut state = self.endpoint.state();
        state.fit.first_token(prompt_tokens, actual_us);
        state.correction = state.correction.observe(forecast_us, actual_us as f64, now_us);
    }

    /// The rest of an answer, and what it used in all.
    pub fn rest(&self, output_tokens: u64, all_tokens: u64, us: u64) {
        let mut state = self.endpoint.state();
        state.fit.rest(output_tokens, us);
        state.tokens.add(all_tokens.saturating_sub(self.expected_tokens));
    }
}

impl Drop for EndpointGuard {
    fn drop(&mut self) {
        let mut state = self.endpoint.state();
        state.in_flight = state.in_flight.saturating_sub(1);
        if !self.told {
            state.breaker.release();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_shared_by_replicas_and_a_guard_gives_its_place_back() {
        let endpoint = Arc::new(Endpoint::default());
        let limits = EndpointLimits { concurrency: Some(2), requests_per_minute: Some(4), tokens_per_minute: None };
        let first = endpoint.admit(&limits, 2, 10, 1).unwrap();
        assert!(endpoint.admit(&limits, 2, 10, 1).is_none(), "one of two replicas has one of two");
        assert_eq!(endpoint.view(&limits, 2, true, 1).concurrency_left, Some(0));
        drop(first);
        assert!(endpoint.admit(&limits, 2, 10, 1).is_some());
        assert_eq!(endpoint.view(&limits, 2, true, 1).requests_left, Some(0));
        assert!(endpoint.admit(&limits, 2, 10, 1).is_none(), "two of four a minute are used");
    }

    #[test]
    fn a_429_pauses_for_as_long_as_it_asks() {
        let endpoint = Arc::new(Endpoint::default());
        let none = EndpointLimits::default();
        endpoint.admit(&none, 1, 1, 0).unwrap().cool(Some(5_000_000), 0);
        assert!(endpoint.admit(&none, 1, 1, 4_999_999).is_none());
        assert_eq!(endpoint.reachability(1), "RateLimited");
        assert!(endpoint.admit(&none, 1, 1, 5_000_000).is_some());
    }

    #[test]
    fn a_refused_credential_rules_it_out_for_a_while() {
        let endpoint = Arc::new(Endpoint::default());
        let none = EndpointLimits::default();
        endpoint.admit(&none, 1, 1, 0).unwrap().credential_refused(0);
        assert!(!endpoint.view(&none, 1, true, 1).credential);
        assert!(endpoint.view(&none, 1, true, 30_000_000).credential);
        assert!(!endpoint.view(&none, 1, false, 30_000_000).credential);
    }
}
