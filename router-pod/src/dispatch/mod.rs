//! Carries a plan out: attempts in its order, cleared bodies only, until one begins to answer.
//!
//! Before the first token anything may be tried elsewhere; what follows the first token is [`crate::server::stream`]'s.

pub mod attempt;
pub mod body;
pub mod clearance;
pub mod connect;
pub mod connection;
pub mod credentials;
pub mod failure;
pub mod limits;
pub mod pool;
pub mod reader;
pub mod rebuild;
pub mod target;
pub mod vectors;

use std::sync::Arc;

use bytes::Bytes;
use terrace_contract::reason::Reason;
use terrace_decide::track::Dispatch;
use terrace_decide::{Attempt, Plan, constrain};
use terrace_privacy::Cleared;
use terrace_wire::error::Code;

use self::attempt::{Begun, Order};
use self::body::Call;
use self::failure::Failure;
use self::rebuild::Names;
use self::vectors::Vectors;
use crate::app::App;
use crate::fleet::place::Place;
use crate::job::Job;
use crate::metrics::AttemptLabels;
use crate::refusal::{Refusal, Tried};

/// A plan that was carried out.
pub struct Carried {
    /// The answer that has begun.
    pub begun: Begun,
    /// Why there.
    pub reasons: Vec<Reason>,
    /// Nearer than decided.
    pub degraded: bool,
    /// Farther than decided.
    pub overflowed: bool,
}

/// Tries what the plan says, in its order. `first` is the place that was counted when the plan was made.
///
/// # Errors
/// [`Refusal`] when nothing answered.
pub async fn carry(app: &App, job: &Job, plan: &Plan, mut first: Option<Place>) -> Result<Carried, Refusal> {
    let mut tried = Trail::default();
    let steps: Vec<(&Attempt, Option<&str>)> = plan.attempts.iter().flat_map(sites).collect();
    for (number, (attempt, pod_uid)) in steps.iter().copied().enumerate() {
        if attempt.only_after_failure && !tried.faulty() {
            continue;
        }
        if tried.failures.last().is_some_and(|f| matches!(f, Failure::Caller { code: Code::InvalidRequest, .. })) {
            break;
        }
        if tried.failures.last().is_some_and(Failure::is_fault) && !app.take_retry() {
            tracing::debug!("the retry budget is used up");
            break;
        }
        let Some(remaining) = job.remaining() else {
            tried.out_of_time = true;
            break;
        };
        let cleared = match clear(app, job, attempt) {
            Ok(cleared) => cleared,
            Err(reason) => {
                tried.failures.push(Failure::NotCleared(reason));
                continue;
            }
        };
        let now = app.clock.now_us();
        let request = Dispatch::of(&job.signals, Arc::clone(&job.prefix), now);
        let place = match first.take().filter(|place| number == 0 && place.tier.uid == attempt.tier.uid) {
            Some(place) => place,
            None => match app.fleet.admit(&job.in_use, attempt.tier.index, pod_uid, request, now) {
                Some(place) => place,
                None => {
                    tried.failures.push(Failure::Full { retry_after_us: None });
                    continue;
                }
            },
        };
        if attempt.overflow && !std::mem::replace(&mut tried.overflowed, true) {
            app.fleet.overflow().overflowed(now);
        }
        tried.last = Some(Tried {
            tier: place.tier.name.clone(),
            device: place.name().to_owned(),
            boundary: place.tier.boundary.as_str(),
        });
        let last = number + 1 == steps.len();
        let order = Order {
            cleared: &cleared,
            request_id: &job.id,
            number: u32::try_from(number + 1).unwrap_or(u32::MAX),
            call: job.call,
            stream: job.streams(),
            names: names(job, &place, now),
            prompt_tokens: job.signals.prompt_tokens.into(),
            forecast_us: if job.streams() { attempt.forecast.first_token_us } else { attempt.forecast.finish_us },
            first_token: patience(job, attempt, last, remaining),
            remaining,
            via: &job.via,
            cache_domain: job.cache_domain.as_deref(),
            trace: job.trace.attempt(&place),
        };
        let (uid, tier) = (place.tier.uid.clone(), place.tier.name.clone());
        let result = attempt::begin(app, place, order).await;
        let outcome = result.as_ref().map_or_else(Failure::kind, |_| "ok");
        app.metrics.attempts.get_or_create(&AttemptLabels { tier, outcome }).inc();
        app.ledger.attempt(&uid, result.is_err());
        match result {
            Ok(begun) => {
                let reasons = tried.reasons(attempt);
                return Ok(Carried { begun, reasons, degraded: attempt.degraded, overflowed: attempt.overflow });
            }
            Err(failure) => {
                tracing::debug!(request = %job.id, tier = %attempt.tier.name, %failure, "an attempt failed");
                tried.failures.push(failure);
            }
        }
    }
    Err(tried.refusal(job, plan))
}

