//! What a router knows of one device between requests: its last report, its round trip, and what was sent there since.
//!
//! A plain value that is told the time: its owner keeps it behind its own lock. The router has one a device, the
//! simulation has the same.

use std::collections::VecDeque;
use std::sync::Arc;

use terrace_contract::load::Load;

use crate::affinity::{Held, Prefix};
use crate::breaker::{Breaker, Event, Turn};
use crate::correction::{Correction, TAIL};
use crate::signals::Signals;
use crate::view::{DeviceFacts, DeviceView, Report};

/// How much an older round trip weighs against a new one.
const SMOOTHING: f64 = 0.8;
/// A report is at least this old when it arrives: what was sent since then it cannot know.
const UNDERWAY_US: u64 = 500;
/// An answer that has outgrown its expected length still has this part of it before it.
const STILL_TO_COME: f64 = 0.15;

/// What a router knows of one device.
#[derive(Debug, Clone, Default)]
pub struct Track {
    report: Option<(Load, u64)>,
    in_flight: VecDeque<Sent>,
    next: u64,
    rtt_us: Option<f64>,
    breaker: Breaker,
    correction: Stretch,
    pace: Stretch,
    held: Held,
}

/// The two factors of one forecast.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    usual: Correction,
    tail: Correction,
}

impl Default for Stretch {
    fn default() -> Self {
        Self { usual: Correction::default(), tail: Correction::of(TAIL) }
    }
}

impl Stretch {
    /// After one more request, whose forecast already contained the usual factor.
    fn observe(self, forecast_us: f64, actual_us: f64, now_us: u64) -> Self {
        let tail_us = forecast_us / self.usual.factor() * self.tail.factor();
        Self {
            usual: self.usual.observe(forecast_us, actual_us, now_us),
            tail: self.tail.observe(tail_us, actual_us, now_us),
        }
    }

    fn relaxed(self, now_us: u64) -> Self {
        Self { usual: self.usual.relaxed(now_us), tail: self.tail.relaxed(now_us) }
    }
}

/// One request in flight from here.
#[derive(Debug, Clone)]
struct Sent {
    number: u64,
    at_us: u64,
    request: Dispatch,
    /// One token of its answer, as forecast when it was sent, with the pace of then.
    step_us: f64,
    /// When its first token came.
    began_us: Option<u64>,
    /// Whether the last report may know it.
    reported: bool,
}

/// What is counted of a request that is sent somewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dispatch {
    /// Its prompt.
    pub prompt_tokens: u32,
    /// Its answer, as expected.
    pub output_tokens: u32,
    /// When it must be done; none: no budget covers it.
    pub deadline_us: Option<u64>,
    /// What its prompt begins with.
    pub prefix: Arc<Prefix>,
    /// Whether it goes there although the breaker is open, see [`crate::plan::Attempt::insists`].
    pub insists: bool,
}

impl Dispatch {
    /// Of a request decided at `now_us`.
    pub fn of(signals: &Signals, prefix: Arc<Prefix>, now_us: u64) -> Self {
        Self {
            prompt_tokens: signals.prompt_tokens,
            output_tokens: signals.expected_output_tokens,
            deadline_us: signals.deadline.map(|deadline| now_us.saturating_add(deadline.total_us)),
            prefix,
            insists: false,
        }
    }

    /// For an attempt that insists, or does not.
    pub fn insisting(self, insists: bool) -> Self {
        Self { insists, ..self }
    }
}

/// A request that was counted at a device, or at an endpoint; `release` takes it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    number: u64,
    pub(crate) turn: Turn,
}

impl Ticket {
    /// Of an endpoint, which numbers nothing.
    pub(crate) fn of(turn: Turn) -> Self {
        Self { number: 0, turn }
    }
}

impl Track {
    /// Counts a request before it is sent; none: the breaker is open.
    pub fn admit(&mut self, request: Dispatch, now_us: u64) -> Option<Ticket> {
        let turn = self.breaker.admit_or_insist(request.insists, now_us)?;
        let (number, step_us) = (self.next, self.step_us());
        self.next += 1;
        self.in_flight.push_back(Sent { number, at_us: now_us, request, step_us, began_us: None, reported: false });
        Some(Ticket { number, turn })
    }

