//! One run: a trace against a world under one way to pick devices, from the first arrival to the last end.

use terrace_contract::policy::OnMiss;
use terrace_decide::select::Selection;

use crate::engine::{Did, Engine};
use crate::event::{Agenda, Event};
use crate::outcome::Outcome;
use crate::random::Random;
use crate::request::{Current, End, Progress, Request, Site};
use crate::router::Router;
use crate::trace::Arrival;
use crate::world::{FaultKind, Places, World};

/// How often devices' speeds are drawn anew.
const DRIFT_US: u64 = 5_000_000;
/// The whole request, when no budget is hard (`router-pod/src/dispatch/limits.rs`).
const TOTAL_US: u64 = 600_000_000;

/// What a run is of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// How devices are picked.
    pub selection: Selection,
    /// How many times as fast requests come as in the trace.
    pub load: f64,
    /// Seed of everything that is drawn.
    pub seed: u64,
}

/// Runs.
pub fn run(world: &World, trace: &[Arrival], options: &Options) -> Outcome {
    let requests = requests(world, trace, options);
    let mut simulation = Simulation::new(world, &requests, options);
    simulation.all();
    Outcome::of(&simulation, options)
}

/// The trace's requests at this load, with what the trace does not say drawn from the seed: the same for every
/// strategy.
fn requests(world: &World, trace: &[Arrival], options: &Options) -> Vec<Request> {
    let mut random = Random::of(options.seed, 1);
    let routers = world.routers.max(1) as usize;
    let load = options.load.max(1e-9);
    let one = |(index, arrival): (usize, &Arrival)| Request {
        at_us: (arrival.at_us as f64 / load) as u64,
        feature: random
            .pick(&world.traffic.features)
            .cloned()
            .unwrap_or_else(|| terrace_contract::names::OTHER_FEATURE.to_owned()),
        class: random.pick(&world.traffic.classes).copied().unwrap_or(world.policy.sensitivity.unlabelled),
        complex: random.uniform() * 100.0 < f64::from(world.traffic.complex_percent),
        router: index % routers,
        arrival: arrival.clone(),
    };
    trace.iter().enumerate().map(one).collect()
}

fn offsets(world: &World) -> Vec<usize> {
    let count = |rung: &crate::world::Rung| match &rung.places {
        Places::Devices(devices) => devices.len(),
        Places::Endpoint(_) => 0,
    };
    world.rungs.iter().scan(0, |next, rung| Some(std::mem::replace(next, *next + count(rung)))).collect()
}

/// A device at work and what befalls it.
#[derive(Debug)]
pub struct Machine {
    /// Where it is on the ladder.
    pub site: Site,
    /// The device.
    pub engine: Engine,
    version: u64,
    down: bool,
    silent: bool,
    slow: f64,
    random: Random,
}

/// A run under way.
#[derive(Debug)]
pub struct Simulation<'a> {
    /// What is simulated.
    pub world: &'a World,
    /// Its requests.
    pub requests: &'a [Request],
    /// How far each has come.
    pub progress: Vec<Progress>,
    /// Its routers.
    pub routers: Vec<Router>,
    /// Its devices.
    pub machines: Vec<Machine>,
    /// First tokens from devices that came no later than forecast, and all.
    pub honest: (u64, u64),
    /// Ends of answers of devices that came no later than forecast, and all.
    pub honest_ends: (u64, u64),
    /// Prompt tokens that came from a prefix cache.
    pub cached_tokens: u64,
    pub(crate) selection: Selection,
    pub(crate) agenda: Agenda,
    pub(crate) now_us: u64,
    pub(crate) random: Random,
    pub(crate) draws: Random,
    pub(crate) open: usize,
    pub(crate) endpoints_down: Vec<bool>,
    /// Of each rung, where its machines begin.
    offsets: Vec<usize>,
    pub(crate) endpoints_slow: Vec<f64>,
}

