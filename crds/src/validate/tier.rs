//! Rules of a Tier between fields.

use crate::sentence;
use crate::shared::Workload;
use crate::shared::{Allowed, Boundary, Namespaces, NamespacesFrom};
use crate::text::Sha256;
use crate::text::{Cidr, ModelName};
use crate::tier::{EngineDevice, Fleet, ModelSource, TierSpec};
use crate::validate::Violation;

/// Rules that one Tier can show.
pub fn rules(spec: &TierSpec, found: &mut Vec<Violation>) {
    let mut need = |holds: bool, path: &str, sentence: &str| {
        if !holds {
            found.push(Violation::new(path, sentence));
        }
    };
    let (fleet, endpoint) = (&spec.backend.fleet, &spec.backend.endpoint);
    need(fleet.is_some() != endpoint.is_some(), "spec.backend", sentence::ONE_BACKEND);
    need(spec.boundary != Boundary::Device || endpoint.is_none(), "spec.boundary", sentence::DEVICE_IS_FLEET);
    need(spec.boundary == Boundary::Device || spec.locality.is_none(), "spec.locality", sentence::LOCALITY_IS_DEVICE);
    if let Some(endpoint) = endpoint {
        let https = endpoint.url.as_str().starts_with("https://");
        need(spec.boundary != Boundary::Public || https, "spec.backend.endpoint.url", sentence::PUBLIC_HTTPS);
        let same = spec.allowed_policies.namespaces.from == NamespacesFrom::Same;
        need(same, "spec.allowedPolicies", sentence::ENDPOINT_SAME);
        need(not_auto(&endpoint.model), "spec.backend.endpoint.model", sentence::MODEL_AUTO);
        for (index, cidr) in endpoint.allowed_cidrs.iter().enumerate() {
            need(is_range(cidr), &format!("spec.backend.endpoint.allowedCIDRs[{index}]"), Cidr::WRITE);
        }
    }
    allowed(&spec.allowed_policies, "spec.allowedPolicies", found);
    if let Some(fleet) = fleet {
        fleet_rules(fleet, found);
    }
}

/// Rules between a Tier and what it was before.
pub fn change_rules(spec: &TierSpec, old: &TierSpec, found: &mut Vec<Violation>) {
    if spec.boundary != old.boundary {
        found.push(Violation::new("spec.boundary", sentence::BOUNDARY_IMMUTABLE));
    }
    if spec.backend.fleet.is_some() != old.backend.fleet.is_some() {
        found.push(Violation::new("spec.backend", sentence::BACKEND_IMMUTABLE));
    }
}

fn fleet_rules(fleet: &Fleet, found: &mut Vec<Violation>) {
    const PATH: &str = "spec.backend.fleet";
    let at = |field: &str| format!("{PATH}.{field}");
    if fleet.workload != Workload::Deployment && fleet.replicas.is_some() {
        found.push(Violation::new(&at("replicas"), sentence::REPLICAS));
    }
    if !not_auto(&fleet.model.name) {
        found.push(Violation::new(&at("model.name"), sentence::MODEL_AUTO));
    }
    source(&fleet.model.source, fleet.model.sha256.as_ref(), &at("model"), found);
    for (index, variant) in fleet.variants.iter().enumerate() {
        source(&variant.source, variant.sha256.as_ref(), &at(&format!("variants[{index}]")), found);
    }
    if let Some(gpu) = &fleet.gpu {
        if gpu.resource.is_some() == gpu.resource_claim_template_name.is_some() {
            found.push(Violation::new(&at("gpu"), sentence::ONE_GPU));
        }
        if fleet.engine.device == EngineDevice::Cpu {
            found.push(Violation::new(&at("gpu"), sentence::GPU_CPU));
        }
    }
    if let Some(cache) = &fleet.cache {
        one_storage(cache.empty_dir.is_some(), cache.claim.is_some(), &at("cache"), found);
    }
}

fn source(source: &ModelSource, sha256: Option<&Sha256>, path: &str, found: &mut Vec<Violation>) {
    let given = [source.http.is_some(), source.image.is_some(), source.claim.is_some(), source.host_path.is_some()];
    if given.into_iter().filter(|given| *given).count() != 1 {
        found.push(Violation::new(&format!("{path}.source"), sentence::ONE_SOURCE));
    }
    if source.http.is_some() && sha256.is_none() {
        found.push(Violation::new(&format!("{path}.sha256"), sentence::HTTP_SHA256));
    }
}

fn not_auto(name: &ModelName) -> bool {
    name.as_str() != terrace_contract::names::AUTO_MODEL
}

/// A form alone lets `300.0.0.0/8` pass.
fn is_range(cidr: &Cidr) -> bool {
    let Some((address, bits)) = cidr.as_str().split_once('/') else { return false };
    let most = match address.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V4(_)) => 32,
        Ok(std::net::IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    bits.parse::<u8>().is_ok_and(|bits| bits <= most)
}

/// `emptyDir` or `claim`.
pub(super) fn one_storage(empty_dir: bool, claim: bool, path: &str, found: &mut Vec<Violation>) {
    if empty_dir == claim {
        found.push(Violation::new(path, sentence::ONE_STORAGE));
    }
}

/// `from` and `selector`.
pub(super) fn allowed(allowed: &Allowed, path: &str, found: &mut Vec<Violation>) {
    let Namespaces { from, selector } = &allowed.namespaces;
    if (*from == NamespacesFrom::Selector) != selector.is_some() {
        found.push(Violation::new(&format!("{path}.namespaces"), sentence::NAMESPACE_SELECTOR));
    }
}