    /// A request ended, on whatever way. `told` says whether [`Track::record`] heard how it went.
    pub fn release(&mut self, ticket: Ticket, told: bool) {
        self.in_flight.retain(|sent| sent.number != ticket.number);
        if !told {
            self.breaker.release(ticket.turn);
        }
    }

    /// How an attempt went, for the breaker.
    pub fn record(&mut self, ticket: Ticket, event: Event, now_us: u64) {
        self.breaker.record(now_us, ticket.turn, event);
    }

    /// A first token that was forecast and came.
    pub fn first_token(&mut self, ticket: Ticket, forecast_us: f64, actual_us: u64, now_us: u64) {
        self.correction = self.correction.observe(forecast_us, actual_us as f64, now_us);
        if let Some(sent) = self.in_flight.iter_mut().find(|sent| sent.number == ticket.number) {
            sent.began_us = Some(now_us);
            self.held.keep(&sent.request.prefix);
        }
    }

    /// A first token that was forecast had not come by then, when another attempt at the same request answered.
    pub fn outrun(&mut self, forecast_us: f64, at_least_us: u64, now_us: u64) {
        self.correction = self.correction.observe(forecast_us, at_least_us as f64, now_us);
    }

    /// The rest of an answer came: so many tokens after the first, in this time.
    pub fn rest(&mut self, ticket: Ticket, tokens: u64, us: u64, now_us: u64) {
        if let Some(sent) = self.in_flight.iter().find(|sent| sent.number == ticket.number) {
            self.pace = self.pace.observe(tokens as f64 * sent.step_us, us as f64, now_us);
        }
    }

    /// One decode step of an answer that begins now; 0: not known yet.
    fn step_us(&self) -> f64 {
        let of = |(load, _): (Load, u64)| {
            let batch = (load.running + 1).min(load.slots.max(1));
            load.step_base_us + load.step_per_sequence_us * f64::from(batch)
        };
        self.report.map_or(0.0, of) * self.pace.usual.factor()
    }

    /// A load report that just arrived.
    pub fn reported(&mut self, load: Load, now_us: u64) {
        let underway = self.rtt_us.map_or(UNDERWAY_US, |rtt| UNDERWAY_US.max(rtt as u64));
        for sent in &mut self.in_flight {
            sent.reported |= sent.at_us.saturating_add(underway) <= now_us;
        }
        self.report = Some((load, now_us));
        // Here rather than at each view: reports come a few times a second, views at each request.
        (self.correction, self.pace) = (self.correction.relaxed(now_us), self.pace.relaxed(now_us));
    }

    /// A round trip that was measured.
    pub fn round_trip(&mut self, us: u64) {
        self.rtt_us = Some(self.rtt_us.map_or(us as f64, |old| SMOOTHING * old + (1.0 - SMOOTHING) * us as f64));
    }

    /// The last report and when it came.
    pub fn report(&self) -> Option<(Load, u64)> {
        self.report
    }

    /// Requests in flight from here.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// What the answer that is nearest to its deadline has to spare.
    fn slack_us(&self, now_us: u64) -> Option<u64> {
        let one = |sent: &Sent| {
            let (began, deadline) = (sent.began_us?, sent.request.deadline_us?);
            let expected = f64::from(sent.request.output_tokens) * sent.step_us;
            let left = (expected - now_us.saturating_sub(began) as f64).max(STILL_TO_COME * expected);
            Some(deadline.saturating_sub(now_us).saturating_sub(left as u64))
        };
        self.in_flight.iter().filter_map(one).min()
    }

