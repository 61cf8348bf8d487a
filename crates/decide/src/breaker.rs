//! A circuit breaker as a plain state machine: time is passed in, nothing is waited for.
//!
//! It opens on failures and on slowness alike, lets one probe through when the pause is over, and doubles the pause
//! each time the probe fails. A client's own mistake (4xx) is no event here, and a health check resets nothing.

use serde::{Deserialize, Serialize};

use crate::view::BreakerState;

/// Consecutive failures that open it.
const FAILURES: u32 = 3;
/// Consecutive slow answers that open it.
const SLOW: u32 = 10;
/// The first pause.
pub const FIRST_PAUSE_US: u64 = 1_000_000;
/// The longest pause.
pub const LONGEST_PAUSE_US: u64 = 30_000_000;
/// A probe that has not come back after this long no longer holds the place.
const PROBE_US: u64 = 30_000_000;

/// How an attempt went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// Well and in time.
    Ok,
    /// Its first token came in time; how it ends is not known yet. It lets a probe through, and makes up for no failure:
    /// what begins well and breaks each time is broken.
    Began,
    /// Well, but far past its forecast.
    Slow,
    /// Not: refused connection, 5xx, cut or stalled stream. Never a client's 4xx, a 429 or a cancellation.
    Failed,
}

/// A first token that takes this many times its forecast is slow, if it is also late by [`SLOW_AT_LEAST_US`].
const SLOW_FACTOR: f64 = 4.0;
/// See [`SLOW_FACTOR`].
const SLOW_AT_LEAST_US: f64 = 500_000.0;

impl Event {
    /// Of a first token that came: well, or far past its forecast.
    pub fn of(forecast_us: f64, actual_us: u64) -> Self {
        let actual = actual_us as f64;
        let slow = actual > SLOW_FACTOR * forecast_us && actual > forecast_us + SLOW_AT_LEAST_US;
        if slow { Event::Slow } else { Event::Ok }
    }
}

/// The breaker of one device or endpoint. A plain value: its owner keeps it behind its own lock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Breaker {
    failures: u32,
    slow: u32,
    /// While open: until when, and how long the pause is.
    open: Option<(u64, u64)>,
    /// The probe that is under way, since when.
    probe: Option<u64>,
}

impl Breaker {
    /// What it lets through at `now_us`.
    pub fn state(&self, now_us: u64) -> BreakerState {
        match self.open {
            None => BreakerState::Closed,
            Some((until, _)) if now_us < until => BreakerState::Open,
            Some(_) if self.probe.is_some_and(|since| now_us < since.saturating_add(PROBE_US)) => BreakerState::Open,
            Some(_) => BreakerState::HalfOpen,
        }
    }

    /// Asks to send one attempt at `now_us`. In the half-open state the first to ask becomes the probe.
    pub fn admit(&mut self, now_us: u64) -> bool {
        match self.state(now_us) {
            BreakerState::Closed => true,
            BreakerState::Open => false,
            BreakerState::HalfOpen => {
                self.probe = Some(now_us);
                true
            }
        }
    }

    /// Gives back a probe that ended without saying anything about the other side (client gone, 4xx, 429).
    pub fn release(&mut self) {
        self.probe = None;
    }

    /// Records how an attempt went.
    pub fn record(&mut self, now_us: u64, event: Event) {
        if let Some((until, pause)) = self.open {
            // Attempts that were under way when it opened say nothing new; only the probe does.
            if self.probe.take().is_some() || now_us >= until {
                match event {
                    Event::Ok | Event::Began => *self = Self::default(),
                    Event::Slow | Event::Failed => self.pause(now_us, (pause * 2).min(LONGEST_PAUSE_US)),
                }
            }
            return;
        }
        match event {
            Event::Ok => (self.failures, self.slow) = (0, 0),
            Event::Began => self.slow = 0,
            Event::Slow => (self.failures, self.slow) = (0, self.slow + 1),
            Event::Failed => self.failures += 1,
        }
        if self.failures >= FAILURES || self.slow >= SLOW {
            self.pause(now_us, FIRST_PAUSE_US);
        }
    }

    fn pause(&mut self, now_us: u64, pause: u64) {
        *self = Self { open: Some((now_us.saturating_add(pause), pause)), ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened() -> Breaker {
        let mut breaker = Breaker::default();
        (0..FAILURES).for_each(|_| breaker.record(0, Event::Failed));
        breaker
    }

    #[test]
    fn three_failures_in_a_row_open_it_and_two_do_not() {
        let mut breaker = Breaker::default();
        for event in [Event::Failed, Event::Failed, Event::Ok, Event::Failed, Event::Failed] {
            breaker.record(0, event);
        }
        assert_eq!(breaker.state(0), BreakerState::Closed);
        breaker.record(0, Event::Failed);
        assert_eq!(breaker.state(0), BreakerState::Open);
        assert_eq!(breaker.state(FIRST_PAUSE_US), BreakerState::HalfOpen);
    }

    #[test]
    fn what_begins_well_and_breaks_each_time_opens_it() {
        let mut breaker = Breaker::default();
        for _ in 0..FAILURES {
            assert_eq!(breaker.state(0), BreakerState::Closed);
            breaker.record(0, Event::Began);
            breaker.record(0, Event::Failed);
        }
        assert_eq!(breaker.state(0), BreakerState::Open);
        assert!(breaker.admit(FIRST_PAUSE_US));
        breaker.record(FIRST_PAUSE_US, Event::Began);
        assert_eq!(breaker.state(FIRST_PAUSE_US), BreakerState::Closed, "a probe need not end to let others through");
    }

    #[test]
    fn slowness_opens_it_too() {
        let mut breaker = Breaker::default();
        (0..SLOW).for_each(|_| breaker.record(0, Event::Slow));
        assert_eq!(breaker.state(0), BreakerState::Open);
    }

    #[test]
    fn one_probe_at_a_time_and_its_answer_decides() {
        let mut breaker = opened();
        assert!(breaker.admit(FIRST_PAUSE_US));
        assert!(!breaker.admit(FIRST_PAUSE_US), "the probe holds the place");
        breaker.record(FIRST_PAUSE_US, Event::Failed);
        assert!(!breaker.admit(FIRST_PAUSE_US * 2), "the pause doubled");
        assert!(breaker.admit(FIRST_PAUSE_US * 3));
        breaker.record(FIRST_PAUSE_US * 3, Event::Ok);
        assert_eq!(breaker.state(FIRST_PAUSE_US * 3), BreakerState::Closed);
    }

    #[test]
    fn a_probe_that_ends_without_news_frees_the_place_and_a_lost_one_does_in_time() {
        let mut breaker = opened();
        assert!(breaker.admit(FIRST_PAUSE_US));
        breaker.release();
        assert!(breaker.admit(FIRST_PAUSE_US));
        assert!(breaker.admit(FIRST_PAUSE_US + PROBE_US));
    }

    #[test]
    fn late_failures_of_earlier_attempts_do_not_lengthen_the_pause() {
        let mut breaker = opened();
        (0..50).for_each(|_| breaker.record(10, Event::Failed));
        assert_eq!(breaker.state(FIRST_PAUSE_US), BreakerState::HalfOpen);
    }
}
