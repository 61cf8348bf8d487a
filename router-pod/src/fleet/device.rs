//! One device: what the snapshot says of it, what it reported last, and what this router did since.
//!
//! Keyed by pod UID: a new pod at an old address starts with nothing of the old one's, and a newer snapshot of the
//! same pod takes none of its counters away.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use terrace_contract::load::Load;
use terrace_contract::tier;
use terrace_decide::affinity::Prefix;
use terrace_decide::breaker::Event;
use terrace_decide::track::{Dispatch, Ticket, Track};
use terrace_decide::{DeviceFacts, DeviceView};
use terrace_identity::Identity;

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
    shared: Arc<DeviceFacts>,
}

impl Facts {
    fn of(device: tier::Device) -> Self {
        let shared = Arc::new(DeviceFacts {
            pod_uid: device.pod_uid.as_str().into(),
            node: device.node.as_str().into(),
            domain: device.domain.as_str().into(),
        });
        Self { shared, device }
    }
}

#[derive(Debug, Default)]
struct State {
    track: Track,
    draining: bool,
    /// Why it could not be reached; empty: it could.
    unreachable: &'static str,
    asking: bool,
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

    /// The device at `now_us`, as `decide` sees it for a request whose prompt begins like that.
    pub fn view(&self, prefix: &Prefix, now_us: u64) -> DeviceView {
        let (facts, state) = (self.facts.load(), self.state());
        state.track.view(Arc::clone(&facts.shared), facts.device.ready && !state.draining, prefix, now_us)
    }

    /// Counts a request before it is sent; none: its breaker is open. The guard takes it back on every way out.
    pub fn admit(self: &Arc<Self>, request: Dispatch, now_us: u64) -> Option<DeviceGuard> {
        let ticket = self.state().track.admit(request, now_us)?;
        Some(DeviceGuard { device: Arc::clone(self), ticket, told: false, well: false })
    }

    /// A load report that just arrived.
    pub fn reported(&self, load: Load, now_us: u64) {
        let mut state = self.state();
        state.track.reported(load, now_us);
        state.unreachable = "";
    }

    /// A status that was asked for: its load, whether it drains, and how long it took.
    pub fn polled(&self, load: Load, draining: bool, rtt_us: u64, now_us: u64) {
        self.reported(load, now_us);
        let mut state = self.state();
        state.draining = draining;
        state.track.round_trip(rtt_us);
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
        self.state().track.report().map_or(0, |(_, at)| at)
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
        self.state().track.report().is_some_and(|(load, _)| load.saturated())
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

/// One request in flight to a device.
#[derive(Debug)]
pub struct DeviceGuard {
    device: Arc<Device>,
    ticket: Ticket,
    told: bool,
    /// Its first token came in time.
    well: bool,
}

impl DeviceGuard {
    /// The device.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// How the attempt went, for the breaker.
    pub fn record(&mut self, event: Event, now_us: u64) {
        self.told = true;
        self.well = event == Event::Began;
        self.device.state().track.record(self.ticket, event, now_us);
    }

    /// The answer ended well; one that began late stays slow.
    pub fn ended(&mut self, now_us: u64) {
        if self.well {
            self.record(Event::Ok, now_us);
        }
    }

    /// A first token that was forecast and came.
    pub fn first_token(&self, forecast_us: f64, actual_us: u64, now_us: u64) {
        self.device.state().track.first_token(self.ticket, forecast_us, actual_us, now_us);
    }

    /// A first token that was forecast and had not come by then.
    pub fn outrun(&self, forecast_us: f64, at_least_us: u64, now_us: u64) {
        self.device.state().track.outrun(forecast_us, at_least_us, now_us);
    }

    /// The rest of the answer came: so many tokens after the first, in this time.
    pub fn rest(&self, tokens: u64, us: u64, now_us: u64) {
        self.device.state().track.rest(self.ticket, tokens, us, now_us);
    }
}

impl Drop for DeviceGuard {
    fn drop(&mut self) {
        self.device.state().track.release(self.ticket, self.told);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_decide::BreakerState;

    fn request(prompt_tokens: u32) -> Dispatch {
        Dispatch { prompt_tokens, output_tokens: 1, deadline_us: None, prefix: Arc::default(), insists: false }
    }

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
        let first = device.admit(request(100), 0).unwrap();
        let second = device.admit(request(50), 0).unwrap();
        let view = device.view(&Prefix::default(), 0);
        assert_eq!((view.own_in_flight, view.own_since_report, view.own_prompt_tokens_since_report), (2, 2, 150));
        drop(first);
        assert_eq!(device.view(&Prefix::default(), 0).own_in_flight, 1);
        drop(second);
        assert_eq!(device.view(&Prefix::default(), 0).own_in_flight, 0);
    }

    #[test]
    fn an_open_breaker_admits_nothing_and_a_lost_probe_frees_its_place() {
        let device = device();
        for _ in 0..3 {
            device.admit(request(1), 0).unwrap().record(Event::Failed, 0);
        }
        assert!(device.admit(request(1), 0).is_none());
        let later = terrace_decide::breaker::FIRST_PAUSE_US;
        let probe = device.admit(request(1), later).unwrap();
        assert!(device.admit(request(1), later).is_none());
        drop(probe);
        assert_eq!(device.view(&Prefix::default(), later).breaker, BreakerState::HalfOpen);
    }

    #[test]
    fn a_health_check_resets_no_counter_and_closes_no_breaker() {
        let device = device();
        let in_flight = device.admit(request(1), 0);
        for _ in 0..3 {
            device.admit(request(1), 0).unwrap().record(Event::Failed, 0);
        }
        device.polled(Load { slots: 4, ..Load::default() }, false, 100, 1_000);
        let view = device.view(&Prefix::default(), 1_000);
        assert_eq!((view.breaker, view.own_in_flight), (BreakerState::Open, 1));
        assert!(device.admit(request(1), 1_000).is_none());
        drop(in_flight);
    }

    #[test]
    fn a_newer_snapshot_keeps_what_is_known_of_the_pod() {
        let device = device();
        device.reported(Load { running: 3, ..Load::default() }, 7);
        let guard = device.admit(request(1), 7);
        device.update(&tier::Device { ready: false, ..device.facts().device.clone() });
        let view = device.view(&Prefix::default(), 7);
        assert_eq!((view.ready, view.own_in_flight, device.last_report_us()), (false, 1, 7));
        drop(guard);
        assert_eq!(device.view(&Prefix::default(), 7).own_in_flight, 0);
    }
}