    /// The device at `now_us`, as `decide` sees it for a request whose prompt begins like that.
    pub fn view(&self, facts: Arc<DeviceFacts>, ready: bool, prefix: &Prefix, now_us: u64) -> DeviceView {
        let unknown = || self.in_flight.iter().filter(|sent| !sent.reported);
        DeviceView {
            facts,
            ready,
            report: self.report.map(|(load, at)| Report { load, age_us: now_us.saturating_sub(at) }),
            own_in_flight: u32::try_from(self.in_flight.len()).unwrap_or(u32::MAX),
            own_since_report: u32::try_from(unknown().count()).unwrap_or(u32::MAX),
            own_prompt_tokens_since_report: unknown().map(|sent| u64::from(sent.request.prompt_tokens)).sum(),
            own_slack_us: self.slack_us(now_us),
            cached_tokens: self.held.tokens(prefix),
            rtt_us: self.rtt_us.map(|rtt| rtt as u64),
            breaker: self.breaker.state(now_us),
            correction: self.correction.usual.factor(),
            pace: self.pace.usual.factor(),
            tail_correction: self.correction.tail.factor(),
            tail_pace: self.pace.tail.factor(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Arc<DeviceFacts> {
        Arc::new(DeviceFacts { pod_uid: "p".into(), node: "n".into(), domain: "".into() })
    }

    fn request(prompt_tokens: u32) -> Dispatch {
        Dispatch {
            prompt_tokens,
            output_tokens: 10,
            deadline_us: Some(3_000_000),
            prefix: Arc::default(),
            insists: false,
        }
    }

    #[test]
    fn a_report_knows_what_was_sent_before_it_and_not_what_is_underway() {
        let mut track = Track::default();
        track.admit(request(100), 0);
        track.admit(request(50), 10_000);
        track.reported(Load { running: 1, ..Load::default() }, 10_000);
        let view = track.view(facts(), true, &Prefix::default(), 10_500);
        assert_eq!((view.own_in_flight, view.own_since_report, view.own_prompt_tokens_since_report), (2, 1, 50));
        assert_eq!(view.report.map(|r| (r.load.running, r.age_us)), Some((1, 500)));
    }

    #[test]
    fn the_answer_nearest_to_its_deadline_is_what_a_device_has_to_spare() {
        let mut track = Track::default();
        track.reported(Load { slots: 2, step_base_us: 100_000.0, ..Load::default() }, 0);
        let ticket = track.admit(request(100), 0).unwrap();
        assert_eq!(track.view(facts(), true, &Prefix::default(), 0).own_slack_us, None, "it has not begun");
        track.first_token(ticket, 1.0, 1, 500_000);
        let slack = |now: u64| track.view(facts(), true, &Prefix::default(), now).own_slack_us.unwrap();
        assert_eq!(slack(500_000), 1_500_000, "ten tokens of 100 ms are left of the 2.5 s");
        assert_eq!(slack(1_000_000), 1_500_000);
        assert_eq!(slack(2_500_000), 350_000, "longer than expected: a part is always taken to be left");
        assert_eq!(slack(9_000_000), 0);
    }

    #[test]
    fn pace_is_learned_from_what_follows_the_first_token() {
        let mut track = Track::default();
        track.reported(Load { slots: 2, step_base_us: 100_000.0, ..Load::default() }, 0);
        for _ in 0..40 {
            let ticket = track.admit(request(1), 0).unwrap();
            track.rest(ticket, 9, 2 * 9 * 100_000, 0);
            track.release(ticket, true);
        }
        let pace = track.view(facts(), true, &Prefix::default(), 0).pace;
        assert!((1.85..2.1).contains(&pace), "{pace}: twice as long as rated");
    }

    #[test]
    fn a_prompt_is_held_from_its_first_token_on() {
        let mut track = Track::default();
        let prefix = Arc::new(Prefix { blocks: vec![7, 8], block_tokens: 50 });
        let held = |track: &Track| track.view(facts(), true, &prefix, 0).cached_tokens;
        let ticket = track.admit(Dispatch { prefix: Arc::clone(&prefix), ..request(120) }, 0).unwrap();
        assert_eq!(held(&track), 0);
        track.first_token(ticket, 1.0, 1, 0);
        assert_eq!(held(&track), 100);
    }
}
