//! What a router knows of one endpoint between requests: requests in flight, what is left of what it grants, its pause
//! after a 429, its breaker, its speed.
//!
//! A plain value that is told the time, as [`crate::track::Track`] is for a device. Limits are shared by the policy's
//! replicas: each takes its part.

use terrace_contract::tier::EndpointLimits;

use crate::breaker::{Breaker, Event};
use crate::bucket::{Bucket, part};
use crate::correction::Correction;
use crate::fit::Fit;
use crate::track::{Dispatch, Ticket};
use crate::view::EndpointView;

/// The pause after a 429 that names none.
const USUAL_PAUSE_US: u64 = 1_000_000;
/// The longest pause that a peer may ask for.
const LONGEST_PAUSE_US: u64 = 600_000_000;
/// A credential that was refused is not tried again for so long.
const REFUSED_PAUSE_US: u64 = 30_000_000;

/// What a router knows of one endpoint.
#[derive(Debug, Clone, Default)]
pub struct EndpointTrack {
    in_flight: u32,
    requests: Bucket,
    tokens: Bucket,
    cooling_until_us: u64,
    breaker: Breaker,
    correction: Correction,
    fit: Fit,
    refused_until_us: u64,
}

impl EndpointTrack {
    /// The endpoint at `now_us`. `credential` says whether the file is there.
    pub fn view(&self, limits: &EndpointLimits, routers: u32, credential: bool, now_us: u64) -> EndpointView {
        let own = |limit: u32| u64::from(part(limit, routers));
        EndpointView {
            rtt_us: self.fit.rtt_us(),
            queue_us: self.fit.queue_us(),
            rates: self.fit.rates(),
            in_flight: self.in_flight,
            concurrency_left: limits.concurrency.map(|n| part(n, routers).saturating_sub(self.in_flight)),
            requests_left: limits
                .requests_per_minute
                .map(|n| u32::try_from(self.requests.left(own(n), now_us)).unwrap_or(u32::MAX)),
            tokens_left: limits.tokens_per_minute.map(|n| self.tokens.left(own(n), now_us)),
            cooling_until_us: self.cooling_until_us,
            breaker: self.breaker.state(now_us),
            // A refused credential is tried again when its file changes, or after the pause.
            credential: credential && now_us >= self.refused_until_us,
            correction: self.correction.relaxed(now_us).factor(),
        }
    }

    /// Counts a request before it is sent; none: its breaker or a limit holds it back.
    pub fn admit(&mut self, limits: &EndpointLimits, routers: u32, request: &Dispatch, now_us: u64) -> Option<Ticket> {
        let tokens = u64::from(request.prompt_tokens);
        let full = limits.concurrency.is_some_and(|n| self.in_flight >= part(n, routers));
        let per_minute = |limit: Option<u32>| limit.map(|n| u64::from(part(n, routers)));
        let (requests, token_limit) = (per_minute(limits.requests_per_minute), per_minute(limits.tokens_per_minute));
        if full
            || self.is_cooling(now_us)
            || requests.is_some_and(|n| self.requests.left(n, now_us) == 0)
            || token_limit.is_some_and(|n| self.tokens.left(n, now_us) < tokens.min(n))
        {
            return None;
        }
        let turn = self.breaker.admit_or_insist(request.insists, now_us)?;
        if let Some(n) = requests {
            let _ = self.requests.take(1, n, now_us);
        }
        if let Some(n) = token_limit {
            let _ = self.tokens.take(tokens, n, now_us);
        }
        self.in_flight += 1;
        Some(Ticket::of(turn))
    }