impl<'a> Simulation<'a> {
    fn new(world: &'a World, requests: &'a [Request], options: &Options) -> Self {
        let machine = |(index, (rung, device, truth)): (usize, (usize, usize, &crate::world::Device))| Machine {
            site: Site { rung, device: Some(device) },
            engine: Engine::new(truth.clone()),
            version: 0,
            down: false,
            silent: false,
            slow: 1.0,
            random: Random::of(options.seed, 1_000 + index as u64),
        };
        let mut agenda = Agenda::default();
        for (index, request) in requests.iter().enumerate() {
            agenda.add(request.at_us, Event::Arrive(index));
        }
        for (index, fault) in world.faults.iter().enumerate() {
            agenda.add(fault.from_us, Event::FaultBegins(index));
            agenda.add(fault.until_us, Event::FaultEnds(index));
        }
        agenda.add(0, Event::Drift);
        agenda.add(0, Event::Poll);
        Self {
            world,
            requests,
            progress: requests.iter().map(|_| Progress::default()).collect(),
            routers: (0..world.routers.max(1)).map(|_| Router::new(world)).collect(),
            machines: world.devices().enumerate().map(machine).collect(),
            honest: (0, 0),
            honest_ends: (0, 0),
            cached_tokens: 0,
            selection: options.selection,
            agenda,
            now_us: 0,
            random: Random::of(options.seed, 2),
            draws: Random::of(options.seed, 3),
            open: requests.len(),
            endpoints_down: vec![false; world.rungs.len()],
            offsets: offsets(world),
            endpoints_slow: vec![1.0; world.rungs.len()],
        }
    }

