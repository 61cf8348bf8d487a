//! A plan on its way, step by step; and a second attempt beside one whose first token is late.
//!
//! A second attempt is a step of the same plan that would have come later: so it is inside the same constraints, and has a
//! clearance of its own, an attempt's number and a record in the egress ledger. It spends from the budget of retries, so
//! that it cannot add more than a fifth to the load, and there is none while requests wait for room. The first to begin to
//! answer wins; the other is cancelled before anything of it is passed on, and its tier ends the work.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use terrace_contract::policy::Priority;
use terrace_decide::track::Dispatch;
use terrace_decide::{Attempt, Plan, hedge};
use terrace_privacy::Cleared;
use tokio_util::sync::CancellationToken;

use super::attempt::{self, Begun, Order};
use super::failure::Failure;
use super::{Trail, clear, names, patience};
use crate::app::App;
use crate::fleet::place::Place;
use crate::job::Job;
use crate::metrics::{AttemptLabels, HedgeLabels};
use crate::record::Unheard;
use crate::refusal::Tried;

/// A plan on its way.
pub(super) struct Walk<'a> {
    app: &'a App,
    job: &'a Job,
    steps: Vec<Step<'a>>,
    /// Steps before this one are done with.
    passed: usize,
    /// What has been tried, and how it went.
    pub tried: Trail,
    tries: &'a mut u32,
}

/// A place of an attempt: a device, or the endpoint.
#[derive(Clone, Copy)]
struct Step<'a> {
    attempt: &'a Attempt,
    pod_uid: Option<&'a str>,
    taken: bool,
}

/// An answer that has begun, by which attempt, and whether there were two at once.
pub(super) struct Won<'a> {
    /// The answer.
    pub begun: Begun,
    /// Whose it is.
    pub attempt: &'a Attempt,
    /// Whether a second one was started beside the first.
    pub hedged: bool,
}

/// What is ready to be sent: where to, and the body that may go there.
struct Ready<'a> {
    attempt: &'a Attempt,
    place: Place,
    cleared: Cleared<Bytes>,
    number: u32,
    /// When it was made ready.
    at_us: u64,
    remaining: Duration,
    last: bool,
}

impl<'a> Walk<'a> {
    /// At its beginning. `tries` is the number of attempts at this request so far.
    pub fn new(app: &'a App, job: &'a Job, plan: &'a Plan, tries: &'a mut u32) -> Self {
        let steps = plan.attempts.iter().flat_map(sites).collect();
        Self { app, job, steps, passed: 0, tried: Trail::default(), tries }
    }

    /// The step to make next. What was passed over is not come back to.
    pub fn next_step(&mut self) -> Option<usize> {
        let failed = self.tried.faulty() || self.tried.too_long();
        let may = |step: &Step<'_>| !step.taken && (!step.attempt.only_after_failure || failed);
        let at = (self.passed..self.steps.len()).find(|&at| may(&self.steps[at]))?;
        self.passed = at + 1;
        Some(at)
    }