/// The places of an attempt, in its order: each device, or the endpoint.
fn sites(attempt: &Attempt) -> impl Iterator<Item = (&Attempt, Option<&str>)> {
    let endpoint = attempt.devices.is_empty().then_some((attempt, None));
    endpoint.into_iter().chain(attempt.devices.iter().map(move |d| (attempt, Some(&*d.pod_uid))))
}

/// What has been tried, and how it went.
#[derive(Default)]
struct Trail {
    failures: Vec<Failure>,
    last: Option<Tried>,
    overflowed: bool,
    out_of_time: bool,
}

impl Trail {
    fn faulty(&self) -> bool {
        self.failures.iter().any(Failure::is_fault)
    }

    /// Why the answer comes from where it does: the plan's reasons, corrected by what really happened.
    fn reasons(&self, attempt: &Attempt) -> Vec<Reason> {
        let mut reasons = attempt.reasons.clone();
        if let Some(last) = self.failures.last() {
            if attempt.overflow {
                let planned = [Reason::OverflowDown, Reason::OverflowPredicted, Reason::OverflowSaturated];
                reasons.retain(|reason| !planned.contains(reason));
                reasons.push(last.overflow());
            }
            if self.faulty() {
                reasons.push(Reason::Retried);
            }
        }
        reasons
    }

    fn refusal(self, job: &Job, plan: &Plan) -> Refusal {
        let reasons = plan.ruled_out.iter().filter(|r| r.device.is_none()).map(|r| r.reason);
        let failed = self.failures.iter().map(Failure::reason);
        let refusal = self.end(job, plan).because(reasons).because(failed);
        Refusal { tried: self.last.map(Box::new), ..refusal }
    }

    fn end(&self, job: &Job, plan: &Plan) -> Refusal {
        let retry_after = self.failures.iter().filter_map(|f| match f {
            Failure::Full { retry_after_us } => *retry_after_us,
            _ => None,
        });
        let soon = retry_after.min().unwrap_or(constrain::RETRY_FULL_US);
        let late = matches!(self.failures.last(), Some(Failure::Late)) && job.remaining().is_none();
        if self.out_of_time || late {
            return Refusal::new(
                Code::BudgetExceeded,
                "no tier answered within the time that this feature's budget gives (LatencyBudget spec.total)",
            )
            .because([Reason::BudgetExceeded]);
        }
        if let Some(Failure::Caller { status, code }) = self.failures.last() {
            let tier = self.last.as_ref().map_or("", |t| t.tier.as_str());
            return Refusal::new(
                *code,
                format!("tier {tier} refused the request with status {status}: check its fields"),
            );
        }
        if self.failures.iter().all(Failure::never_reached) {
            let full = self.failures.iter().all(|f| matches!(f, Failure::Full { .. }));
            return if full && !constrain::confined(&plan.ruled_out) {
                Refusal::new(Code::Overloaded, "every tier that could answer is full: try again later").after(soon)
            } else {
                let text = "the tiers that this request may use cannot answer now: try again later";
                let after = if full { soon } else { constrain::RETRY_DOWN_US };
                Refusal::new(Code::PermittedTiersUnavailable, text).after(after)
            };
        }
        let status = self.failures.iter().rev().find_map(|f| match f {
            Failure::Status { status } => Some(*status),
            _ => None,
        });
        let tier = self.last.as_ref().map_or("", |t| t.tier.as_str());
        let said = status.map_or_else(|| "gave no answer".to_owned(), |s| format!("answered with status {s}"));
        Refusal::new(Code::UpstreamFailed, format!("every permitted attempt failed; the last tier, {tier}, {said}"))
    }
}

fn clear(app: &App, job: &Job, attempt: &Attempt) -> Result<Cleared<Bytes>, Reason> {
    let tier = job.in_use.tiers.get(attempt.tier.index).ok_or(Reason::NoDevice)?;
    let policy = &job.in_use.snapshot.policy;
    let built = body::for_tier(&job.request, job.call, tier, policy.limits.max_output_tokens);
    app.clear(job, &built, tier)
}

fn names(job: &Job, place: &Place, now_us: u64) -> Names {
    Names {
        id: job.id.clone(),
        created: now_us / 1_000_000,
        model: place.tier.backend.model().to_owned(),
        call: job.call,
        vectors: if job.call == Call::Embedding { Vectors::of_request(&job.request) } else { Vectors::default() },
    }
}

/// How long one attempt may take: to its first token, or to its end when nothing comes before.
fn patience(job: &Job, attempt: &Attempt, last: bool, remaining: std::time::Duration) -> std::time::Duration {
    let mut forecast = attempt.forecast;
    if job.streams() {
        return limits::first_token(job.budget.as_ref(), forecast, last, remaining);
    }
    if last {
        return remaining;
    }
    forecast.first_token_us = forecast.finish_us;
    limits::first_token(job.budget.as_ref(), forecast, false, remaining)
}
