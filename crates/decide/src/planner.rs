//! Puts the steps together: which tier is decided, what is tried in which order, and when nothing is.

use std::cmp::Ordering;

use terrace_contract::policy::{Degrade, OnMiss, OverflowMode, Policy};
use terrace_contract::reason::Reason;
use terrace_contract::spent::DAY_US;

use crate::ability;
use crate::chain::Spent;
use crate::constrain::{self, State};
use crate::plan::{Attempt, DeviceRef, Outcome, Plan, Refusal, Room, RuledOut, Scored, TierRef};
use crate::predict;
use crate::rung::{Rung, rung};
use crate::score::{self, Facts};
use crate::select::Selection;
use crate::signals::{ModelChoice, Signals};
use crate::view::{FleetView, OverflowWindow, Serving};

/// Overflows a minute that are always allowed when any are: a share of two requests says nothing.
const FREE_OVERFLOWS: u32 = 10;

/// Decides one request. `draw` is a number in `0..1` for the strategies that choose at random.
pub fn decide(signals: &Signals, view: &FleetView, policy: &Policy, draw: f64) -> Plan {
    decide_by(signals, view, policy, policy.selection.into(), draw)
}

/// [`decide`] with another way to pick devices than the policy's: a simulation compares them.
pub fn decide_by(signals: &Signals, view: &FleetView, policy: &Policy, selection: Selection, draw: f64) -> Plan {
    let mut ruled_out = Vec::new();
    let permitted = match constrain::permit(signals, view, policy, &mut ruled_out) {
        Ok(permitted) => permitted,
        Err(refusal) => return refused(refusal, None, Vec::new(), ruled_out),
    };
    let floor = ability::floor(&signals.complexity, view, &permitted);
    let rungs: Vec<Rung> =
        permitted.iter().map(|&tier| rung(signals, view, (selection, draw), tier, floor, &mut ruled_out)).collect();
    let facts: Vec<Facts<'_>> = rungs.iter().map(|r| r.facts(view)).collect();
    let scores = score::score(signals, &policy.weights, &facts);

    // The nearest wins a tie: later rungs must be better, not equal.
    let Some(best) = (0..rungs.len())
        .filter(|&i| rungs[i].able)
        .reduce(|best, i| if scores[i].idle > scores[best].idle { i } else { best })
    else {
        let refusal = Refusal::PermittedTiersUnavailable { retry_after_us: constrain::RETRY_DOWN_US };
        return refused(refusal, None, scores, ruled_out);
    };
    Planner { signals, view, policy, rungs: &rungs, scores: &scores, best }.plan(ruled_out)
}

fn refused(refusal: Refusal, decided: Option<TierRef>, scores: Vec<Scored>, ruled_out: Vec<RuledOut>) -> Plan {
    Plan { outcome: Outcome::Refuse(refusal), decided, attempts: Vec::new(), scores, ruled_out, room: None }
}

struct Planner<'a> {
    signals: &'a Signals,
    view: &'a FleetView,
    policy: &'a Policy,
    rungs: &'a [Rung],
    scores: &'a [Scored],
    /// Position of the decided tier among the rungs.
    best: usize,
}

/// Why a request leaves the decided tier, or that it does not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leave {
    Stay,
    Down,
    Full,
    Late,
}