    /// Makes a step: one attempt, and perhaps a second one beside it. `counted` is the place that was counted when the plan
    /// was made. None: it came to nothing, which is noted.
    pub async fn step(&mut self, at: usize, counted: Option<Place>, remaining: Duration) -> Option<Won<'a>> {
        let counted = counted.filter(|place| at == 0 && place.tier.uid == self.steps[at].attempt.tier.uid);
        let ready = match self.ready(at, counted, remaining) {
            Ok(ready) => ready,
            Err(failure) => {
                self.tried.failures.push(failure);
                return None;
            }
        };
        if let Some(after) = self.hedge_after(&ready) {
            return Box::pin(self.race(ready, after)).await;
        }
        let (attempt, tier) = (ready.attempt, ready.tier());
        let result = ready.send(self.app, self.job, None).await;
        self.settle(attempt, tier, result, false)
    }

    /// Clears the body for a step's tier, and counts the request there.
    fn ready(&mut self, at: usize, counted: Option<Place>, remaining: Duration) -> Result<Ready<'a>, Failure> {
        let (app, job) = (self.app, self.job);
        let Step { attempt, pod_uid, .. } = self.steps[at];
        self.steps[at].taken = true;
        let now = app.clock.now_us();
        let cleared = clear(app, job, attempt, now).map_err(Failure::NotCleared)?;
        let request = Dispatch::of(&job.signals, Arc::clone(&job.prefix), now).insisting(attempt.insists);
        let place = counted.or_else(|| app.fleet.admit(&job.in_use, attempt.tier.index, pod_uid, request, now));
        let place = place.ok_or(Failure::Full { retry_after_us: None })?;
        if attempt.overflow && !std::mem::replace(&mut self.tried.overflowed, true) {
            app.fleet.overflow().overflowed(now);
        }
        self.tried.last = Some(Tried {
            tier: place.tier.name.clone(),
            device: place.name().to_owned(),
            boundary: place.tier.boundary.as_str(),
        });
        *self.tries += 1;
        let last = self.steps.iter().all(|step| step.taken);
        Ok(Ready { attempt, place, cleared, number: *self.tries, at_us: now, remaining, last })
    }

    /// When a second attempt is started beside this one; none: never.
    fn hedge_after(&self, ready: &Ready<'_>) -> Option<Duration> {
        let policy = &self.job.in_use.snapshot.policy;
        // Nobody waits for a batch.
        let batch = self.job.signals.deadline.is_some_and(|deadline| deadline.priority == Priority::Batch);
        if policy.hedge.is_disabled() || batch || self.beside(ready.attempt).is_none() {
            return None;
        }
        let (streams, forecast_us) = (self.job.streams(), ready.forecast_us(self.job));
        let tier = &ready.place.tier.uid;
        let after = self.app.fleet.hedge_after(tier, streams, policy.hedge.percentile, forecast_us)?;
        Some(Duration::from_micros(after)).filter(|after| *after < ready.remaining)
    }

    /// The step that a second attempt would be: another device of the same tier, or a farther tier that may be hedged to.
    fn beside(&self, first: &Attempt) -> Option<usize> {
        let mode = self.job.in_use.snapshot.policy.hedge.mode;
        let may = |step: &Step<'_>| {
            let same = step.attempt.tier.uid == first.tier.uid;
            let other = !step.attempt.degraded && !step.attempt.only_after_failure;
            let tier = self.job.in_use.tiers.get(step.attempt.tier.index);
            !step.taken && (same || other) && tier.is_some_and(|tier| hedge::may(mode, tier))
        };
        self.steps.iter().position(may)
    }

    /// Gets a second attempt ready, if there is still one to be had.
    fn second(&mut self, first: &Attempt) -> Option<Ready<'a>> {
        let (at, remaining) = (self.beside(first)?, self.job.remaining()?);
        if !self.app.fleet.waiters().is_empty() || !self.app.take_retry() {
            return None;
        }
        let last = self.tried.last.clone();
        let ready = self.ready(at, None, remaining).ok();
        if ready.is_none() {
            // It is a step like any other if the first attempt fails.
            (self.steps[at].taken, self.tried.last) = (false, last);
        }
        ready
    }

    /// One attempt, and a second one if the first has not begun to answer after so long.
    async fn race(&mut self, ready: Ready<'a>, after: Duration) -> Option<Won<'a>> {
        let (app, job, one, tier_of_one) = (self.app, self.job, ready.attempt, ready.tier());
        let outrun = CancellationToken::new();
        let mut first = pin!(ready.send(app, job, Some(outrun.clone())));
        tokio::select! {
            biased;
            result = &mut first => return self.settle(one, tier_of_one, result, false),
            () = tokio::time::sleep(after) => {}
        }
        let Some(ready) = self.second(one) else {
            let result = first.await;
            return self.settle(one, tier_of_one, result, false);
        };
        let (two, tier_of_two) = (ready.attempt, ready.tier());
        let hedged = |outcome| {
            app.metrics.hedges.get_or_create(&HedgeLabels { tier: tier_of_two.0.clone(), outcome }).inc();
        };
        let mut second = pin!(ready.send(app, job, Some(outrun.clone())));
        let (begun, by_first) = tokio::select! {
            biased;
            result = &mut first => (result, true),
            result = &mut second => (result, false),
        };
        let well = begun.is_ok();
        if well {
            outrun.cancel();
        }
        // The one that failed leaves the other its time; the one that was outrun ends at once.
        let (of_first, of_second) = if by_first { (begun, second.await) } else { (first.await, begun) };
        hedged(match (&of_first, &of_second) {
            (Ok(_), Err(Failure::Outrun)) => "lost",
            (_, Ok(_)) => "won",
            _ => "failed",
        });
        let second = self.settle(two, tier_of_two, of_second, true);
        self.settle(one, tier_of_one, of_first, true).or(second)
    }

    /// What was too long for a tier is too long for all of its devices, and for every tier that holds no more.
    fn leave_shorter(&mut self, refused: &Attempt) {
        let limit = holds(self.job, refused);
        for step in &mut self.steps {
            let same = step.attempt.tier.index == refused.tier.index;
            let shorter = limit.zip(holds(self.job, step.attempt)).is_some_and(|(limit, holds)| holds <= limit);
            step.taken |= same || shorter;
        }
    }

    /// How an attempt went, for metrics, the report and what follows.
    fn settle(
        &mut self,
        attempt: &'a Attempt,
        (tier, uid): (String, String),
        result: Result<Begun, Failure>,
        hedged: bool,
    ) -> Option<Won<'a>> {
        let outcome = result.as_ref().map_or_else(Failure::kind, |_| "ok");
        self.app.metrics.attempts.get_or_create(&AttemptLabels { tier, outcome }).inc();
        let outrun = matches!(result, Err(Failure::Outrun));
        self.app.ledger.attempt(&uid, result.is_err() && !outrun);
        match result {
            Ok(begun) => Some(Won { begun, attempt, hedged }),
            Err(_) if outrun => None,
            Err(failure) => {
                tracing::debug!(request = %self.job.id, tier = %attempt.tier.name, %failure, "an attempt failed");
                if matches!(failure, Failure::TooLong { .. }) {
                    self.leave_shorter(attempt);
                }
                self.tried.failures.push(failure);
                None
            }
        }
    }
}