    /// A request ended, on whatever way. `told` says whether [`EndpointTrack::record`] heard how it went.
    pub fn release(&mut self, ticket: Ticket, told: bool) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if !told {
            self.breaker.release(ticket.turn);
        }
    }

    /// Requests in flight from here.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// A first token that was forecast had not come by then, when another attempt at the same request answered.
    pub fn outrun(&mut self, forecast_us: f64, at_least_us: u64, now_us: u64) {
        self.correction = self.correction.observe(forecast_us, at_least_us as f64, now_us);
    }

    /// How an attempt went, for the breaker.
    pub fn record(&mut self, ticket: Ticket, event: Event, now_us: u64) {
        self.breaker.record(now_us, ticket.turn, event);
        if event != Event::Failed {
            self.refused_until_us = 0;
        }
    }

    /// A 429: nothing more until the pause that it asked for is over.
    pub fn cool(&mut self, retry_after_us: Option<u64>, now_us: u64) {
        let pause = retry_after_us.unwrap_or(USUAL_PAUSE_US).min(LONGEST_PAUSE_US);
        self.cooling_until_us = self.cooling_until_us.max(now_us.saturating_add(pause));
    }

    /// Whether it is in such a pause.
    pub fn is_cooling(&self, now_us: u64) -> bool {
        now_us < self.cooling_until_us
    }

    /// A 401 or 403: the credential is not tried again for half a minute.
    pub fn credential_refused(&mut self, now_us: u64) {
        self.refused_until_us = now_us.saturating_add(REFUSED_PAUSE_US);
    }

    /// A connection was made in this time: one round trip.
    pub fn connected(&mut self, rtt_us: u64) {
        self.fit.round_trip(rtt_us);
    }

    /// A first token that was forecast and came.
    pub fn first_token(&mut self, prompt_tokens: u64, forecast_us: f64, actual_us: u64, now_us: u64) {
        self.fit.first_token(prompt_tokens, actual_us);
        self.correction = self.correction.observe(forecast_us, actual_us as f64, now_us);
    }

    /// The rest of an answer came: all its tokens, and those that the request used beyond what [`EndpointTrack::admit`]
    /// took for it.
    pub fn rest(&mut self, output_tokens: u64, beyond: u64, us: u64) {
        self.fit.rest(output_tokens, us);
        self.tokens.add(beyond);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(prompt_tokens: u32) -> Dispatch {
        Dispatch { prompt_tokens, output_tokens: 1, deadline_us: None, prefix: Default::default(), insists: false }
    }

    #[test]
    fn limits_are_shared_by_replicas_and_a_place_is_given_back() {
        let mut endpoint = EndpointTrack::default();
        let limits = EndpointLimits { concurrency: Some(2), requests_per_minute: Some(4), tokens_per_minute: None };
        let first = endpoint.admit(&limits, 2, &of(10), 1).unwrap();
        assert!(endpoint.admit(&limits, 2, &of(10), 1).is_none(), "one of two replicas has one of two");
        assert_eq!(endpoint.view(&limits, 2, true, 1).concurrency_left, Some(0));
        endpoint.release(first, true);
        let second = endpoint.admit(&limits, 2, &of(10), 1).unwrap();
        endpoint.release(second, true);
        assert_eq!(endpoint.view(&limits, 2, true, 1).requests_left, Some(0));
        assert!(endpoint.admit(&limits, 2, &of(10), 1).is_none(), "two of four a minute are used");
    }

    #[test]
    fn tokens_count_what_an_answer_used_beyond_what_was_taken() {
        let mut endpoint = EndpointTrack::default();
        let limits = EndpointLimits { tokens_per_minute: Some(1_000), ..EndpointLimits::default() };
        assert!(endpoint.admit(&limits, 1, &of(400), 60_000_000).is_some());
        endpoint.rest(500, 500, 1);
        assert_eq!(endpoint.view(&limits, 1, true, 60_000_000).tokens_left, Some(100));
        assert!(endpoint.admit(&limits, 1, &of(400), 60_000_000).is_none());
    }

    #[test]
    fn a_429_pauses_for_as_long_as_it_asks() {
        let (mut endpoint, none) = (EndpointTrack::default(), EndpointLimits::default());
        endpoint.cool(Some(5_000_000), 0);
        assert!(endpoint.is_cooling(4_999_999) && endpoint.admit(&none, 1, &of(1), 4_999_999).is_none());
        assert!(endpoint.admit(&none, 1, &of(1), 5_000_000).is_some());
    }

    #[test]
    fn a_refused_credential_rules_it_out_for_a_while() {
        let (mut endpoint, none) = (EndpointTrack::default(), EndpointLimits::default());
        endpoint.credential_refused(0);
        assert!(!endpoint.view(&none, 1, true, 1).credential);
        assert!(endpoint.view(&none, 1, true, 30_000_000).credential);
        assert!(!endpoint.view(&none, 1, false, 30_000_000).credential);
    }
}
