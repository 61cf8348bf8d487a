//! A RoutingPolicy as the router sees it.

use kube::ResourceExt;
use terrace_contract::policy::{
    Access, Anonymise, Cascade, Complexity, Consent, Entity, Hedge, KeyRule, Limits, Overflow, Policy, Residency,
    Sensitivity, Weights,
};
use terrace_contract::trust::Class;

use super::{Refused, number, percent, uid, whole};
use crate::routing_policy::{self, CascadeMode, Objective};
use crate::{RoutingPolicy, RoutingPolicySpec};

pub(super) fn compile(object: &RoutingPolicy) -> Result<Policy, Refused> {
    let spec = &object.spec;
    Ok(Policy {
        uid: uid(object),
        name: object.name_any(),
        namespace: object.namespace().unwrap_or_default(),
        weights: weights(&spec.objective),
        access: access(&spec.access),
        listener_tls: spec.listener.is_some(),
        sensitivity: sensitivity(&spec.sensitivity)?,
        complexity: Complexity {
            mode: spec.complexity.mode.into(),
            max_prompt_tokens: whole(spec.complexity.rules.max_prompt_tokens),
        },
        cascade: cascade(&spec.cascade),
        selection: spec.selection.strategy.into(),
        hedge: hedge(&spec.selection.hedge),
        overflow: Overflow { mode: spec.overflow.mode.into(), max_percent: percent(spec.overflow.max_percent) },
        degrade: spec.degrade.mode.into(),
        learning: spec.learning.mode.into(),
        canary_percent: percent(spec.learning.canary_percent.unwrap_or_default()),
        ledger_on_write_failure: spec.egress_ledger.on_write_failure.into(),
        limits: limits(spec)?,
        trace_sample_percent: percent(spec.router.tracing.sample_percent),
    })
}

/// A percentile of what never happens is nothing that a router need know.
fn hedge(hedge: &routing_policy::Hedge) -> Hedge {
    match hedge.mode {
        routing_policy::HedgeMode::Disabled => Hedge::default(),
        mode => Hedge { mode: mode.into(), percentile: percent(hedge.percentile) },
    }
}

fn weights(objective: &Objective) -> Weights {
    match (&objective.weights, objective.preset) {
        (Some(w), _) => Weights {
            quality: percent(w.quality),
            latency: percent(w.latency),
            cost: percent(w.cost),
            privacy: percent(w.privacy),
            availability: percent(w.availability),
        },
        (None, Some(preset)) => preset.into(),
        (None, None) => Weights::BALANCED,
    }
}

/// Validation lets exactly one pass. Keys win, were it not so: nobody is let in by a mistake.
fn access(access: &routing_policy::Access) -> Access {
    let rule = |rule: &routing_policy::KeyRule| KeyRule {
        name: rule.name.to_string(),
        requests_per_minute: rule.requests_per_minute.map(whole),
        tokens_per_minute: rule.tokens_per_minute.map(whole),
        models: rule.models.iter().map(ToString::to_string).collect(),
        trust_label: rule.trust_label,
    };
    match (&access.api_keys, &access.anonymous) {
        (None, Some(_)) => Access::Anonymous,
        (keys, _) => Access::ApiKeys { keys: keys.iter().flat_map(|k| &k.keys).map(rule).collect() },
    }
}

fn sensitivity(sensitivity: &routing_policy::Sensitivity) -> Result<Sensitivity, Refused> {
    let consent = sensitivity.consent.as_ref().map(|consent| {
        number(consent.ttl.micros(), "spec.sensitivity.consent.ttl")
            .map(|ttl_us| Consent { classes: consent.classes.iter().map(|c| (*c).into()).collect(), ttl_us })
    });
    Ok(Sensitivity {
        // Validation refuses a policy that does not say; were one to pass, nothing of it would leave the private boundary.
        unlabelled: sensitivity.unlabelled.map_or(Class::Restricted, Into::into),
        boundaries: sensitivity.boundaries.into(),
        detector: sensitivity.detector.into(),
        anonymise: sensitivity
            .anonymise
            .as_ref()
            .map(|a| Anonymise { classes: a.classes.iter().map(|c| (*c).into()).collect(), up_to: a.up_to.into() }),
        consent: consent.transpose()?,
        residency: sensitivity
            .residency
            .iter()
            .map(|r| Residency { class: r.class.into(), regions: r.regions.iter().map(ToString::to_string).collect() })
            .collect(),
        entities: sensitivity
            .entities
            .iter()
            .map(|e| Entity { r#type: e.kind.to_string(), class: e.class.into(), pattern: e.pattern.clone() })
            .collect(),
        max_policy_age_us: number(sensitivity.max_policy_age.micros(), "spec.sensitivity.maxPolicyAge")?,
    })
}

fn cascade(cascade: &routing_policy::Cascade) -> Cascade {
    match cascade.mode {
        CascadeMode::Disabled => Cascade::Disabled,
        CascadeMode::Threshold => {
            Cascade::Threshold { min_confidence_percent: percent(cascade.min_confidence_percent.unwrap_or(100)) }
        }
        CascadeMode::Calibrated => {
            Cascade::Calibrated { target_error_percent: percent(cascade.target_error_percent.unwrap_or_default()) }
        }
    }
}

fn limits(spec: &RoutingPolicySpec) -> Result<Limits, Refused> {
    let limits = &spec.limits;
    let spend = limits.spend_per_day.as_ref().map(|money| number(money.micros(), "spec.limits.spendPerDay"));
    Ok(Limits {
        request_bytes: number(limits.request_bytes.bytes(), "spec.limits.requestBytes")?,
        max_output_tokens: whole(limits.max_output_tokens),
        concurrency: whole(limits.concurrency),
        spend_per_day_micros: spend.transpose()?,
    })
}
