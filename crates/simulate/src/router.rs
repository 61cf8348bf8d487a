//! One router replica as the simulation needs it: the same state that a real one keeps of devices and endpoints
//! ([`Track`], [`EndpointTrack`]), without sockets.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_contract::tier::{Backend, EndpointLimits};
use terrace_decide::affinity::Prefix;
use terrace_decide::breaker::Event;
use terrace_decide::endpoint::EndpointTrack;
use terrace_decide::minute::Minute;
use terrace_decide::output::Lengths;
use terrace_decide::retry::RetryBudget;
use terrace_decide::track::{Dispatch, Ticket, Track};
use terrace_decide::{Deadline, DeviceFacts, FleetView, ModelChoice, Serving, Signals, TierView, complexity};

use crate::request::{Current, Request, Site};
use crate::world::{Places, World};

/// A router.
#[derive(Debug)]
pub struct Router {
    places: Vec<Known>,
    turns: Vec<u64>,
    /// Requests and overflows of the last minute.
    pub minute: Minute,
    /// Retries that may be spent.
    pub retries: RetryBudget,
    lengths: BTreeMap<String, Lengths>,
    spent_micros: u64,
}

/// What it knows of a rung.
#[derive(Debug)]
pub enum Known {
    /// Its devices.
    Devices(Vec<(Arc<DeviceFacts>, Track)>),
    /// Its endpoint.
    Endpoint(Box<EndpointTrack>),
}

impl Router {
    /// A router that has just started.
    pub fn new(world: &World) -> Self {
        let places = world.rungs.iter().map(|rung| match &rung.places {
            Places::Endpoint(_) => Known::Endpoint(Box::default()),
            Places::Devices(devices) => Known::Devices(
                devices
                    .iter()
                    .enumerate()
                    .map(|(i, device)| {
                        let pod_uid = format!("{}-{i}", rung.tier.name).into();
                        let facts = DeviceFacts { pod_uid, node: Arc::clone(&device.node), domain: "".into() };
                        (Arc::new(facts), Track::default())
                    })
                    .collect(),
            ),
        });
        Self {
            places: places.collect(),
            turns: vec![0; world.rungs.len()],
            minute: Minute::default(),
            retries: RetryBudget::default(),
            lengths: BTreeMap::new(),
            spent_micros: 0,
        }
    }

    /// The track of a device.
    pub fn device(&mut self, site: Site) -> Option<&mut Track> {
        match (self.places.get_mut(site.rung)?, site.device) {
            (Known::Devices(devices), Some(device)) => devices.get_mut(device).map(|(_, track)| track),
            _ => None,
        }
    }

    fn endpoint(&mut self, site: Site) -> Option<&mut EndpointTrack> {
        match self.places.get_mut(site.rung)? {
            Known::Endpoint(endpoint) => Some(endpoint),
            Known::Devices(_) => None,
        }
    }

    /// Requests that it counts as in flight anywhere.
    pub fn in_flight(&self) -> usize {
        let of = |known: &Known| match known {
            Known::Devices(devices) => devices.iter().map(|(_, track)| track.in_flight()).sum(),
            Known::Endpoint(endpoint) => endpoint.in_flight() as usize,
        };
        self.places.iter().map(of).sum()
    }

    /// A request as it senses it.
    pub fn sense(&self, world: &World, request: &Request) -> Signals {
        let budget = world.budget(&request.feature);
        let most = world.policy.limits.max_output_tokens;
        let asked = world.traffic.max_output_tokens.map(|n| n.min(most));
        let prompt_tokens = request.arrival.prompt_tokens;
        let lengths = self.lengths.get(&request.feature);
        let length = Lengths::next(lengths, prompt_tokens, asked.unwrap_or(most));
        let prompt = complexity::Prompt { last_user: "", prompt_tokens, tools: 0, step: false };
        let verdict = complexity::judge(&world.policy.complexity, &prompt);
        Signals {
            prompt_tokens,
            longest_input_tokens: None,
            expected_output_tokens: length.expected,
            likely_output_tokens: length.likely,
            max_output_tokens: asked,
            class: request.class,
            class_reasons: Vec::new(),
            needs: Vec::new(),
            model: ModelChoice::Auto,
            feature: request.feature.clone(),
            deadline: budget.map(|b| Deadline::after(b, 0)),
            prefer: None,
            complexity: if request.complex { complexity::Verdict::complex() } else { verdict },
            escalate_from: None,
            hop: None,
        }
    }

