//! One endpoint: what is known of it, shared by all requests, and why it could not be reached.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use terrace_contract::tier::EndpointLimits;
use terrace_decide::EndpointView;
use terrace_decide::breaker::Event;
use terrace_decide::endpoint::EndpointTrack;
use terrace_decide::track::{Dispatch, Ticket};

/// One endpoint.
#[derive(Debug, Default)]
pub struct Endpoint(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    track: EndpointTrack,
    unreachable: &'static str,
}

impl Endpoint {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The endpoint at `now_us`. `credential` says whether the file is there.
    pub fn view(&self, limits: &EndpointLimits, routers: u32, credential: bool, now_us: u64) -> EndpointView {
        self.state().track.view(limits, routers, credential, now_us)
    }

    /// Counts a request before it is sent; none: its breaker or a limit holds it back.
    pub fn admit(
        self: &Arc<Self>,
        limits: &EndpointLimits,
        routers: u32,
        request: &Dispatch,
        now_us: u64,
    ) -> Option<EndpointGuard> {
        let ticket = self.state().track.admit(limits, routers, request, now_us)?;
        let endpoint = Arc::clone(self);
        Some(EndpointGuard {
            endpoint,
            ticket,
            expected_tokens: request.prompt_tokens.into(),
            told: false,
            well: false,
        })
    }

    /// Why it could not be reached last; empty: it could.
    pub fn reachability(&self, now_us: u64) -> &'static str {
        let state = self.state();
        if state.track.is_cooling(now_us) { "RateLimited" } else { state.unreachable }
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
    ticket: Ticket,
    expected_tokens: u64,
    told: bool,
    /// Its first token came in time.
    well: bool,
}

impl EndpointGuard {
    /// The endpoint.
    pub fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }

    /// How the attempt went, for the breaker.
    pub fn record(&mut self, event: Event, now_us: u64) {
        self.told = true;
        self.well = event == Event::Began;
        let mut state = self.endpoint.state();
        state.track.record(self.ticket, event, now_us);
        if event != Event::Failed {
            state.unreachable = "";
        }
    }

    /// A 429: nothing more until the pause that it asked for is over.
    pub fn cool(&mut self, retry_after_us: Option<u64>, now_us: u64) {
        self.endpoint.state().track.cool(retry_after_us, now_us);
    }

    /// A 401 or 403: the credential is not tried again for half a minute.
    pub fn credential_refused(&mut self, now_us: u64) {
        let mut state = self.endpoint.state();
        state.track.credential_refused(now_us);
        state.unreachable = "CredentialRejected";
    }

    /// A connection was made.
    pub fn connected(&self, rtt_us: u64) {
        self.endpoint.state().track.connected(rtt_us);
    }

    /// The answer ended well; one that began late stays slow.
    pub fn ended(&mut self, now_us: u64) {
        if self.well {
            self.record(Event::Ok, now_us);
        }
    }

    /// A first token that was forecast and came.
    pub fn first_token(&self, prompt_tokens: u64, forecast_us: f64, actual_us: u64, now_us: u64) {
        self.endpoint.state().track.first_token(prompt_tokens, forecast_us, actual_us, now_us);
    }

    /// A first token that was forecast and had not come by then.
    pub fn outrun(&self, forecast_us: f64, at_least_us: u64, now_us: u64) {
        self.endpoint.state().track.outrun(forecast_us, at_least_us, now_us);
    }

    /// The rest of an answer, and what it used in all.
    pub fn rest(&self, output_tokens: u64, all_tokens: u64, us: u64) {
        let beyond = all_tokens.saturating_sub(self.expected_tokens);
        self.endpoint.state().track.rest(output_tokens, beyond, us);
    }
}

impl Drop for EndpointGuard {
    fn drop(&mut self) {
        self.endpoint.state().track.release(self.ticket, self.told);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_gives_its_place_back_and_a_pause_shows() {
        let endpoint = Arc::new(Endpoint::default());
        let request =
            Dispatch { prompt_tokens: 1, output_tokens: 1, deadline_us: None, prefix: Arc::default(), insists: false };
        let one = EndpointLimits { concurrency: Some(1), ..EndpointLimits::default() };
        let mut first = endpoint.admit(&one, 1, &request, 0).unwrap();
        assert!(endpoint.admit(&one, 1, &request, 0).is_none());
        first.cool(Some(5_000_000), 0);
        drop(first);
        assert_eq!(endpoint.reachability(1), "RateLimited");
        assert!(endpoint.admit(&one, 1, &request, 4_999_999).is_none());
        assert!(endpoint.admit(&one, 1, &request, 5_000_000).is_some());
        assert_eq!(endpoint.reachability(5_000_000), "");
    }
}