impl Planner<'_> {
    fn plan(&self, mut ruled_out: Vec<RuledOut>) -> Plan {
        let decided = &self.rungs[self.best];
        let on_miss = self.signals.deadline.map_or(OnMiss::Overflow, |d| d.on_miss);
        let spent = self.spent();
        // No other tier gives a chain its calls or its time back: only `Degrade` still answers.
        if let Some((refusal, _)) = spent.clone().filter(|_| on_miss != OnMiss::Degrade) {
            return refused(refusal, Some(self.tier_ref(decided)), self.scores.to_vec(), ruled_out);
        }
        let leave = match decided.state {
            State::Down(_) => Leave::Down,
            State::Full(_) => Leave::Full,
            State::Up if !decided.feasible => Leave::Late,
            State::Up => Leave::Stay,
        };
        // One that would only hold up others is not refused: its own forecast keeps the budget.
        let late = decided.likely.filter(|likely| !predict::feasible(*likely, self.signals.deadline.as_ref()));
        if let (OnMiss::Reject, Leave::Late, Some(late)) = (on_miss, leave, late) {
            let refusal = Refusal::BudgetExceeded {
                first_token_us: late.first_token_us as u64,
                finish_us: late.finish_us as u64,
            };
            return refused(refusal, Some(self.tier_ref(decided)), self.scores.to_vec(), ruled_out);
        }

        let mut farther = match leave {
            Leave::Full if self.policy.overflow.mode == OverflowMode::Disabled || on_miss != OnMiss::Overflow => {
                Vec::new()
            }
            _ => self.alternatives(|at| at > self.best && self.rungs[at].able),
        };
        let nearer = match self.policy.degrade {
            Degrade::Mark => self.alternatives(|at| at < self.best),
            Degrade::Fail => Vec::new(),
        };
        let capped = !farther.is_empty() && !may_overflow(self.view.overflow, self.policy.overflow.max_percent);
        if capped {
            ruled_out.extend(farther.drain(..).map(|at| RuledOut {
                tier: self.rungs[at].tier,
                device: None,
                reason: Reason::OverflowCapped,
            }));
        }

        let mut attempts = match &spent {
            Some((_, reason)) if self.policy.degrade == Degrade::Mark => self.nearest(*reason),
            _ => self.order(leave, on_miss, capped, farther, nearer),
        };
        let room = if capped || !attempts.is_empty() { None } else { self.room(on_miss) };
        if attempts.is_empty() && room.is_none() && spent.is_none() {
            attempts = self.insisting();
        }
        let (decided, scores) = (Some(self.tier_ref(decided)), self.scores.to_vec());
        if attempts.is_empty() {
            return Plan { room, ..refused(self.refusal(capped, &ruled_out), decided, scores, ruled_out) };
        }
        Plan { outcome: Outcome::Go, decided, attempts, scores, ruled_out, room: None }
    }

    /// Nothing is left of which anything good is known: what is only believed to be down, the decided tier first.
    fn insisting(&self) -> Vec<Attempt> {
        let farther = (self.best + 1..self.rungs.len()).filter(|&at| self.rungs[at].able);
        let out = may_overflow(self.view.overflow, self.policy.overflow.max_percent);
        let nearer = (0..self.best).rev().filter(|_| self.policy.degrade == Degrade::Mark);
        let order = [self.best].into_iter().chain(farther.filter(|_| out)).chain(nearer);
        let attempt = |at: usize| {
            let rung = &self.rungs[at];
            let (_, reason) = rung.doubted?;
            let attempt = match at.cmp(&self.best) {
                Ordering::Less => self.degraded(at),
                Ordering::Equal => self.attempt(rung, Vec::new()),
                Ordering::Greater => self.overflow(at, Reason::OverflowDown, false),
            };
            let reasons = [attempt.reasons.as_slice(), &[reason]].concat();
            Some(Attempt { reasons, insists: true, ..attempt })
        };
        order.filter_map(attempt).collect()
    }

    /// What is used up of the request's chain, as an error and as a reason.
    fn spent(&self) -> Option<(Refusal, Reason)> {
        let hop = self.signals.hop?;
        Some(match hop.spent()? {
            Spent::Hops => (Refusal::ChainHops { max_hops: hop.max_hops }, Reason::ChainHops),
            Spent::Time => (Refusal::ChainTime { total_us: hop.total_us }, Reason::ChainTime),
        })
    }

    /// Past the end of its chain a call costs as little as can be: the nearest tier that is up, marked.
    fn nearest(&self, reason: Reason) -> Vec<Attempt> {
        let up = self.rungs.iter().filter(|rung| rung.up());
        let mark = |rung| Attempt { degraded: true, ..self.attempt(rung, vec![reason, Reason::Degraded]) };
        up.map(mark).collect()
    }

    /// What would come of waiting: of the full tiers that would be tried if they had room, the one that answers first.
    fn room(&self, on_miss: OnMiss) -> Option<Room> {
        let out = self.policy.overflow.mode != OverflowMode::Disabled && on_miss == OnMiss::Overflow;
        let tried = |at: usize| match at.cmp(&self.best) {
            Ordering::Less => self.policy.degrade == Degrade::Mark,
            Ordering::Equal => true,
            Ordering::Greater => out && self.rungs[at].able,
        };
        let rooms = (0..self.rungs.len()).filter(|&at| tried(at)).filter_map(|at| self.rungs[at].room);
        rooms.min_by(|a, b| a.first_token_us.total_cmp(&b.first_token_us))
    }

    fn order(
        &self,
        leave: Leave,
        on_miss: OnMiss,
        capped: bool,
        farther: Vec<usize>,
        nearer: Vec<usize>,
    ) -> Vec<Attempt> {
        let mut attempts = Vec::new();
        let feasible = |at: &usize| self.rungs[*at].feasible;
        let late = leave == Leave::Late;
        let goes_out = late && on_miss == OnMiss::Overflow && self.policy.overflow.mode == OverflowMode::Predicted;
        let goes_in = late && (on_miss == OnMiss::Degrade || (goes_out && capped));

        // A late tier is left only for one that is forecast to be in time.
        let (first_out, rest_out): (Vec<_>, Vec<_>) = farther.into_iter().partition(|at| goes_out && feasible(at));
        let (first_in, rest_in): (Vec<_>, Vec<_>) = nearer.into_iter().partition(|at| goes_in && feasible(at));
        attempts.extend(first_out.iter().map(|&at| self.overflow(at, Reason::OverflowPredicted, false)));
        attempts.extend(first_in.iter().map(|&at| self.degraded(at)));
        if matches!(leave, Leave::Stay | Leave::Late) {
            attempts.push(self.decided(late, capped));
        }
        let (reason, only_after_failure) = match leave {
            Leave::Full => (Reason::OverflowSaturated, false),
            Leave::Down => (Reason::OverflowDown, false),
            Leave::Stay | Leave::Late => (
                Reason::OverflowDown,
                self.policy.overflow.mode == OverflowMode::Disabled || on_miss != OnMiss::Overflow,
            ),
        };
        attempts.extend(rest_out.iter().map(|&at| self.overflow(at, reason, only_after_failure)));
        attempts.extend(rest_in.iter().map(|&at| self.degraded(at)));
        attempts
    }

    /// Rungs that are up, those in time first, then the able, then by score.
    fn alternatives(&self, which: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut found: Vec<usize> = (0..self.rungs.len()).filter(|&at| self.rungs[at].up() && which(at)).collect();
        found.sort_by(|&a, &b| {
            let key = |at: usize| (self.rungs[at].feasible, self.rungs[at].able);
            key(b).cmp(&key(a)).then(self.scores[b].now.total_cmp(&self.scores[a].now))
        });
        found
    }

    fn decided(&self, late: bool, capped: bool) -> Attempt {
        let rung = &self.rungs[self.best];
        let mut reasons = Vec::new();
        if matches!(self.signals.model, ModelChoice::Named(_)) {
            reasons.push(Reason::ModelRequested);
        }
        if self.signals.escalate_from.is_some() {
            reasons.push(Reason::Escalated);
        }
        if self.signals.complexity.complex && self.best > 0 {
            reasons.push(Reason::Complex);
        }
        reasons.push(if self.best == 0 { Reason::Nearest } else { Reason::BestScore });
        if late {
            reasons.push(Reason::PredictedLate);
        }
        if late && capped {
            reasons.push(Reason::OverflowCapped);
        }
        self.attempt(rung, reasons)
    }

    fn overflow(&self, at: usize, reason: Reason, only_after_failure: bool) -> Attempt {
        Attempt { overflow: true, only_after_failure, ..self.attempt(&self.rungs[at], vec![reason]) }
    }

    fn degraded(&self, at: usize) -> Attempt {
        Attempt { degraded: true, ..self.attempt(&self.rungs[at], vec![Reason::Degraded]) }
    }

    fn attempt(&self, rung: &Rung, reasons: Vec<Reason>) -> Attempt {
        let devices = match &self.view.tiers[rung.tier].serving {
            Serving::Endpoint(_) => Vec::new(),
            Serving::Devices(devices) => rung
                .devices
                .iter()
                .map(|&index| DeviceRef {
                    index,
                    pod_uid: devices[index].facts.pod_uid.clone(),
                    node: devices[index].facts.node.clone(),
                })
                .collect(),
        };
        Attempt {
            tier: self.tier_ref(rung),
            devices,
            reasons,
            overflow: false,
            degraded: false,
            only_after_failure: false,
            insists: false,
            forecast: rung.now.or(rung.doubted.map(|(now, _)| now)).unwrap_or(rung.idle),
            cost_micros: rung.cost_micros,
        }
    }

    fn tier_ref(&self, rung: &Rung) -> TierRef {
        let tier = &self.view.tiers[rung.tier].tier;
        TierRef { index: rung.tier, uid: tier.uid.clone(), name: tier.name.clone(), boundary: tier.boundary }
    }

    /// Nothing can be tried: which error says it best.
    fn refusal(&self, capped: bool, ruled_out: &[RuledOut]) -> Refusal {
        let cooling = self.rungs.iter().filter_map(|r| constrain::cooling(self.view, r.tier)).min();
        let full = self.rungs.iter().any(|r| matches!(r.state, State::Full(_)));
        let retry_after_us = cooling.unwrap_or(if full { constrain::RETRY_FULL_US } else { constrain::RETRY_DOWN_US });
        if self.rungs.iter().all(|rung| rung.state == State::Down(Reason::SpendLimit)) {
            Refusal::SpendLimit { retry_after_us: DAY_US - self.view.now_us % DAY_US }
        } else if capped {
            Refusal::OverflowCapped { max_percent: self.policy.overflow.max_percent, retry_after_us }
        } else if full && !constrain::confined(ruled_out) {
            Refusal::Overloaded { retry_after_us }
        } else {
            Refusal::PermittedTiersUnavailable { retry_after_us }
        }
    }
}

/// Whether one more request of this minute may overflow.
fn may_overflow(window: OverflowWindow, max_percent: u8) -> bool {
    let share = (u64::from(window.requests) + 1) * u64::from(max_percent) / 100;
    let free = if max_percent == 0 { 0 } else { u64::from(FREE_OVERFLOWS) };
    u64::from(window.overflowed) < share.max(free)
}
