//! What the operator says of a policy. Pure but for the events.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::DynamicObject;
use terrace_crds::routing_policy::{LedgerState, RouterState, StuckRouter};
use terrace_crds::{RoutingPolicy, RoutingPolicyStatus};

use super::resolve::Resolved;
use super::{build, traffic};
use crate::conditions::{NOT_APPLICABLE, Want, merge, steady};
use crate::context::Context;
use crate::events;
use crate::figures;
use crate::kinds::Kind;
use crate::outcome::Outcome;
use crate::report::View;
use crate::snapshot::ready;

/// Its conditions, in their order.
pub const CONDITIONS: [&str; 7] =
    ["Accepted", "FieldsActive", "ResolvedRefs", "Programmed", "Reporting", "Ready", "Drifting"];

/// What status is made from.
pub struct Facts<'a> {
    /// The policy.
    pub policy: &'a RoutingPolicy,
    /// What it names.
    pub resolved: &'a Resolved,
    /// What became of it.
    pub outcome: &'a Outcome,
    /// The revision that routers should run; empty: none.
    pub revision: &'a str,
    /// Its routers' pods.
    pub pods: Vec<Arc<Pod>>,
    /// Folded reports.
    pub view: View,
    /// Fields that do nothing yet.
    pub inactive: Vec<String>,
    /// Now.
    pub now: Timestamp,
}

/// The status of a policy.
pub fn status(facts: &Facts<'_>, old: &RoutingPolicyStatus) -> RoutingPolicyStatus {
    let policy = facts.policy;
    let generation = policy.metadata.generation.unwrap_or(0);
    let routers = routers(facts, old);
    let accepted = facts.outcome.accepted();
    let refs = resolved_refs(facts.resolved);
    let early = too_early(facts);
    let same = old.routers.as_ref().is_some_and(|r| r.revision == facts.revision);
    let mut programmed = programmed(facts, &routers);
    let mut reporting = reporting(facts);
    if early {
        reporting = reporting.or_as_before(&old.conditions);
        if same && !facts.revision.is_empty() {
            programmed = programmed.or_as_before(&old.conditions);
        }
    }
    let ready = all_ready(facts, &accepted, &routers);
    let drifting = Want::no("Drifting", NOT_APPLICABLE, "");
    let wanted =
        vec![accepted, crate::status::fields_active(&facts.inactive), refs, programmed, reporting, ready, drifting];
    let hour = &facts.view.hour;
    let names = traffic::Names::of(policy, &facts.resolved.tiers);
    let quiet = hour.requests() == 0;
    let mut status = RoutingPolicyStatus {
        observed_generation: Some(generation),
        conditions: merge(&old.conditions, wanted, generation, facts.now),
        ladder: traffic::ladder(policy),
        routers: Some(routers),
        traffic: traffic::by_tier(hour, &names),
        classes: traffic::by_class(hour),
        denied: traffic::denied(hour),
        local_percent: (!quiet).then(|| traffic::local(hour, &names)),
        escalation_percent: (!quiet).then(|| traffic::escalated(hour)),
        overflow_percent: (!quiet).then(|| traffic::overflowed(hour)),
        drift: None,
        spend: (!quiet).then(|| traffic::spend(hour, &facts.resolved.tiers)).flatten(),
        ledger: ledger(facts, old),
    };
    if early {
        keep(&mut status, old);
    }
    status
}

/// This replica has only begun to take reports in, and some routers have not reported to it: silence says nothing yet.
fn too_early(facts: &Facts<'_>) -> bool {
    let live = facts.pods.iter().filter(|pod| ready(pod)).count();
    let heard = facts.view.routers.iter().filter(|r| is_live(facts, &r.uid)).count();
    facts.view.early && heard < live.max(1)
}

/// What only routers know stays as the last holder of the lease said it.
fn keep(status: &mut RoutingPolicyStatus, old: &RoutingPolicyStatus) {
    if let (Some(now), Some(before)) = (&mut status.routers, &old.routers) {
        now.stuck.clone_from(&before.stuck);
    }
    status.traffic.clone_from(&old.traffic);
    status.classes.clone_from(&old.classes);
    status.denied.clone_from(&old.denied);
    status.local_percent.clone_from(&old.local_percent);
    status.escalation_percent.clone_from(&old.escalation_percent);
    status.overflow_percent.clone_from(&old.overflow_percent);
    status.spend.clone_from(&old.spend);
    status.ledger.clone_from(&old.ledger);
}

fn routers(facts: &Facts<'_>, old: &RoutingPolicyStatus) -> RouterState {
    let count = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    let ready = count(facts.pods.iter().filter(|pod| ready(pod)).count());
    let desired = build::replicas(&facts.policy.spec.router).unwrap_or(count(facts.pods.len()));
    let heard = figures::time(facts.view.heard_us);
    let before = old.routers.as_ref().and_then(|r| r.last_report.as_ref());
    RouterState {
        desired,
        ready,
        summary: format!("{ready}/{desired}"),
        revision: facts.revision.to_owned(),
        stuck: stuck(facts),
        // What was heard before this operator began is not forgotten.
        last_report: heard.map(|at| steady(before, at)).or_else(|| before.cloned()),
    }
}