    /// The fleet as it sees it, for a request whose prompt begins like that.
    pub fn view(&self, world: &World, prefix: &Prefix, now_us: u64) -> FleetView {
        let tiers = self.places.iter().zip(&world.rungs).zip(&self.turns).map(|((known, rung), &turn)| TierView {
            tier: Arc::clone(&rung.tier),
            turn,
            serving: match known {
                Known::Endpoint(endpoint) => {
                    Serving::Endpoint(endpoint.view(&limits(&rung.tier.backend), world.routers, true, now_us))
                }
                Known::Devices(devices) => Serving::Devices(
                    devices
                        .iter()
                        .map(|(facts, track)| {
                            let mut view = track.view(Arc::clone(facts), true, prefix, now_us);
                            if !world.own_dispatches {
                                (view.own_since_report, view.own_prompt_tokens_since_report) = (0, 0);
                            }
                            view
                        })
                        .collect(),
                ),
            },
        });
        let limit = world.policy.limits.spend_per_day_micros;
        FleetView {
            tiers: tiers.collect(),
            now_us,
            snapshot_age_us: 0,
            domain: String::new(),
            overflow: self.minute.window(now_us),
            spend_left_micros: limit
                .map(|limit| (limit / u64::from(world.routers.max(1))).saturating_sub(self.spent_micros)),
        }
    }

    /// Counts a request that is about to be sent; none: it cannot be.
    pub fn admit(&mut self, world: &World, site: Site, request: &Dispatch, now_us: u64) -> Option<Ticket> {
        if site.device.is_some() {
            return self.device(site)?.admit(request.clone(), now_us);
        }
        let limits = limits(&world.rungs.get(site.rung)?.tier.backend);
        self.endpoint(site)?.admit(&limits, world.routers, request, now_us)
    }

    /// A request was decided for a rung.
    pub fn decided(&mut self, rung: usize) {
        if let Some(turn) = self.turns.get_mut(rung) {
            *turn += 1;
        }
    }

    /// Takes the count of an attempt back.
    pub fn release(&mut self, site: Site, ticket: Ticket, told: bool) {
        if let Some(track) = self.device(site) {
            track.release(ticket, told);
        } else if let Some(endpoint) = self.endpoint(site) {
            endpoint.release(ticket, told);
        }
    }

    /// An attempt failed by the other side's fault.
    pub fn failed(&mut self, site: Site, ticket: Ticket, now_us: u64) {
        if let Some(track) = self.device(site) {
            track.record(ticket, Event::Failed, now_us);
        } else if let Some(endpoint) = self.endpoint(site) {
            endpoint.record(ticket, Event::Failed, now_us);
        }
    }

    /// A first token came.
    pub fn first_token(&mut self, current: &Current, prompt_tokens: u32, now_us: u64) {
        let (site, ticket, forecast_us) = (current.site, current.ticket, current.forecast.first_token_us);
        let actual_us = now_us - current.sent_us;
        let event = Event::of(forecast_us, actual_us);
        if let Some(track) = self.device(site) {
            track.first_token(ticket, forecast_us, actual_us, now_us);
            track.record(ticket, event, now_us);
        } else if let Some(endpoint) = self.endpoint(site) {
            endpoint.first_token(u64::from(prompt_tokens), forecast_us, actual_us, now_us);
            endpoint.record(ticket, event, now_us);
        }
    }

    /// The rest of an answer came.
    pub fn rest(&mut self, current: &Current, output_tokens: u32, actual_us: u64, now_us: u64) {
        let tokens = u64::from(output_tokens);
        if let Some(track) = self.device(current.site) {
            track.rest(current.ticket, tokens.saturating_sub(1), actual_us, now_us);
        } else if let Some(endpoint) = self.endpoint(current.site) {
            endpoint.rest(tokens, tokens, actual_us);
        }
    }

    /// A connection to an endpoint was made in this time.
    pub fn connected(&mut self, site: Site, us: u64) {
        if let Some(endpoint) = self.endpoint(site) {
            endpoint.connected(us);
        }
    }

    /// A whole answer came: its length teaches, its price counts.
    pub fn answered(&mut self, feature: &str, prompt_tokens: u32, output_tokens: u32, cost_micros: u64) {
        self.spent_micros += cost_micros;
        match self.lengths.get_mut(feature) {
            Some(lengths) => lengths.learn(prompt_tokens, output_tokens),
            None => {
                let mut lengths = Lengths::default();
                lengths.learn(prompt_tokens, output_tokens);
                self.lengths.insert(feature.to_owned(), lengths);
            }
        }
    }
}

fn limits(backend: &Backend) -> EndpointLimits {
    match backend {
        Backend::Endpoint(endpoint) => endpoint.limits,
        Backend::Fleet(_) => EndpointLimits::default(),
    }
}
