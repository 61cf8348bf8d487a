//! A Tier as the router sees it.

use kube::ResourceExt;
use terrace_contract::names::AGENT_PORT;
use terrace_contract::tier::{
    Backend, Capability, Cost, Endpoint, EndpointLimits, Energy, Fleet, TaskQuality, Tier as Compiled,
};

use super::{Refused, generation, number, percent, uid, whole};
use crate::shared::Boundary;
use crate::validate::Violation;
use crate::{Tier, TierSpec, sentence, tier, tier_child};

/// Context of an endpoint that does not say: what most of them have; a longer prompt is refused by the endpoint itself.
const ENDPOINT_CONTEXT: u32 = 131_072;

pub(super) fn compile(object: &Tier, cluster_uid: &str) -> Result<Compiled, Refused> {
    let spec = &object.spec;
    let (name, namespace) = (object.name_any(), object.namespace().unwrap_or_default());
    let backend = match (&spec.backend.fleet, &spec.backend.endpoint) {
        (Some(fleet), None) => Backend::Fleet(Fleet {
            model: fleet.model.name.to_string(),
            max_sequences: whole(fleet.engine.max_sequences),
            service: format!("{}.{namespace}.svc", tier_child(&name)),
            port: AGENT_PORT,
            server_name: format!("spiffe://{cluster_uid}/ns/{namespace}/tier/{name}"),
        }),
        (None, Some(endpoint)) => Backend::Endpoint(self::endpoint(endpoint)),
        _ => {
            return Err(Refused {
                reason: "InvalidSpec",
                violations: vec![Violation::new("spec.backend", sentence::ONE_BACKEND)],
            });
        }
    };
    Ok(Compiled {
        uid: uid(object),
        generation: generation(object),
        name,
        namespace,
        boundary: spec.boundary.into(),
        topology_key: spec.locality.as_ref().map(|l| l.topology_key.to_string()),
        region: spec.region.as_ref().map(ToString::to_string).unwrap_or_default(),
        processor: spec.processor.clone().unwrap_or_default(),
        backend,
        cost: cost(spec)?,
        energy: energy(spec)?,
        capability: capability(spec),
    })
}

fn endpoint(endpoint: &tier::Endpoint) -> Endpoint {
    let limits = &endpoint.limits;
    Endpoint {
        url: endpoint.url.to_string(),
        model: endpoint.model.to_string(),
        credential: endpoint.credentials.as_ref().map(|c| c.secret_ref.key.to_string()),
        ca_certificate: endpoint.ca_certificate.as_ref().map(|c| c.secret_ref.key.to_string()),
        allowed_cidrs: endpoint.allowed_cidrs.iter().map(ToString::to_string).collect(),
        extra_fields: endpoint.extra_fields.iter().map(ToString::to_string).collect(),
        limits: EndpointLimits {
            concurrency: limits.concurrency.map(whole),
            requests_per_minute: limits.requests_per_minute.map(whole),
            tokens_per_minute: limits.tokens_per_minute.map(whole),
        },
    }
}

fn cost(spec: &TierSpec) -> Result<Cost, Refused> {
    let Some(cost) = &spec.cost else { return Ok(Cost::default()) };
    Ok(Cost {
        currency: cost.currency.to_string(),
        per_million_input_micros: number(cost.per_million_input.micros(), "spec.cost.perMillionInput")?,
        per_million_output_micros: number(cost.per_million_output.micros(), "spec.cost.perMillionOutput")?,
        per_device_hour_micros: number(cost.per_device_hour.micros(), "spec.cost.perDeviceHour")?,
    })
}

fn energy(spec: &TierSpec) -> Result<Energy, Refused> {
    let Some(energy) = &spec.energy else { return Ok(Energy::default()) };
    Ok(Energy {
        microjoules_per_input_token: number(energy.joules_per_input_token.micros(), "spec.energy.joulesPerInputToken")?,
        microjoules_per_output_token: number(
            energy.joules_per_output_token.micros(),
            "spec.energy.joulesPerOutputToken",
        )?,
        price_per_kwh_micros: number(energy.price_per_kwh.micros(), "spec.energy.pricePerKWh")?,
    })
}

fn capability(spec: &TierSpec) -> Capability {
    let capability = &spec.capability;
    let engine = spec.backend.fleet.as_ref().map(|fleet| whole(fleet.engine.context_tokens));
    let own = capability.context_tokens.map(whole);
    Capability {
        features: capability.features.iter().map(|f| (*f).into()).collect(),
        // An agent cannot hold more than its engine was given, whatever the tier says of itself.
        context_tokens: match (own, engine) {
            (Some(own), Some(engine)) => own.min(engine),
            (own, engine) => own.or(engine).unwrap_or(ENDPOINT_CONTEXT),
        },
        quality: capability.quality.default.map_or_else(|| usual_quality(spec.boundary), percent),
        tasks: capability
            .quality
            .tasks
            .iter()
            .map(|t| TaskQuality { task: t.task.to_string(), score: percent(t.score) })
            .collect(),
    }
}

/// The farther a tier, the larger its model usually is.
fn usual_quality(boundary: Boundary) -> u8 {
    match boundary {
        Boundary::Device => 50,
        Boundary::Private => 65,
        Boundary::Public => 80,
    }
}
