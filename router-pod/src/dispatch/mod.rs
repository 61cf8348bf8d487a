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
pub mod usage;
pub mod vectors;
mod walk;

use std::time::Duration;

use bytes::Bytes;
use terrace_contract::reason::Reason;
use terrace_decide::{Attempt, Plan, constrain};
use terrace_privacy::Cleared;
use terrace_wire::error::Code;

use self::attempt::Begun;
use self::body::Call;
use self::failure::Failure;
use self::rebuild::Names;
use self::vectors::Vectors;
use self::walk::{Walk, Won};
use crate::app::App;
use crate::fleet::place::Place;
use crate::job::Job;
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

/// A plan of which nothing came.
pub struct Ended {
    /// What its caller is told.
    pub refusal: Refusal,
    /// Whether everything that was asked was full: then another plan may find room.
    pub full: bool,
}

/// Tries what the plan says, in its order. `first` is the place that was counted when the plan was made, `tries` the number
/// of attempts at this request so far.
///
/// # Errors
/// [`Ended`] when nothing answered.
pub async fn carry(
    app: &App,
    job: &Job,
    plan: &Plan,
    mut first: Option<Place>,
    tries: &mut u32,
) -> Result<Carried, Ended> {
    let mut walk = Walk::new(app, job, plan, tries);
    while let Some(at) = walk.next_step() {
        if walk.tried.failures.last().is_some_and(|f| matches!(f, Failure::Caller { code: Code::InvalidRequest, .. })) {
            break;
        }
        if walk.tried.failures.last().is_some_and(Failure::is_fault) && !app.take_retry() {
            tracing::debug!("the retry budget is used up");
            break;
        }
        let Some(remaining) = job.remaining().filter(|_| !job.is_refused_as_late()) else {
            walk.tried.out_of_time = true;
            break;
        };
        if let Some(Won { begun, attempt, hedged }) = walk.step(at, first.take(), remaining).await {
            let mut reasons = walk.tried.reasons(attempt);
            reasons.extend(hedged.then_some(Reason::Hedged));
            return Ok(Carried { begun, reasons, degraded: attempt.degraded, overflowed: attempt.overflow });
        }
    }
    let full = walk.tried.full();
    Err(Ended { refusal: walk.tried.refusal(job, plan), full })
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
    /// Whether all that was asked was full.
    fn full(&self) -> bool {
        !self.failures.is_empty() && self.failures.iter().all(|failure| matches!(failure, Failure::Full { .. }))
    }

    fn faulty(&self) -> bool {
        self.failures.iter().any(Failure::is_fault)
    }

    /// Whether a tier's context did not hold the prompt.
    fn too_long(&self) -> bool {
        self.failures.iter().any(|failure| matches!(failure, Failure::TooLong { .. }))
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

    /// Whether a clearance was refused everywhere, and waiting changes nothing: no tier was left out for its state.
    fn never_permitted(&self, plan: &Plan) -> bool {
        let lasting = [Reason::Boundary, Reason::Residency, Reason::Model, Reason::Capability, Reason::ContextLength];
        !self.failures.is_empty()
            && self.failures.iter().all(|failure| matches!(failure, Failure::NotCleared(Reason::Boundary)))
            && plan.ruled_out.iter().all(|out| lasting.contains(&out.reason))
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
        let over = job.remaining().is_none() || job.is_refused_as_late();
        let late = matches!(self.failures.last(), Some(Failure::Late)) && over;
        if self.out_of_time || late {
            if job.remaining().is_some() {
                let text = "no tier began to answer within the time that this feature's budget gives (LatencyBudget \
                            spec.firstToken, with onMiss: Reject)";
                return Refusal::new(Code::BudgetExceeded, text).because([Reason::BudgetExceeded]);
            }
            let budget = job.budget.as_ref().map_or(Duration::MAX, |b| Duration::from_micros(b.total_us));
            if job.chain_left.is_some_and(|left| left < budget) {
                let text = "no tier answered within the time that this session's chain had left (LatencyBudget \
                            spec.chain.total)";
                return Refusal::new(Code::BudgetExceeded, text).because([Reason::ChainTime]);
            }
            return Refusal::new(
                Code::BudgetExceeded,
                "no tier answered within the time that this feature's budget gives (LatencyBudget spec.total)",
            )
            .because([Reason::BudgetExceeded]);
        }
        if let Some(Failure::Caller { status, code, at }) = self.failures.last() {
            let tier = self.last.as_ref().map_or("", |t| t.tier.as_str());
            let at = at.as_ref().map(|at| job.language.origin(at).to_string());
            let what = at.as_ref().map_or("check its fields".to_owned(), |at| format!("check {at}"));
            let text = format!("tier {tier} refused the request with status {status}: {what}");
            return Refusal { param: at, ..Refusal::new(*code, text) };
        }
        if let Some(Failure::TooLong { status, at }) = self.failures.last() {
            let tier = self.last.as_ref().map_or("", |t| t.tier.as_str());
            let at = at.as_ref().map(|at| job.language.origin(at).to_string());
            let text = format!(
                "the prompt is too long for tier {tier} (status {status}), and no other tier that this request may use holds \
                 more: shorten the prompt or lower max_tokens"
            );
            return Refusal { param: at, ..Refusal::new(Code::ContextTooLong, text) };
        }
        if self.never_permitted(plan) {
            let text = format!(
                "class {} may not go to any tier that is left for this request: nothing Restricted is sent over plain http. Give \
                 the tier an https url (Tier spec.backend.endpoint.url)",
                job.signals.class.as_str()
            );
            return Refusal::new(Code::BoundaryDenied, text);
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

fn clear(app: &App, job: &Job, attempt: &Attempt, now_us: u64) -> Result<Cleared<Bytes>, Reason> {
    let tier = job.in_use.tiers.get(attempt.tier.index).ok_or(Reason::NoDevice)?;
    let policy = &job.in_use.snapshot.policy;
    let built = body::for_tier(&job.request, job.call, tier, policy.limits.max_output_tokens);
    app.clear(job, &built, tier, now_us)
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
fn patience(job: &Job, attempt: &Attempt, last: bool, remaining: Duration) -> Duration {
    let (forecast, budget) = (attempt.forecast, job.budget.as_ref());
    if job.streams() {
        return limits::first_token(budget, forecast, last, (job.started.elapsed(), remaining));
    }
    // Of a whole answer nobody sees the first token.
    if last { remaining } else { limits::given_up(budget, forecast.finish_us, remaining) }
}
