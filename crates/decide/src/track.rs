//! What a router knows of one device between requests: its last report, its round trip, and what was sent there since.
//!
//! A plain value that is told the time: its owner keeps it behind its own lock. The router has one a device, the
//! simulation has the same.

use std::collections::VecDeque;
use std::sync::Arc;

use terrace_contract::load::Load;

use crate::breaker::{Breaker, Event};
use crate::correction::Correction;
use crate::view::{DeviceFacts, DeviceView, Report};

/// How much an older round trip weighs against a new one.
const SMOOTHING: f64 = 0.8;
/// A report is at least this old when it arrives: what was sent since then it cannot know.
const UNDERWAY_US: u64 = 500;

/// What a router knows of one device.
#[derive(Debug, Clone, Default)]
pub struct Track {
    report: Option<(Load, u64)>,
    in_flight: VecDeque<Sent>,
    next: u64,
    rtt_us: Option<f64>,
    breaker: Breaker,
    correction: Correction,
}

/// One request in flight from here.
#[derive(Debug, Clone, Copy)]
struct Sent {
    number: u64,
    at_us: u64,
    tokens: u64,
    /// Whether the last report may know it.
    reported: bool,
}

/// A request that [`Track::admit`] counted; [`Track::release`] takes it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket(u64);

impl Track {
    /// Counts a request of so many prompt tokens before it is sent; none: the breaker is open.
    pub fn admit(&mut self, tokens: u64, now_us: u64) -> Option<Ticket> {
        if !self.breaker.admit(now_us) {
            return None;
        }
        let number = self.next;
        self.next += 1;
        self.in_flight.push_back(Sent { number, at_us: now_us, tokens, reported: false });
        Some(Ticket(number))
    }

    /// A request ended, on whatever way. `told` says whether [`Track::record`] heard how it went.
    pub fn release(&mut self, ticket: Ticket, told: bool) {
        self.in_flight.retain(|sent| sent.number != ticket.0);
        if !told {
            self.breaker.release();
        }
    }

    /// How an attempt went, for the breaker.
    pub fn record(&mut self, event: Event, now_us: u64) {
        self.breaker.record(now_us, event);
    }

    /// A first token that was forecast and came.
    pub fn observe(&mut self, forecast_us: f64, actual_us: u64) {
        self.correction = self.correction.observe(forecast_us, actual_us as f64);
    }

    /// A load report that just arrived.
    pub fn reported(&mut self, load: Load, now_us: u64) {
        let underway = self.rtt_us.map_or(UNDERWAY_US, |rtt| UNDERWAY_US.max(rtt as u64));
        for sent in &mut self.in_flight {
            sent.reported |= sent.at_us.saturating_add(underway) <= now_us;
        }
        self.report = Some((load, now_us));
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

    /// The device at `now_us`, as `decide` sees it.
    pub fn view(&self, facts: Arc<DeviceFacts>, ready: bool, now_us: u64) -> DeviceView {
        let unknown = || self.in_flight.iter().filter(|sent| !sent.reported);
        DeviceView {
            facts,
            ready,
            report: self.report.map(|(load, at)| Report { load, age_us: now_us.saturating_sub(at) }),
            own_in_flight: u32::try_from(self.in_flight.len()).unwrap_or(u32::MAX),
            own_since_report: u32::try_from(unknown().count()).unwrap_or(u32::MAX),
            own_prompt_tokens_since_report: unknown().map(|sent| sent.tokens).sum(),
            cached_tokens: 0,
            rtt_us: self.rtt_us.map(|rtt| rtt as u64),
            breaker: self.breaker.state(now_us),
            correction: self.correction.factor(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Arc<DeviceFacts> {
        Arc::new(DeviceFacts { pod_uid: "p".into(), node: "n".into(), domain: "".into() })
    }

    #[test]
    fn a_report_knows_what_was_sent_before_it_and_not_what_is_underway() {
        let mut track = Track::default();
        track.admit(100, 0);
        track.admit(50, 10_000);
        track.reported(Load { running: 1, ..Load::default() }, 10_000);
        let view = track.view(facts(), true, 10_500);
        assert_eq!((view.own_in_flight, view.own_since_report, view.own_prompt_tokens_since_report), (2, 1, 50));
        assert_eq!(view.report.map(|r| (r.load.running, r.age_us)), Some((1, 500)));
    }
}