fn stuck(facts: &Facts<'_>) -> Vec<StuckRouter> {
    facts
        .view
        .routers
        .iter()
        .filter(|router| is_live(facts, &router.uid))
        .filter_map(|router| {
            let refused = router.refused.as_ref()?;
            let mut message = refused.clone();
            if let Some((end, _)) = message.char_indices().nth(500) {
                message.truncate(end);
            }
            Some(StuckRouter { pod: router.pod.clone(), reason: "SnapshotRefused".into(), message })
        })
        .take(10)
        .collect()
}

fn is_live(facts: &Facts<'_>, uid: &str) -> bool {
    facts.pods.iter().any(|pod| pod.metadata.uid.as_deref() == Some(uid) && pod.metadata.deletion_timestamp.is_none())
}

fn resolved_refs(resolved: &Resolved) -> Want {
    match resolved.unresolved.as_slice() {
        [] => Want::yes("ResolvedRefs", "Resolved", ""),
        all => {
            let messages: Vec<&str> = all.iter().map(|u| u.message.as_str()).collect();
            Want::no("ResolvedRefs", all[0].reason, messages.join("; "))
        }
    }
}

fn programmed(facts: &Facts<'_>, routers: &RouterState) -> Want {
    if facts.revision.is_empty() {
        return Want::no("Programmed", "NoSnapshot", "routers keep the last snapshot that they have");
    }
    if let Some(stuck) = routers.stuck.first() {
        return Want::no("Programmed", stuck.reason.clone(), format!("{}: {}", stuck.pod, stuck.message));
    }
    let heard: Vec<_> = facts.view.routers.iter().filter(|r| is_live(facts, &r.uid)).collect();
    if heard.is_empty() {
        return Want::unknown("Programmed", "NoReports", "no router has said which revision it runs");
    }
    let behind = heard.iter().filter(|r| r.revision != facts.revision).count();
    if behind > 0 {
        return Want::no("Programmed", "Updating", format!("{behind} of {} routers run another revision", heard.len()));
    }
    if heard.len() < facts.pods.iter().filter(|pod| ready(pod)).count() {
        return Want::unknown("Programmed", "NoReports", "not every router has said which revision it runs");
    }
    Want::yes("Programmed", "Programmed", "")
}

fn reporting(facts: &Facts<'_>) -> Want {
    let heard = facts.view.routers.iter().filter(|r| is_live(facts, &r.uid)).count();
    let live = facts.pods.iter().filter(|pod| ready(pod)).count();
    if heard == 0 {
        Want::unknown("Reporting", "NoReports", "no router has reported in the last 30 s")
    } else if heard < live {
        Want::unknown("Reporting", "NoReports", format!("{heard} of {live} routers have reported in the last 30 s"))
    } else {
        Want::yes("Reporting", "Reporting", "")
    }
}

fn all_ready(facts: &Facts<'_>, accepted: &Want, routers: &RouterState) -> Want {
    if accepted.fails() {
        return Want::no("Ready", accepted.reason(), accepted.message());
    }
    if let Some((reason, message)) = facts.outcome.failure() {
        return Want::no("Ready", reason, message);
    }
    if facts.resolved.tiers.is_empty() {
        return Want::no("Ready", "NoTier", "no tier of the ladder exists and may be used: see ResolvedRefs");
    }
    if routers.ready == 0 {
        return Want::no("Ready", "NoRouters", format!("none of {} routers is ready", routers.desired));
    }
    Want::yes("Ready", "Serving", if routers.ready < routers.desired { routers.summary.clone() } else { String::new() })
}

fn ledger(facts: &Facts<'_>, old: &RoutingPolicyStatus) -> Option<LedgerState> {
    let ledgers: Vec<_> = facts.view.routers.iter().filter_map(|r| r.ledger.as_ref()).collect();
    let newest = ledgers.iter().map(|l| l.last_write_us).max()?;
    // Rounded down to 64 MiB: every record would else be a write here.
    let free = ledgers.iter().map(|l| l.free_bytes >> 26 << 26).min();
    let before = old.ledger.as_ref().and_then(|l| l.last_write.as_ref());
    let at = figures::time(newest);
    Some(LedgerState {
        last_write: at.map(|at| steady(before, at)),
        free_bytes: free.and_then(|f| i64::try_from(f).ok()),
    })
}

/// Events that a change of status is worth.
pub async fn events(context: &Context, object: &DynamicObject, old: &RoutingPolicyStatus, new: &RoutingPolicyStatus) {
    let known = |pod: &str| old.routers.iter().flat_map(|r| &r.stuck).any(|s| s.pod == pod);
    for stuck in new.routers.iter().flat_map(|r| &r.stuck).filter(|s| !known(&s.pod)) {
        let note = format!("router {}: {}", stuck.pod, stuck.message);
        events::warn(context, Kind::RoutingPolicy, object, "SnapshotRefused", note).await;
    }
    for denied in new.denied.iter() {
        let before =
            old.denied.iter().find(|d| d.class == denied.class && d.reason == denied.reason).map_or(0, |d| d.count);
        if denied.count > before {
            let note = format!(
                "{} requests of class {} were denied in the last hour: {}",
                denied.count, denied.class, denied.reason
            );
            events::warn(context, Kind::RoutingPolicy, object, "BoundaryDenied", note).await;
        }
    }
}
