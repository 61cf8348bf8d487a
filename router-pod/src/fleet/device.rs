//! One device: what the snapshot says of it, what it reported last, and what this router did since.
//!
//! Keyed by pod UID: a new pod at an old address starts with nothing of the old one's, and a newer snapshot of the
//! same pod takes none of its counters away.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use terrace_contract::load::Load;
use terrace_contract::tier;
use terrace_decide::breaker::{Breaker, Event};
use terrace_decide::correction::Correction;
use terrace_decide::{DeviceView, view};
use terrace_identity::Identity;

/// How much an older round trip weighs against a new one.
const SMOOTHING: f64 = 0.8;
/// A report is at least this old when it arrives: what was sent since then it cannot know.
const UNDERWAY_US: u64 = 500;

/// One device.
#[derive(Debug)]
pub struct Device {
    facts: ArcSwap<Facts>,
    state: Mutex<State>,
}

/// What the snapshot says of a device, in the shapes that are handed out.
#[derive(Debug)]
pub struct Facts {
    /// As the snapshot has it.
    pub device: tier::Device,
    pod_uid: Arc<str>,
    node: Arc<str>,
    domain: Arc<str>,
}

impl Facts {
    fn of(device: tier::Device) -> Self {
        Self {
            pod_uid: device.pod_uid.as_str().into(),
            node: device.node.as_str().into(),
            domain: device.domain.as_str().into(),
            device,
        }
    }
}

#[derive(Debug, Default)]
struct State {
    draining: bool,
    report: Option<(Load, u64)>,
    /// Requests in flight from here: number, when sent, prompt tokens, whether the report may know it.
    in_flight: VecDeque<Sent>,
    next: u64,
    rtt_us: Option<f64>,
    breaker: Breaker,
    correction: Correction,
    /// Why it could not be reached; empty: it could.
    unreachable: &'static str,
    asking: bool,
}

#[derive(Debug, Clone, Copy)]
struct Sent {
    number: u64,
    at_us: u64,
    tokens: u64,
    reported: bool,
}

impl Device {
    /// A device that has not reported yet.
    pub fn new(facts: tier::Device) -> Arc<Self> {
        Arc::new(Self { facts: ArcSwap::from_pointee(Facts::of(facts)), state: Mutex::default() })
    }

    /// The same pod as a newer snapshot sees it; its counters stay.
    pub fn update(&self, facts: &tier::Device) {
        if self.facts.load().device != *facts {
            self.facts.store(Arc::new(Facts::of(facts.clone())));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the snapshot says of it.
    pub fn facts(&self) -> Arc<Facts> {
        self.facts.load_full()
    }

    /// The device at `now_us`, as `decide` sees it.
    pub fn view(&self, now_us: u64) -> DeviceView {
        let (facts, state) = (self.facts.load(), self.state());
        let unknown = || state.in_flight.iter().filter(|sent| !sent.reported);
        DeviceView {
            pod_uid: Arc::clone(&facts.pod_uid),
            node: Arc::clone(&facts.node),
            domain: Arc::clone(&facts.domain),
            ready: facts.device.ready && !state.draining,
            report: state.report.map(|(load, at)| view::Report { load, age_us: now_us.saturating_sub(at) }),
            own_in_flight: u32::try_from(state.in_flight.len()).unwrap_or(u32::MAX),
            own_since_report: u32::try_from(unknown().count()).unwrap_or(u32::MAX),
            own_prompt_tokens_since_report: unknown().map(|sent| sent.tokens).sum(),
            cached_tokens: 0,
            rtt_us: state.rtt_us.map(|rtt| rtt as u64),
            breaker: state.breaker.state(now_us),
            correction: state.correction.factor(),
        }
    }

    /// Counts a request before it is sent; none: its breaker is open. The guard takes it back on every way out.
    pub fn admit(self: &Arc<Self>, tokens: u64, now_us: u64) -> Option<DeviceGuard> {
        let mut state = self.state();
        if !state.breaker.admit(now_us) {
            return None;
        }
        let number = state.next;
        state.next += 1;
        state.in_flight.push_back(Sent { number, at_us: now_us, tokens, reported: false });
        drop(state);
        Some(DeviceGuard { device: Arc::clone(self), number, told: false })
    }

    /// A load report that just arrived.
    pub fn reported(&self, load: Load, now_us: u64) {
        let mut state = self.state();
        let underway = state.rtt_us.map_or(UNDERWAY_US, |rtt| UNDERWAY_US.max(rtt as u64));
        for sent in &mut state.in_flight {
            sent.reported |= sent.at_us.saturating_add(underway) <= now_us;
        }
        state.report = Some((load, now_us));
        state.unreachable = "";
    }

    /// A status that was asked for: its load, whether it drains, and how long it took.
    pub fn polled(&self, load: Load, draining: bool, rtt_us: u64, now_us: u64) {
        self.reported(load, now_us);
        let mut state = self.state();
        state.draining = draining;
        state.rtt_us = Some(smooth(state.rtt_us, rtt_us));
    }

    /// It could not be reached: a reason of the condition `Reachable`.
    pub fn unreachable(&self, reason: &'static str) {
        self.state().unreachable = reason;
    }

    /// Why it could not be reached last; empty: it could.
    pub fn reachability(&self) -> &'static str {
        self.state().unreachable
    }

    /// When it last reported; 0: never.
    pub fn last_report_us(&self) -> u64 {
        self.state().report.map_or(0, |(_, at)| at)
    }

    /// Where it is and who it must prove to be; none: the snapshot says something that is no address or identity.
    pub fn peer(&self) -> Option<(SocketAddr, Identity)> {
        let facts = self.facts();
        let ip = facts.device.address.parse().ok()?;
        Some((SocketAddr::new(ip, facts.device.port), facts.device.server_name.parse().ok()?))
    }

    /// Whether it was found by name and has not said yet who it is: its address stands for its pod UID.
    pub fn is_provisional(&self) -> bool {
        let facts = self.facts.load();
        facts.device.pod_uid == facts.device.address
    }

    /// Begins to ask for its status; none: someone asks already.
    pub fn ask(self: &Arc<Self>) -> Option<Asking> {
        let asked = std::mem::replace(&mut self.state().asking, true);
        (!asked).then(|| Asking(Arc::clone(self)))
    }

    /// Whether it said that one more request would be refused.
    pub fn saturated(&self) -> bool {
        self.state().report.is_some_and(|(load, _)| load.saturated())
    }
}

/// A status that is being asked for.
#[derive(Debug)]
pub struct Asking(Arc<Device>);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.state().asking = false;
    }
}

