//! A rung of the ladder: one permitted tier with all that is known of it for one request.

use terrace_contract::reason::Reason;

use crate::ability;
use crate::constrain::{self, State};
use crate::plan::{Forecast, Room, RuledOut};
use crate::predict::{self, Neutral, Work};
use crate::room;
use crate::score::{self, Facts};
use crate::select::{self, Choice, Selection};
use crate::signals::Signals;
use crate::view::{BreakerState, DeviceView, FleetView, Serving};

/// A permitted tier with all that is known of it for this request.
pub(crate) struct Rung {
    pub(crate) tier: usize,
    pub(crate) quality: u8,
    pub(crate) able: bool,
    pub(crate) state: State,
    /// Devices in order; empty for an endpoint and when not up.
    pub(crate) devices: Vec<usize>,
    pub(crate) now: Option<Forecast>,
    /// As it is now, with an answer as long as it may likely be.
    pub(crate) likely: Option<Forecast>,
    pub(crate) idle: Forecast,
    pub(crate) feasible: bool,
    pub(crate) availability: f64,
    pub(crate) cost_micros: u64,
    /// When it is full: what would come of waiting for room.
    pub(crate) room: Option<Room>,
    /// When it is only believed to be down: its forecast if it is not, and why. `devices` are those to try.
    pub(crate) doubted: Option<(Forecast, Reason)>,
}

impl Rung {
    /// As it is scored.
    pub(crate) fn facts<'a>(&self, view: &'a FleetView) -> Facts<'a> {
        Facts {
            index: self.tier,
            tier: &view.tiers[self.tier].tier,
            quality: self.quality,
            able: self.able,
            now: self.now,
            idle: self.idle,
            availability: self.availability,
            cost_micros: self.cost_micros,
        }
    }

    /// Whether it can take the request.
    pub(crate) fn up(&self) -> bool {
        self.state == State::Up
    }
}

/// What is known of a tier for a request; what rules it out, and its devices, is added to `ruled_out`.
pub(crate) fn rung(
    signals: &Signals,
    view: &FleetView,
    (selection, draw): (Selection, f64),
    tier: usize,
    floor: u8,
    ruled_out: &mut Vec<RuledOut>,
) -> Rung {
    let here = &view.tiers[tier];
    let work = Work::of(signals);
    let cost_micros = score::cost_micros(&here.tier, signals.prompt_tokens, signals.expected_output_tokens);
    let quality = ability::quality(&here.tier, &signals.complexity);
    let affordable = constrain::affordable(view, cost_micros);
    let mut rung = Rung {
        tier,
        quality,
        able: quality >= floor,
        state: State::Down(Reason::SpendLimit),
        devices: Vec::new(),
        now: None,
        likely: None,
        idle: Forecast { first_token_us: 0.0, finish_us: 0.0 },
        feasible: false,
        availability: 0.0,
        cost_micros,
        room: None,
        doubted: None,
    };
    match &here.serving {
        Serving::Devices(devices) => {
            if affordable {
                let deadline = signals.deadline.as_ref();
                let context = select::Context { selection, deadline, turn: here.turn, draw };
                let domain = here.tier.topology_key.is_some().then_some(view.domain.as_str());
                let (known, check) = (ruled_out.len(), |d: &DeviceView| constrain::device(signals, domain, d, false));
                let mut out = |device, reason| ruled_out.push(RuledOut { tier, device: Some(device), reason });
                let (up, choice) = select::choose(context, work, devices, check, &mut out);
                rung.state = constrain::fleet_state(up, ruled_out[known..].iter().map(|out| out.reason));
                if let Some(Choice { devices: order, now, likely, idle, feasible }) = choice {
                    (rung.now, rung.likely, rung.idle, rung.feasible) = (Some(now), Some(likely), idle, feasible);
                    rung.availability = up as f64 / devices.len() as f64;
                    rung.devices = order;
                } else if let Some(believed) = ruled_out[known..].iter().map(|o| o.reason).find(constrain::is_belief) {
                    let insists = |d: &DeviceView| constrain::device(signals, domain, d, true);
                    if let (_, Some(choice)) = select::choose(context, work, devices, insists, |_, _| {}) {
                        (rung.doubted, rung.devices) = (Some((choice.now, believed)), choice.devices);
                    }
                }
            }
            if !rung.up() {
                // What it would do if it were up makes it the decided tier all the same.
                let neutral = Neutral::of(devices);
                let in_flight = |d| constrain::in_flight(d, DeviceView::freshness(d));
                let idle = devices.iter().map(|d| predict::device(work, d, in_flight(d), || neutral).idle());
                let best = idle.min_by(|a, b| a.finish_us.total_cmp(&b.finish_us));
                rung.idle = best.unwrap_or_else(|| predict::unknown_device(work));
                if matches!(rung.state, State::Full(_)) {
                    rung.room = room::of_devices(work, devices, neutral);
                }
            }
        }
        Serving::Endpoint(e) => {
            if affordable {
                rung.state = constrain::endpoint_state(signals, view, &here.tier, e);
            }
            let predict::Endpoint { now, likely, idle } = predict::endpoint(work, e);
            rung.idle = idle;
            if matches!(rung.state, State::Full(_)) {
                rung.room = Some(room::of_endpoint(idle, &here.tier, e, view.now_us));
            }
            if rung.up() {
                (rung.now, rung.likely) = (Some(now), Some(likely));
                rung.feasible = predict::feasible(likely, signals.deadline.as_ref());
                rung.availability = if e.breaker == BreakerState::Closed { 1.0 } else { 0.5 };
            }
            if let State::Down(reason) = rung.state {
                rung.doubted = constrain::is_belief(&reason).then_some((now, reason));
            }
        }
    }
    if let State::Full(reason) | State::Down(reason) = rung.state {
        ruled_out.push(RuledOut { tier, device: None, reason });
    }
    if matches!(here.serving, Serving::Devices(_)) {
        // What it would take of a device that has nothing else to do: others may share the time and the price.
        let hours = score::device_micros(&here.tier, rung.idle.finish_us as u64);
        rung.cost_micros = rung.cost_micros.saturating_add(hours);
    }
    if rung.up() && !rung.feasible {
        ruled_out.push(RuledOut { tier, device: None, reason: Reason::PredictedLate });
    }
    rung
}
