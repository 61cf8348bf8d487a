//! Rules of a RoutingPolicy between fields, and the patterns of its entities, which CEL cannot compile.

use std::collections::HashSet;

use kube::ResourceExt;
use regex_automata::meta::Regex;

use crate::routing_policy::{
    CascadeMode, LearningMode, Router, RoutingPolicy, RoutingPolicySpec, Sensitivity, TrafficPolicy,
};
use crate::sentence;
use crate::shared::{Boundary, Class, Workload};
use crate::validate::Violation;
use crate::validate::tier::{allowed, one_storage};

/// The most memory that one compiled entity may take: a pattern of 512 characters can ask for a great deal.
const ENTITY_BYTES: usize = 1 << 20;

/// Rules that one RoutingPolicy can show.
pub fn rules(policy: &RoutingPolicy, found: &mut Vec<Violation>) {
    let spec = &policy.spec;
    tiers(policy, found);
    objective(spec, found);
    if spec.access.api_keys.is_some() == spec.access.anonymous.is_some() {
        found.push(Violation::new("spec.access", sentence::ACCESS));
    }
    allowed(&spec.clients, "spec.clients", found);
    sensitivity(&spec.sensitivity, found);
    let cascade = &spec.cascade;
    if (cascade.mode == CascadeMode::Threshold) != cascade.min_confidence_percent.is_some()
        || (cascade.mode == CascadeMode::Calibrated) != cascade.target_error_percent.is_some()
    {
        found.push(Violation::new("spec.cascade", sentence::CASCADE));
    }
    if (spec.learning.mode == LearningMode::Canary) != spec.learning.canary_percent.is_some() {
        found.push(Violation::new("spec.learning.canaryPercent", sentence::CANARY_PERCENT));
    }
    let storage = &spec.egress_ledger.storage;
    one_storage(storage.empty_dir.is_some(), storage.claim.is_some(), "spec.egressLedger.storage", found);
    router(&spec.router, found);
}

/// A reference with the policy's own namespace and one without mean the same tier; CEL cannot see that.
fn tiers(policy: &RoutingPolicy, found: &mut Vec<Violation>) {
    let own = policy.namespace().unwrap_or_default();
    let mut seen = HashSet::new();
    let twice = policy.spec.tiers.iter().any(|tier| !seen.insert((tier.namespace_or(&own), tier.name.as_str())));
    if twice {
        found.push(Violation::new("spec.tiers", sentence::TIER_TWICE));
    }
}

fn objective(spec: &RoutingPolicySpec, found: &mut Vec<Violation>) {
    if spec.objective.preset.is_some() == spec.objective.weights.is_some() {
        found.push(Violation::new("spec.objective", sentence::ONE_OBJECTIVE));
    }
    if let Some(w) = &spec.objective.weights {
        let sum: i64 = [w.quality, w.latency, w.cost, w.privacy, w.availability].into_iter().map(i64::from).sum();
        if sum != 100 {
            found.push(Violation::new("spec.objective.weights", sentence::WEIGHTS_SUM));
        }
    }
}

fn sensitivity(sensitivity: &Sensitivity, found: &mut Vec<Violation>) {
    let at = |field: &str| format!("spec.sensitivity.{field}");
    if sensitivity.unlabelled.is_none() {
        found.push(Violation::new("spec.sensitivity", sentence::UNLABELLED));
    }
    let b = &sensitivity.boundaries;
    if b.restricted == Boundary::Public {
        found.push(Violation::new(&at("boundaries.restricted"), sentence::RESTRICTED));
    }
    if b.restricted > b.confidential || b.confidential > b.internal || b.internal > b.public {
        found.push(Violation::new(&at("boundaries"), sentence::MONOTONE));
    }
    if sensitivity.anonymise.as_ref().is_some_and(|a| a.classes.contains(&Class::Restricted)) {
        found.push(Violation::new(&at("anonymise.classes"), sentence::ANONYMISE_RESTRICTED));
    }
    if sensitivity.consent.as_ref().is_some_and(|c| c.classes.contains(&Class::Restricted)) {
        found.push(Violation::new(&at("consent.classes"), sentence::CONSENT_RESTRICTED));
    }
    for (index, entity) in sensitivity.entities.iter().enumerate() {
        let compiled =
            Regex::builder().configure(Regex::config().nfa_size_limit(Some(ENTITY_BYTES))).build(&entity.pattern);
        let problem = match compiled {
            Ok(regex) if regex.is_match("") => "matches the empty text, so every request would have it".to_owned(),
            Ok(_) => continue,
            Err(error) if error.size_limit().is_some() => "takes too much memory: make it smaller".to_owned(),
            Err(error) => format!("is not a regular expression ({error})"),
        };
        let path = at(&format!("entities[{index}].pattern"));
        found.push(Violation::new(
            &path,
            format!("the pattern of {} {problem}; write one such as ACME-[0-9]{{4}}", entity.kind),
        ));
    }
}

fn router(router: &Router, found: &mut Vec<Violation>) {
    if router.workload != Workload::Deployment && router.replicas.is_some() {
        found.push(Violation::new("spec.router.replicas", sentence::REPLICAS));
    }
    if router.traffic_policy == TrafficPolicy::Local && router.workload != Workload::DaemonSet {
        found.push(Violation::new("spec.router.trafficPolicy", sentence::TRAFFIC_LOCAL));
    }
}
