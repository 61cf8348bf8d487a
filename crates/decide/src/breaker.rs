//! A circuit breaker as a plain state machine: time is passed in, nothing is waited for.
//!
//! It opens on failures and on slowness alike, lets one probe through when the pause is over, and doubles the pause
//! each time the probe fails. A client's own mistake (4xx) is no event here, and a health check resets nothing.
//!
//! Each attempt is let through in a turn, and only those of the present one are heard: what was under way when it opened
//! says nothing of now, however late it comes back, and does not pass for the probe.
//!
//! What is open is only believed to be broken. An attempt that has nowhere else to go insists, and shows it.

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

/// When an attempt was let through: before it opened, as the probe, or after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    number: u64,
    /// It was open, and let it through all the same.
    insists: bool,
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
    /// Begins anew when it opens and with each probe.
    turn: u64,
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

    /// Asks to send one attempt at `now_us`; none: not now. In the half-open state the first to ask becomes the probe.
    pub fn admit(&mut self, now_us: u64) -> Option<Turn> {
        match self.state(now_us) {
            BreakerState::Closed => {}
            BreakerState::Open => return None,
            BreakerState::HalfOpen => {
                self.probe = Some(now_us);
                self.turn += 1;
            }
        }
        Some(Turn { number: self.turn, insists: false })
    }

    /// The same; but an attempt that `insists`, since it has nowhere else to go, passes although it is open. If it goes well
    /// that closes it; if not, nothing new is known.
    pub fn admit_or_insist(&mut self, insists: bool, now_us: u64) -> Option<Turn> {
        self.admit(now_us).or(insists.then_some(Turn { number: self.turn, insists }))
    }

    /// Gives back a probe that ended without saying anything about the other side (client gone, 4xx, 429).
    pub fn release(&mut self, turn: Turn) {
        if turn.number == self.turn && !turn.insists {
            self.probe = None;
        }
    }

    /// Records how an attempt of this turn went.
    pub fn record(&mut self, now_us: u64, turn: Turn, event: Event) {
        if turn.number != self.turn {
            return;
        }
        if let Some((_, pause)) = self.open {
            // Of the turn that began when it opened, only the probe was let through, and those that had nowhere else to go.
            match event {
                // The probe's own turn goes on: how it ends still counts.
                Event::Ok | Event::Began => *self = Self { turn: self.turn, ..Self::default() },
                Event::Slow | Event::Failed if turn.insists => {}
                Event::Slow | Event::Failed => self.pause(now_us, (pause * 2).min(LONGEST_PAUSE_US)),
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
        let open = Some((now_us.saturating_add(pause), pause));
        *self = Self { open, turn: self.turn + 1, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(breaker: &mut Breaker, now_us: u64) -> Turn {
        breaker.admit(now_us).unwrap()
    }

    /// One attempt that goes like that.
    fn one(breaker: &mut Breaker, now_us: u64, event: Event) {
        let turn = turn(breaker, now_us);
        breaker.record(now_us, turn, event);
    }

    #[test]
    fn an_attempt_that_insists_closes_it_if_it_goes_well_and_says_nothing_if_not() {
        for (event, state) in [
            (Event::Failed, BreakerState::Open),
            (Event::Slow, BreakerState::Open),
            (Event::Began, BreakerState::Closed),
        ] {
            let mut breaker = opened();
            let turn = breaker.admit_or_insist(true, 0).unwrap();
            breaker.record(0, turn, event);
            assert_eq!(breaker.state(0), state, "{event:?}");
            assert_ne!(breaker.state(FIRST_PAUSE_US), BreakerState::Open, "{event:?}: the pause is no longer for it");
        }
        // It does not take the probe's place, nor give it back.
        let mut breaker = opened();
        let insisting = breaker.admit_or_insist(true, 0).unwrap();
        let probe = turn(&mut breaker, FIRST_PAUSE_US);
        breaker.release(insisting);
        assert_eq!(breaker.admit(FIRST_PAUSE_US), None, "the probe still holds it");
        breaker.record(FIRST_PAUSE_US, probe, Event::Ok);
        assert_eq!(breaker.state(FIRST_PAUSE_US), BreakerState::Closed);
    }

    fn opened() -> Breaker {
        let mut breaker = Breaker::default();
        (0..FAILURES).for_each(|_| one(&mut breaker, 0, Event::Failed));
        breaker
    }

    #[test]
    fn three_failures_in_a_row_open_it_and_two_do_not() {
        let mut breaker = Breaker::default();
        for event in [Event::Failed, Event::Failed, Event::Ok, Event::Failed, Event::Failed] {
            one(&mut breaker, 0, event);
        }
        assert_eq!(breaker.state(0), BreakerState::Closed);
        one(&mut breaker, 0, Event::Failed);
        assert_eq!(breaker.state(0), BreakerState::Open);
        assert_eq!(breaker.state(FIRST_PAUSE_US), BreakerState::HalfOpen);
    }

    #[test]
    fn what_begins_well_and_breaks_each_time_opens_it() {
        let mut breaker = Breaker::default();
        let begins_and_breaks = |breaker: &mut Breaker, now| {
            let turn = turn(breaker, now);
            breaker.record(now, turn, Event::Began);
            assert_eq!(breaker.state(now), BreakerState::Closed, "a probe need not end to let others through");
            breaker.record(now, turn, Event::Failed);
        };
        (0..FAILURES).for_each(|_| begins_and_breaks(&mut breaker, 0));
        assert_eq!(breaker.state(0), BreakerState::Open);
        (0..FAILURES).for_each(|_| begins_and_breaks(&mut breaker, FIRST_PAUSE_US));
        assert_eq!(breaker.state(FIRST_PAUSE_US), BreakerState::Open, "how a probe ends counts as well");
    }

    #[test]
    fn slowness_opens_it_too() {
        let mut breaker = Breaker::default();
        (0..SLOW).for_each(|_| one(&mut breaker, 0, Event::Slow));
        assert_eq!(breaker.state(0), BreakerState::Open);
    }

    #[test]
    fn one_probe_at_a_time_and_its_answer_decides() {
        let mut breaker = opened();
        let probe = turn(&mut breaker, FIRST_PAUSE_US);
        assert_eq!(breaker.admit(FIRST_PAUSE_US), None, "the probe holds the place");
        breaker.record(FIRST_PAUSE_US, probe, Event::Failed);
        assert_eq!(breaker.admit(FIRST_PAUSE_US * 2), None, "the pause doubled");
        one(&mut breaker, FIRST_PAUSE_US * 3, Event::Ok);
        assert_eq!(breaker.state(FIRST_PAUSE_US * 3), BreakerState::Closed);
    }

    #[test]
    fn a_probe_that_ends_without_news_frees_the_place_and_a_lost_one_does_in_time() {
        let mut breaker = opened();
        let probe = turn(&mut breaker, FIRST_PAUSE_US);
        breaker.release(probe);
        assert!(breaker.admit(FIRST_PAUSE_US).is_some());
        assert!(breaker.admit(FIRST_PAUSE_US + PROBE_US).is_some());
    }

    #[test]
    fn late_failures_of_earlier_attempts_do_not_lengthen_the_pause() {
        let mut breaker = Breaker::default();
        let earlier = turn(&mut breaker, 0);
        (0..FAILURES).for_each(|_| breaker.record(0, earlier, Event::Failed));
        (0..50).for_each(|_| breaker.record(10, earlier, Event::Failed));
        assert_eq!(breaker.state(FIRST_PAUSE_US), BreakerState::HalfOpen);
    }

    #[test]
    fn an_earlier_attempt_that_comes_back_late_does_not_pass_for_the_probe() {
        for late in [Event::Ok, Event::Began, Event::Failed, Event::Slow] {
            let mut breaker = Breaker::default();
            let earlier = turn(&mut breaker, 0);
            (0..FAILURES).for_each(|_| one(&mut breaker, 0, Event::Failed));
            breaker.record(FIRST_PAUSE_US, earlier, late);
            assert_eq!(breaker.state(FIRST_PAUSE_US), BreakerState::HalfOpen, "{late:?} before the probe");
            let probe = turn(&mut breaker, FIRST_PAUSE_US);
            breaker.record(FIRST_PAUSE_US, earlier, late);
            breaker.release(earlier);
            assert_eq!(breaker.admit(FIRST_PAUSE_US), None, "{late:?}: the probe still holds the place");
            breaker.record(FIRST_PAUSE_US, probe, Event::Ok);
            (0..FAILURES).for_each(|_| breaker.record(FIRST_PAUSE_US, earlier, Event::Failed));
            assert_eq!(breaker.state(FIRST_PAUSE_US), BreakerState::Closed, "nor does it open it again");
        }
    }

    #[test]
    fn a_lost_probe_that_comes_back_after_the_next_is_not_heard() {
        let mut breaker = opened();
        let lost = turn(&mut breaker, FIRST_PAUSE_US);
        let next = turn(&mut breaker, FIRST_PAUSE_US + PROBE_US);
        breaker.record(FIRST_PAUSE_US + PROBE_US, lost, Event::Ok);
        assert_eq!(breaker.state(FIRST_PAUSE_US + PROBE_US), BreakerState::Open);
        breaker.record(FIRST_PAUSE_US + PROBE_US, next, Event::Ok);
        assert_eq!(breaker.state(FIRST_PAUSE_US + PROBE_US), BreakerState::Closed);
    }
}
