//! A decision as a document that people and programs read ([`Explanation`]): by names instead of places in the view, and
//! bounded however many devices there are.

use terrace_contract::SCHEMA_VERSION;
use terrace_contract::explanation::{
    Attempt, Budget, Chain, Devices, DevicesOut, Explanation, Forecast, Refused, Rung, Score, Signals,
};
use terrace_contract::names::AUTO_MODEL;
use terrace_contract::policy::Policy;

use crate::plan::{self, Outcome, Plan};
use crate::signals::{self, ModelChoice};
use crate::view::{FleetView, Serving, TierView};

/// Most nodes that are named of the devices ruled out for one reason.
const NODES: usize = 8;

/// Explains a plan: `signals`, `view` and `policy` are those that it was decided by. Who it is for, when it was and what
/// became of it is filled in by who knows.
pub fn explain(signals: &signals::Signals, view: &FleetView, policy: &Policy, plan: &Plan) -> Explanation {
    let refusal = match &plan.outcome {
        Outcome::Go => None,
        Outcome::Refuse(refusal) => Some(Refused { code: refusal.code().to_owned(), message: refusal.to_string() }),
    };
    Explanation {
        schema_version: SCHEMA_VERSION,
        request_id: None,
        at_us: 0,
        policy: format!("{}/{}", policy.namespace, policy.name),
        revision: String::new(),
        signals: of_signals(signals, policy),
        tiers: view.tiers.iter().enumerate().map(|(index, tier)| rung(index, tier, plan)).collect(),
        decided: plan.decided.as_ref().map(|tier| tier.name.clone()),
        attempts: plan.attempts.iter().map(attempt).collect(),
        refusal,
        wait: plan.room.map(|room| forecast(room.after(0))),
        became: None,
    }
}

fn of_signals(signals: &signals::Signals, policy: &Policy) -> Signals {
    Signals {
        prompt_tokens: signals.prompt_tokens,
        expected_output_tokens: signals.expected_output_tokens,
        likely_output_tokens: signals.likely_output_tokens,
        max_output_tokens: signals.max_output_tokens,
        class: signals.class,
        class_reasons: signals.class_reasons.clone(),
        needs: signals.needs.clone(),
        model: match &signals.model {
            ModelChoice::Auto => AUTO_MODEL.to_owned(),
            ModelChoice::Named(name) => name.clone(),
        },
        feature: signals.feature.clone(),
        budget: signals.deadline.map(|deadline| Budget {
            first_token_us: deadline.first_token_us,
            total_us: deadline.total_us,
            on_miss: deadline.on_miss,
            priority: deadline.priority,
        }),
        chain: signals.hop.map(|hop| Chain {
            hop: hop.number,
            max_hops: hop.max_hops,
            left_us: hop.left_us,
            total_us: hop.total_us,
            transport_us: hop.transport_us,
            step: signals.is_step(),
        }),
        preferred: signals.prefer.is_some(),
        weights: signals.prefer.map_or(policy.weights, |prefer| prefer.weights()),
        complex: signals.complexity.complex,
        complexity: signals.complexity.signals.iter().map(|signal| signal.name().to_owned()).collect(),
        task: signals.complexity.task.clone(),
        floor: signals.complexity.floor,
    }
}

fn rung(index: usize, tier: &TierView, plan: &Plan) -> Rung {
    let out = plan.ruled_out.iter().filter(|out| out.tier == index);
    let scored = plan.scores.iter().find(|scored| scored.tier == index);
    Rung {
        name: tier.tier.name.clone(),
        boundary: tier.tier.boundary,
        model: tier.tier.backend.model().to_owned(),
        ruled_out: out.filter(|out| out.device.is_none()).map(|out| out.reason).collect(),
        devices: match &tier.serving {
            Serving::Endpoint(_) => None,
            Serving::Devices(devices) => Some(Devices {
                count: u32::try_from(devices.len()).unwrap_or(u32::MAX),
                ruled_out: devices_out(index, devices, plan),
            }),
        },
        score: scored.map(|scored| Score {
            able: scored.able,
            quality: scored.quality,
            latency: scored.latency,
            cost: scored.cost,
            privacy: scored.privacy,
            availability: scored.availability,
            now: scored.now,
            idle: scored.idle,
        }),
        forecast: scored.and_then(|scored| scored.forecast).map(forecast),
        cost_micros: scored.map(|scored| scored.cost_micros),
    }
}

fn devices_out(tier: usize, devices: &[crate::view::DeviceView], plan: &Plan) -> Vec<DevicesOut> {
    let mut found: Vec<DevicesOut> = Vec::new();
    for out in plan.ruled_out.iter().filter(|out| out.tier == tier) {
        let Some(device) = out.device.and_then(|device| devices.get(device)) else { continue };
        let at = found.iter().position(|known| known.reason == out.reason).unwrap_or_else(|| {
            found.push(DevicesOut { reason: out.reason, count: 0, nodes: Vec::new() });
            found.len() - 1
        });
        found[at].count += 1;
        if found[at].nodes.len() < NODES {
            found[at].nodes.push(device.facts.node.to_string());
        }
    }
    found
}

fn attempt(attempt: &plan::Attempt) -> Attempt {
    Attempt {
        tier: attempt.tier.name.clone(),
        nodes: attempt.devices.iter().map(|device| device.node.to_string()).collect(),
        reasons: attempt.reasons.clone(),
        overflow: attempt.overflow,
        degraded: attempt.degraded,
        only_after_failure: attempt.only_after_failure,
        insists: attempt.insists,
        forecast: forecast(attempt.forecast),
        cost_micros: attempt.cost_micros,
    }
}

fn forecast(forecast: plan::Forecast) -> Forecast {
    Forecast { first_token_us: forecast.first_token_us as u64, finish_us: forecast.finish_us as u64 }
}
