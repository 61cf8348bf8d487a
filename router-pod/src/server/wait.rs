//! Decides, and waits for room while every permitted tier is full.
//!
//! Who cannot make it is told so at once: 504 if its deadline would have passed by the time there is room, 503 if the queue
//! is full. It holds its place in `limits.concurrency` while it waits, and is cleared only when it goes on: by the
//! narrower of the policy when it came and the policy then.

use std::sync::Arc;
use std::time::Duration;

use terrace_contract::policy::OnMiss;
use terrace_contract::reason::Reason;
use terrace_decide::bucket::part;
use terrace_decide::explain::explain;
use terrace_decide::plan::{self, Plan};
use terrace_decide::queue::{self, LONGEST_US, Refused};
use terrace_decide::track::Dispatch;
use terrace_wire::error::Code;
use tokio::time::Instant;

use crate::app::App;
use crate::clock::micros;
use crate::fleet::place::Place;
use crate::job::Job;
use crate::metrics::{QueueLabels, RouterMetrics};
use crate::queue::EVERY;
use crate::record::Record;
use crate::refusal::Refusal;

/// What was decided, with the place that was counted for the first attempt.
pub struct Decided {
    /// What to try.
    pub plan: Plan,
    /// Where the first attempt goes.
    pub first: Option<Place>,
    /// Whether it waited.
    pub queued: bool,
}

/// Decides as soon as there is room.
///
/// # Errors
/// The plan's refusal; 503 or 504 for what does not wait, or waited in vain.
pub async fn decided(app: &App, job: &mut Job, record: &mut Record) -> Result<Decided, Refusal> {
    let (plan, first) = now(app, job, record, true);
    let Some(room) = plan.room else { return go(job, plan, first, false) };
    let policy = &job.in_use.snapshot.policy;
    let most = queue::most(part(policy.limits.concurrency, job.in_use.snapshot.routers));
    let deadline = job.signals.deadline;
    let joined = app.fleet.waiters().join(most, room, deadline.as_ref(), app.clock.now_us());
    let metrics = &app.metrics;
    let waiting = joined.map_err(|refused| {
        let outcome = if matches!(refused, Refused::Full { .. }) { "full" } else { "late" };
        metrics.queue_wait.get_or_create(&QueueLabels { outcome }).observe(0.0);
        refusal(job, &plan, refused)
    })?;
    let mut stay = Stay { metrics, since: Instant::now(), outcome: "cancelled" };
    metrics.queued.inc();
    let mut seen = stay.since;
    loop {
        let left = Duration::from_micros(LONGEST_US).saturating_sub(stay.since.elapsed());
        let left = left.min(job.remaining().unwrap_or_default());
        waiting.turn(EVERY.min(left)).await;
        let passed = Instant::now();
        job.signals = job.signals.later(micros(passed.duration_since(seen)));
        seen = passed;
        let (plan, first) = now(app, job, record, false);
        let Some(room) = plan.room else {
            stay.outcome = "sent";
            job.trace.queued(micros(stay.since.elapsed()));
            return go(job, plan, first, true);
        };
        let still = queue::still(room, waiting.ahead(), job.signals.deadline.as_ref());
        if left.is_zero() || still.is_err() {
            stay.outcome = "late";
            let late = Refused::Late { forecast: room.after(0), retry_after_us: room.until_us as u64 };
            return Err(refusal(job, &plan, still.err().unwrap_or(late)));
        }
        waiting.pass();
    }
}

/// A stay in the queue, counted however it ends.
struct Stay<'a> {
    metrics: &'a RouterMetrics,
    since: Instant,
    outcome: &'static str,
}

impl Drop for Stay<'_> {
    fn drop(&mut self) {
        self.metrics.queued.dec();
        let labels = QueueLabels { outcome: self.outcome };
        self.metrics.queue_wait.get_or_create(&labels).observe(self.since.elapsed().as_secs_f64());
    }
}

fn go(job: &Job, plan: Plan, first: Option<Place>, queued: bool) -> Result<Decided, Refusal> {
    match &plan.outcome {
        plan::Outcome::Go => Ok(Decided { plan, first, queued }),
        plan::Outcome::Refuse(refusal) => Err(because(job, &plan, Refusal::from(refusal.clone()))),
    }
}

/// With what was ruled out, and why the request has the class that it has.
fn because(job: &Job, plan: &Plan, refusal: Refusal) -> Refusal {
    let ruled_out = plan.ruled_out.iter().filter(|r| r.device.is_none()).map(|r| r.reason);
    refusal.because(ruled_out).because(job.signals.class_reasons.iter().copied())
}

/// Why it does not wait, or waits no longer.
fn refusal(job: &Job, plan: &Plan, refused: Refused) -> Refusal {
    // A sensitive request whose tiers are full says so, as it does without a queue.
    let code = match &plan.outcome {
        plan::Outcome::Refuse(refusal) => Refusal::from(refusal.clone()).code,
        plan::Outcome::Go => Code::Overloaded,
    };
    let refusal = match refused {
        Refused::Full { retry_after_us } => {
            let text = "every tier that may answer is full, and so is this router's queue: try again later";
            Refusal::new(code, text).after(retry_after_us)
        }
        Refused::Late { forecast, retry_after_us } => {
            let ms = (forecast.first_token_us / 1000.0).ceil();
            let strict = job.signals.deadline.is_some_and(|deadline| deadline.on_miss != OnMiss::Degrade);
            let (code, limit) = if strict {
                (Code::BudgetExceeded, "over this feature's budget")
            } else {
                (code, "longer than a router lets a request wait")
            };
            let text = format!(
                "every tier that may answer is full, and with those that wait already the first token is forecast after \
                 {ms} ms, {limit}: try again later"
            );
            let refusal = Refusal::new(code, text).after(retry_after_us);
            if strict { refusal.because([Reason::BudgetExceeded]) } else { refusal }
        }
    };
    because(job, plan, refusal)
}

/// Decides by the fleet as it is now. Of those that find no room the first is kept to be explained, and the last of all.
fn now(app: &App, job: &Job, record: &mut Record, keep: bool) -> (Plan, Option<Place>) {
    let now = app.clock.now_us();
    let (policy, draw) = (&job.in_use.snapshot.policy, app.random.draw());
    let request = Dispatch::of(&job.signals, Arc::clone(&job.prefix), now);
    let day = app.spend.day(now);
    let (plan, first) = app.fleet.plan(&job.in_use, day, request, now, |view| {
        let plan = terrace_decide::decide(&job.signals, view, policy, draw);
        if keep || plan.room.is_none() {
            record.decided(&job.id, &job.in_use.snapshot, now, || explain(&job.signals, view, policy, &plan));
        }
        plan
    });
    // The trace shows the last; those before it found no room.
    job.trace.decided(now, &job.in_use, &plan);
    (plan, first)
}