fn smooth(old: Option<f64>, new: u64) -> f64 {
    old.map_or(new as f64, |old| SMOOTHING * old + (1.0 - SMOOTHING) * new as f64)
}

/// One request in flight to a device.
#[derive(Debug)]
pub struct DeviceGuard {
    device: Arc<Device>,
    number: u64,
    told: bool,
}

impl DeviceGuard {
    /// The device.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// How the attempt went, for the breaker.
    pub fn record(&mut self, event: Event, now_us: u64) {
        self.told = true;
        self.device.state().breaker.record(now_us, event);
    }

    /// A first token that was forecast and came.
    pub fn observe(&self, forecast_us: f64, actual_us: u64) {
        let mut state = self.device.state();
        state.correction = state.correction.observe(forecast_us, actual_us as f64);
    }
}

impl Drop for DeviceGuard {
    fn drop(&mut self) {
        let mut state = self.device.state();
        state.in_flight.retain(|sent| sent.number != self.number);
        if !self.told {
            state.breaker.release();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_decide::BreakerState;

    fn device() -> Arc<Device> {
        Device::new(tier::Device {
            tier: "t".into(),
            pod_uid: "p".into(),
            pod: "p".into(),
            node: "n".into(),
            domain: String::new(),
            address: "127.0.0.1".into(),
            port: 1,
            server_name: String::new(),
            ready: true,
        })
    }

    #[test]
    fn requests_count_before_they_are_sent_and_are_taken_back_on_every_way_out() {
        let device = device();
        let first = device.admit(100, 0).unwrap();
        let second = device.admit(50, 0).unwrap();
        let view = device.view(0);
        assert_eq!((view.own_in_flight, view.own_since_report, view.own_prompt_tokens_since_report), (2, 2, 150));
        drop(first);
        assert_eq!(device.view(0).own_in_flight, 1);
        drop(second);
        assert_eq!(device.view(0).own_in_flight, 0);
    }

    #[test]
    fn a_report_knows_what_was_sent_before_it_and_not_what_is_underway() {
        let device = device();
        let _known = device.admit(100, 0);
        let _underway = device.admit(50, 10_000);
        device.reported(Load { running: 1, ..Load::default() }, 10_000);
        let view = device.view(10_500);
        assert_eq!((view.own_in_flight, view.own_since_report, view.own_prompt_tokens_since_report), (2, 1, 50));
        assert_eq!(view.report.map(|r| (r.load.running, r.age_us)), Some((1, 500)));
    }

    #[test]
    fn an_open_breaker_admits_nothing_and_a_lost_probe_frees_its_place() {
        let device = device();
        for _ in 0..3 {
            device.admit(1, 0).unwrap().record(Event::Failed, 0);
        }
        assert!(device.admit(1, 0).is_none());
        let later = terrace_decide::breaker::FIRST_PAUSE_US;
        let probe = device.admit(1, later).unwrap();
        assert!(device.admit(1, later).is_none());
        drop(probe);
        assert_eq!(device.view(later).breaker, BreakerState::HalfOpen);
    }

    #[test]
    fn a_newer_snapshot_keeps_what_is_known_of_the_pod() {
        let device = device();
        device.reported(Load { running: 3, ..Load::default() }, 7);
        let guard = device.admit(1, 7);
        device.update(&tier::Device { ready: false, ..device.facts().device.clone() });
        let view = device.view(7);
        assert_eq!((view.ready, view.own_in_flight, device.last_report_us()), (false, 1, 7));
        drop(guard);
        assert_eq!(device.view(7).own_in_flight, 0);
    }
}