/// Tokens that a step's tier holds; none: it does not say.
fn holds(job: &Job, attempt: &Attempt) -> Option<u32> {
    let tier = job.in_use.tiers.get(attempt.tier.index)?;
    Some(tier.capability.context_tokens).filter(|tokens| *tokens > 0)
}

impl Ready<'_> {
    /// The tier's name and UID.
    fn tier(&self) -> (String, String) {
        (self.place.tier.name.clone(), self.place.tier.uid.clone())
    }

    /// What is forecast of its first token; of an answer that does not stream, of its end.
    fn forecast_us(&self, job: &Job) -> f64 {
        let forecast = self.attempt.forecast;
        if job.streams() { forecast.first_token_us } else { forecast.finish_us }
    }

    async fn send(self, app: &App, job: &Job, outrun: Option<CancellationToken>) -> Result<Begun, Failure> {
        let order = Order {
            cleared: &self.cleared,
            request_id: &job.id,
            number: self.number,
            call: job.call,
            stream: job.streams(),
            names: names(job, &self.place, self.at_us),
            prompt_tokens: job.signals.prompt_tokens.into(),
            forecast_us: self.forecast_us(job),
            first_token: patience(job, self.attempt, self.last, self.remaining),
            remaining: self.remaining,
            via: &job.via,
            cache_domain: job.cache_domain.as_deref(),
            outrun,
            trace: job.trace.attempt(&self.place, self.at_us),
        };
        let unheard = Unheard::new(app, &self.place.tier, order.prompt_tokens);
        let begun = attempt::begin(app, self.place, order).await;
        unheard.over();
        begun
    }
}

/// The places of an attempt, in its order: each device, or the endpoint.
fn sites(attempt: &Attempt) -> impl Iterator<Item = Step<'_>> {
    let step = move |pod_uid| Step { attempt, pod_uid, taken: false };
    let endpoint = attempt.devices.is_empty().then(|| step(None));
    endpoint.into_iter().chain(attempt.devices.iter().map(move |d| step(Some(&*d.pod_uid))))
}
