//! How a router carries a plan out: `router-pod/src/dispatch` without sockets.

use std::sync::Arc;

use terrace_contract::load::Load;
use terrace_decide::affinity::Prefix;
use terrace_decide::track::Dispatch;
use terrace_decide::{Plan, score};

use crate::engine::{Refused, Sequence};
use crate::event::Event;
use crate::request::{Current, End, Site, Step};
use crate::run::Simulation;
use crate::trace::BLOCK_TOKENS;
use crate::world::Places;

/// First token of an attempt while something else can be tried, when no budget says otherwise.
const FIRST_TOKEN_US: u64 = 60_000_000;
/// First token of an attempt after which nothing else can be tried.
const FIRST_TOKEN_LAST_US: u64 = 180_000_000;
/// An attempt is given up for another only after this many times its forecast.
const PATIENCE: f64 = 3.0;
/// Spread of an endpoint's speed from request to request.
const ENDPOINT_SPREAD: f64 = 0.2;

impl Simulation<'_> {
    /// A request comes: it is sensed, decided and sent.
    pub(crate) fn arrive(&mut self, request: usize) {
        let what = &self.requests[request];
        let router = &mut self.routers[what.router];
        router.minute.request(self.now_us);
        router.retries.request();
        let signals = router.sense(self.world, what);
        let prefix = Arc::new(Prefix { blocks: what.arrival.blocks.clone(), block_tokens: BLOCK_TOKENS });
        let view = router.view(self.world, &prefix, self.now_us);
        let draw = self.draws.uniform();
        let plan = terrace_decide::decide_by(&signals, &view, &self.world.policy, self.selection, draw);
        self.agenda.add(self.now_us + self.total_us(request), Event::Deadline(request));
        if let Some(tier) = &plan.decided {
            self.routers[what.router].decided(tier.index);
        }
        let progress = &mut self.progress[request];
        progress.dispatch = Some(Dispatch::of(&signals, prefix, self.now_us));
        progress.steps = steps(&plan);
        progress.attempts = plan.attempts;
        self.next_step(request, false);
    }

    /// Sends a request to the next place of its plan that takes it.
    fn next_step(&mut self, request: usize, after_fault: bool) {
        let router = self.requests[request].router;
        if after_fault && !self.routers[router].retries.take() {
            return self.close(request, End::Refused);
        }
        let Some(dispatch) = self.progress[request].dispatch.clone() else { return };
        loop {
            let progress = &mut self.progress[request];
            let Some(Step { site, attempt }) = progress.steps.get(progress.next).cloned() else {
                return self.close(request, End::Refused);
            };
            progress.next += 1;
            let last = progress.next == progress.steps.len();
            let (overflow, degraded, (forecast, insists)) = {
                let attempt = &progress.attempts[attempt];
                if attempt.only_after_failure && !progress.faulty {
                    continue;
                }
                (attempt.overflow, attempt.degraded, (attempt.forecast, attempt.insists))
            };
            let dispatch = dispatch.clone().insisting(insists);
            let Some(ticket) = self.routers[router].admit(self.world, site, &dispatch, self.now_us) else { continue };
            let progress = &mut self.progress[request];
            if overflow && !std::mem::replace(&mut progress.overflowed, true) {
                self.routers[router].minute.overflowed(self.now_us);
            }
            let number = progress.made;
            progress.made += 1;
            progress.current = Some(Current {
                site,
                number,
                ticket,
                sent_us: self.now_us,
                forecast,
                told: false,
                first_us: None,
                overflow,
                degraded,
            });
            self.agenda.add(self.now_us + self.rtt_us(site) / 2, Event::Reach { request, attempt: number });
            let patience = self.first_token_limit(request, forecast.first_token_us, last);
            self.agenda.add(self.now_us + patience, Event::Patience { request, attempt: number });
            return;
        }
    }

    fn first_token_limit(&self, request: usize, forecast_us: f64, last: bool) -> u64 {
        if last {
            return FIRST_TOKEN_LAST_US;
        }
        let patience = (forecast_us.max(0.0) * PATIENCE) as u64;
        let budget = self.world.budget(&self.requests[request].feature);
        budget.map_or(FIRST_TOKEN_US, |budget| budget.first_token_us.max(patience))
    }

    fn rtt_us(&self, site: Site) -> u64 {
        match self.world.rungs.get(site.rung).map(|rung| &rung.places) {
            Some(Places::Endpoint(endpoint)) => endpoint.rtt_us,
            Some(Places::Devices(devices)) => site.device.and_then(|d| devices.get(d)).map_or(0, |d| d.rtt_us),
            None => 0,
        }
    }

    /// The attempt of a request that an event is about; none: it is over.
    fn current(&self, request: usize, attempt: u32) -> Option<Current> {
        let progress = &self.progress[request];
        progress.current.filter(|current| current.number == attempt && progress.end.is_none())
    }

    /// The body reaches its place.
    pub(crate) fn reach(&mut self, request: usize, attempt: u32) {
        let Some(current) = self.current(request, attempt) else { return };
        let half = self.rtt_us(current.site) / 2;
        self.progress[request].reached.push(current.site.rung);
        match self.machine_at(current.site) {
            Some(device) if self.is_down(device) => {
                self.agenda.add(self.now_us + half, Event::Broke { request, attempt });
            }
            Some(device) => {
                self.work(device);
                let sequence = self.sequence(request);
                if let Err(Refused::Full | Refused::Late) = self.machines[device].engine.offer(sequence) {
                    let load = self.load(device);
                    self.agenda.add(self.now_us + half, Event::Refused { request, attempt, load });
                }
                self.foresee(device);
            }
            None => self.reach_endpoint(request, attempt, current.site),
        }
    }

    fn sequence(&self, request: usize) -> Sequence {
        let what = &self.requests[request];
        let most = self.world.policy.limits.max_output_tokens;
        let max_tokens = self.world.traffic.max_output_tokens.map_or(most, |asked| asked.min(most));
        Sequence {
            number: request,
            prompt_tokens: what.arrival.prompt_tokens.max(1),
            output_tokens: what.arrival.output_tokens.clamp(1, max_tokens.max(1)),
            max_tokens,
            deadline_us: what.at_us + self.total_us(request),
            blocks: what.arrival.blocks.clone(),
        }
    }

    fn reach_endpoint(&mut self, request: usize, attempt: u32, site: Site) {
        let Some(Places::Endpoint(truth)) = self.world.rungs.get(site.rung).map(|rung| &rung.places) else { return };
        let half = truth.rtt_us / 2;
        if self.endpoints_down[site.rung] {
            return self.agenda.add(self.now_us + half, Event::Broke { request, attempt });
        }
        let Sequence { prompt_tokens, output_tokens, .. } = self.sequence(request);
        let slow = self.endpoints_slow[site.rung] * self.random.around_one(ENDPOINT_SPREAD);
        let prefill = f64::from(prompt_tokens) / truth.prefill_rate * 1e6;
        let first = (self.random.exponential(truth.queue_us as f64) + prefill) * slow;
        let rest = f64::from(output_tokens - 1) * truth.step_us * slow;
        let first_at = self.now_us + half + first as u64;
        self.agenda.add(first_at, Event::FirstToken { request, attempt, load: None });
        self.agenda.add(first_at + rest as u64, Event::Ended { request, attempt, load: None });
    }

    fn heard(&mut self, request: usize, site: Site, load: Option<Load>) {
        let (router, now) = (self.requests[request].router, self.now_us);
        if let (Some(load), Some(track)) = (load, self.routers[router].device(site)) {
            track.reported(load, now);
        }
    }

    fn give_back(&mut self, request: usize, current: &Current) {
        self.progress[request].current = None;
        self.routers[self.requests[request].router].release(current.site, current.ticket, current.told);
    }

    /// A place refused: the next one, at no cost.
    pub(crate) fn refused(&mut self, request: usize, attempt: u32, load: Option<Load>) {
        let Some(current) = self.current(request, attempt) else { return };
        self.heard(request, current.site, load);
        self.give_back(request, &current);
        self.next_step(request, false);
    }

    /// An attempt broke: before its first token the next one is tried, after it the answer is lost.
    pub(crate) fn broke(&mut self, request: usize, attempt: u32) {
        let Some(mut current) = self.current(request, attempt) else { return };
        self.routers[self.requests[request].router].failed(current.site, current.ticket, self.now_us);
        current.told = true;
        self.give_back(request, &current);
        if current.first_us.is_some() {
            return self.close(request, End::Broken);
        }
        self.progress[request].faulty = true;
        self.next_step(request, true);
    }

    /// No first token in the time that it had.
    pub(crate) fn patience(&mut self, request: usize, attempt: u32) {
        let Some(current) = self.current(request, attempt).filter(|current| current.first_us.is_none()) else {
            return;
        };
        self.cancel(request, current.site);
        self.broke(request, attempt);
    }

    /// A request's time is up.
    pub(crate) fn deadline(&mut self, request: usize) {
        if self.progress[request].end.is_some() {
            return;
        }
        if let Some(mut current) = self.progress[request].current {
            self.cancel(request, current.site);
            if current.first_us.is_none() {
                self.routers[self.requests[request].router].failed(current.site, current.ticket, self.now_us);
                current.told = true;
            }
            self.give_back(request, &current);
        }
        self.close(request, End::OutOfTime);
    }

    fn cancel(&mut self, request: usize, site: Site) {
        if let Some(device) = self.machine_at(site) {
            self.work(device);
            let mut did = Vec::new();
            self.machines[device].engine.cancel(request, &mut did);
            self.tell(device, did);
            self.foresee(device);
        }
    }

    /// A first token reaches the router.
    pub(crate) fn first_token(&mut self, request: usize, attempt: u32, load: Option<Load>) {
        let Some(current) = self.current(request, attempt) else { return };
        self.heard(request, current.site, load);
        let tokens = self.requests[request].arrival.prompt_tokens;
        let rtt = self.rtt_us(current.site);
        let router = &mut self.routers[self.requests[request].router];
        router.first_token(&current, tokens, self.now_us);
        if current.site.device.is_none() {
            router.connected(current.site, rtt);
        } else {
            let actual = (self.now_us - current.sent_us) as f64;
            self.honest.0 += u64::from(actual <= current.forecast.first_token_us);
            self.honest.1 += 1;
        }
        let progress = &mut self.progress[request];
        progress.first_us = Some(self.now_us);
        if let Some(current) = &mut progress.current {
            (current.first_us, current.told) = (Some(self.now_us), true);
        }
    }

    /// The last token reaches the router.
    pub(crate) fn ended(&mut self, request: usize, attempt: u32, load: Option<Load>) {
        let Some(current) = self.current(request, attempt) else { return };
        let Some(first_us) = current.first_us else { return };
        self.heard(request, current.site, load);
        let Sequence { output_tokens, .. } = self.sequence(request);
        let what = &self.requests[request];
        let tier = &self.world.rungs[current.site.rung].tier;
        let cost = score::cost_micros(tier, what.arrival.prompt_tokens, output_tokens);
        let router = &mut self.routers[what.router];
        router.rest(&current, output_tokens, self.now_us - first_us, self.now_us);
        router.answered(&what.feature, what.arrival.prompt_tokens, output_tokens, cost);
        if current.site.device.is_some() {
            let actual = (self.now_us - current.sent_us) as f64;
            self.honest_ends.0 += u64::from(actual <= current.forecast.finish_us);
            self.honest_ends.1 += 1;
        }
        self.give_back(request, &current);
        let progress = &mut self.progress[request];
        progress.answered_at = Some(current.site);
        (progress.answered_overflow, progress.answered_degraded) = (current.overflow, current.degraded);
        progress.cost_micros = cost;
        self.close(request, End::Answered);
    }
}

/// The places of a plan, in its order: each device of an attempt, or its endpoint.
fn steps(plan: &Plan) -> Vec<Step> {
    let of = |(attempt, a): (usize, &terrace_decide::Attempt)| {
        let site = |device| Step { site: Site { rung: a.tier.index, device }, attempt };
        let endpoint = a.devices.is_empty().then(|| site(None));
        endpoint.into_iter().chain(a.devices.iter().map(|d| site(Some(d.index)))).collect::<Vec<_>>()
    };
    plan.attempts.iter().enumerate().flat_map(of).collect()
}