    fn all(&mut self) {
        while self.open > 0 {
            let Some((at, event)) = self.agenda.next() else { return };
            self.now_us = at;
            self.happens(event);
        }
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Arrive(request) => self.arrive(request),
            Event::Reach { request, attempt } => self.reach(request, attempt),
            Event::Wake { device, version } => {
                if self.machines[device].version == version {
                    self.work(device);
                    self.foresee(device);
                }
            }
            Event::Refused { request, attempt, load } => self.refused(request, attempt, load),
            Event::Broke { request, attempt } => self.broke(request, attempt),
            Event::FirstToken { request, attempt, load } => self.first_token(request, attempt, load),
            Event::Ended { request, attempt, load } => self.ended(request, attempt, load),
            Event::Patience { request, attempt } => self.patience(request, attempt),
            Event::Deadline(request) => self.deadline(request),
            Event::Poll => self.poll(),
            Event::Asked { router, site, asked_us } => self.asked(router, site, asked_us),
            Event::Report { router, site, asked_us, load } => {
                let (now, rtt) = (self.now_us, self.now_us - asked_us);
                if let Some(track) = self.routers[router].device(site) {
                    track.reported(load, now);
                    track.round_trip(rtt);
                }
            }
            Event::Drift => self.drift(),
            Event::FaultBegins(fault) => self.fault(fault, true),
            Event::FaultEnds(fault) => self.fault(fault, false),
        }
    }

    /// Which machine stands at a site.
    pub(crate) fn machine_at(&self, site: Site) -> Option<usize> {
        let device = self.offsets.get(site.rung)? + site.device?;
        self.machines.get(device).filter(|machine| machine.site == site).map(|_| device)
    }

    /// Lets a device work until now; what it did is on its way to the routers.
    pub(crate) fn work(&mut self, device: usize) {
        let mut did = Vec::new();
        self.machines[device].engine.advance(self.now_us, &mut did);
        self.tell(device, did);
    }

    /// Sends what a device did on its way to the routers.
    pub(crate) fn tell(&mut self, device: usize, did: Vec<(u64, Did)>) {
        if did.is_empty() {
            return;
        }
        let machine = &self.machines[device];
        let half = machine.engine.rtt_us() / 2;
        let load = (!machine.silent).then(|| machine.engine.load());
        for (at, did) in did {
            let (Did::FirstToken { number, .. } | Did::Ended { number } | Did::Refused { number }) = did;
            let Some(Current { number: attempt, .. }) = self.progress[number].current else { continue };
            let event = match did {
                Did::FirstToken { cached, .. } => {
                    self.cached_tokens += u64::from(cached);
                    Event::FirstToken { request: number, attempt, load }
                }
                Did::Ended { .. } => Event::Ended { request: number, attempt, load },
                Did::Refused { .. } => Event::Refused { request: number, attempt, load },
            };
            self.agenda.add(at + half, event);
        }
    }

    /// Foresees when a device's batch changes next.
    pub(crate) fn foresee(&mut self, device: usize) {
        let machine = &mut self.machines[device];
        machine.version += 1;
        if let Some(next) = machine.engine.next_us() {
            let event = Event::Wake { device, version: machine.version };
            self.agenda.add((next.ceil() as u64).max(self.now_us), event);
        }
    }

    /// Whether a device can be reached.
    pub(crate) fn is_down(&self, device: usize) -> bool {
        self.machines[device].down
    }

    /// A device's load line; none: its reports do not arrive.
    pub(crate) fn load(&self, device: usize) -> Option<terrace_contract::load::Load> {
        let machine = &self.machines[device];
        (!machine.silent && !machine.down).then(|| machine.engine.load())
    }

    fn poll(&mut self) {
        let every = self.world.reports_every_us.max(1_000);
        for router in 0..self.routers.len() {
            for device in 0..self.machines.len() {
                let site = self.machines[device].site;
                let half = self.machines[device].engine.rtt_us() / 2;
                let Some(track) = self.routers[router].device(site) else { continue };
                let last = track.report().map_or(0, |(_, at)| at);
                if last == 0 || self.now_us.saturating_sub(last) >= every {
                    let event = Event::Asked { router, site, asked_us: self.now_us };
                    self.agenda.add(self.now_us + half, event);
                }
            }
        }
        self.agenda.add(self.now_us + every, Event::Poll);
    }

    fn asked(&mut self, router: usize, site: Site, asked_us: u64) {
        let Some(device) = self.machine_at(site) else { return };
        self.work(device);
        self.foresee(device);
        if let Some(load) = self.load(device) {
            let half = self.machines[device].engine.rtt_us() / 2;
            self.agenda.add(self.now_us + half, Event::Report { router, site, asked_us, load });
        }
    }

    fn drift(&mut self) {
        for device in 0..self.machines.len() {
            self.work(device);
            let drift = self.world.drift;
            let machine = &mut self.machines[device];
            let speed = machine.random.around_one(drift) / machine.slow;
            machine.engine.set_speed(speed);
            self.foresee(device);
        }
        if self.world.drift > 0.0 {
            self.agenda.add(self.now_us + DRIFT_US, Event::Drift);
        }
    }

    fn fault(&mut self, fault: usize, begins: bool) {
        let fault = self.world.faults[fault].clone();
        if matches!(self.world.rungs.get(fault.rung).map(|r| &r.places), Some(Places::Endpoint(_))) {
            match fault.kind {
                FaultKind::Down => self.endpoints_down[fault.rung] = begins,
                FaultKind::Slow(factor) => self.endpoints_slow[fault.rung] = if begins { factor } else { 1.0 },
                FaultKind::Silent => {}
            }
        }
        let here = |site: Site| site.rung == fault.rung && (fault.device.is_none() || site.device == fault.device);
        for device in (0..self.machines.len()).filter(|&d| here(self.machines[d].site)).collect::<Vec<_>>() {
            self.work(device);
            let machine = &mut self.machines[device];
            match fault.kind {
                FaultKind::Silent => machine.silent = begins,
                FaultKind::Slow(factor) => {
                    machine.slow = if begins { factor } else { 1.0 };
                    machine.engine.set_speed(1.0 / machine.slow);
                }
                FaultKind::Down => {
                    machine.down = begins;
                    let (lost, half) = (machine.engine.crash(), machine.engine.rtt_us() / 2);
                    for request in lost {
                        if let Some(current) = self.progress[request].current {
                            let event = Event::Broke { request, attempt: current.number };
                            self.agenda.add(self.now_us + half, event);
                        }
                    }
                }
            }
            self.foresee(device);
        }
    }

    /// What a request may take in all, from its arrival.
    pub(crate) fn total_us(&self, request: usize) -> u64 {
        match self.world.budget(&self.requests[request].feature) {
            Some(budget) if budget.on_miss != OnMiss::Degrade => budget.total_us.min(TOTAL_US),
            _ => TOTAL_US,
        }
    }

    pub(crate) fn close(&mut self, request: usize, end: End) {
        let progress = &mut self.progress[request];
        if progress.end.is_none() {
            (progress.end, progress.ended_us) = (Some(end), self.now_us);
            self.open -= 1;
        }
    }
}
