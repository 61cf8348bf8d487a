//! A small fleet: four devices of two speeds and an endpoint behind them.
#![allow(dead_code, clippy::unwrap_used, reason = "each test binary uses its part; helpers of tests")]

use std::sync::Arc;

use serde_json::{Value, json};
use terrace_contract::load::STEP_LIMIT_MS;
use terrace_contract::policy::{Budget, OnMiss, Policy, Priority};
use terrace_contract::tier::Tier;
use terrace_contract::trust::{Boundary, Class};
use terrace_decide::select::Selection;
use terrace_simulate::trace::Arrival;
use terrace_simulate::trace::synthetic::{self, Synthetic};
use terrace_simulate::world::{Device, Endpoint, Places, Rung, Traffic};
use terrace_simulate::{Options, Outcome, World, run};

pub fn policy() -> Policy {
    serde_json::from_value(json!({
        "uid": "p", "name": "assistant", "namespace": "shop",
        "weights": {"quality": 25, "latency": 10, "cost": 10, "privacy": 45, "availability": 10},
        "access": "anonymous", "listenerTls": false,
        "sensitivity": {"unlabelled": "Public",
            "boundaries": {"public": "Public", "internal": "Private", "confidential": "Private", "restricted": "Private"},
            "detector": "Score", "anonymise": null, "consent": null, "residency": [], "entities": [],
            "maxPolicyAgeUs": 3_600_000_000u64},
        "complexity": {"mode": "Static", "maxPromptTokens": 1_000_000}, "cascade": "disabled",
        "selection": "ShortestExpectedCompletion", "overflow": {"mode": "Predicted", "maxPercent": 100},
        "degrade": "Mark", "learning": "Disabled", "canaryPercent": 0, "ledgerOnWriteFailure": "Deny",
        "limits": {"requestBytes": 1_048_576, "maxOutputTokens": 4096, "concurrency": 512, "spendPerDayMicros": null},
        "traceSamplePercent": 100,
    }))
    .unwrap()
}

fn tier(name: &str, boundary: Boundary, backend: Value, price: u64) -> Arc<Tier> {
    Arc::new(
        serde_json::from_value(json!({
            "uid": format!("uid-{name}"), "generation": 1, "name": name, "namespace": "shop",
            "boundary": boundary.as_str(), "topologyKey": null, "region": "r", "processor": "x", "backend": backend,
            "cost": {"currency": "USD", "perMillionInputMicros": price, "perMillionOutputMicros": 4 * price, "perDeviceHourMicros": 0},
            "energy": {"microjoulesPerInputToken": 0, "microjoulesPerOutputToken": 0, "pricePerKwhMicros": 0},
            "capability": {"features": [], "contextTokens": 32768, "quality": 60, "tasks": []},
        }))
        .unwrap(),
    )
}

/// One that makes so many tokens a second alone.
pub fn device(name: &str, rate: f64) -> Device {
    Device {
        node: name.into(),
        slots: 4,
        queue_limit: 4,
        prefill_rate: 12.0 * rate,
        step_base_us: 0.9e6 / rate,
        step_per_sequence_us: 0.1e6 / rate,
        prefill_chunk: 256,
        step_limit_us: u64::from(STEP_LIMIT_MS) * 1_000,
        prefix_cache_tokens: 0,
        rtt_us: 2_000,
    }
}

pub fn world() -> World {
    let fleet =
        json!({"fleet": {"model": "small", "maxSequences": 4, "service": "s", "port": 8443, "serverName": "n"}});
    let endpoint = json!({"endpoint": {"url": "https://x/v1", "model": "big", "credential": null, "caCertificate": null,
        "allowedCidrs": [], "extraFields": [], "limits": {}}});
    let devices = [("fast-0", 80.0), ("fast-1", 80.0), ("slow-0", 20.0), ("slow-1", 20.0)];
    World {
        policy: policy(),
        budgets: vec![Budget {
            uid: "b".into(),
            name: "b".into(),
            features: Vec::new(),
            first_token_us: 10_000_000,
            total_us: 20_000_000,
            objective_basis_points: 9_900,
            window_us: 1,
            on_miss: OnMiss::Overflow,
            priority: Priority::Interactive,
            chain: None,
        }],
        rungs: vec![
            Rung {
                tier: tier("edge", Boundary::Device, fleet, 0),
                places: Places::Devices(devices.map(|(name, rate)| device(name, rate)).to_vec()),
            },
            Rung {
                tier: tier("cloud", Boundary::Public, endpoint, 1_000_000),
                places: Places::Endpoint(Endpoint {
                    rtt_us: 60_000,
                    queue_us: 200_000,
                    prefill_rate: 8_000.0,
                    step_us: 12_000.0,
                }),
            },
        ],
        traffic: Traffic { features: Vec::new(), classes: Vec::new(), complex_percent: 0, max_output_tokens: None },
        routers: 1,
        reports_every_us: 250_000,
        own_dispatches: true,
        drift: 0.1,
        faults: Vec::new(),
    }
}

pub fn of_class(mut world: World, class: Class) -> World {
    world.traffic.classes = vec![(class, 1)];
    world
}

pub fn trace(requests: usize, per_second: f64) -> Vec<Arrival> {
    synthetic::make(&Synthetic { requests, per_second, seed: 5 })
}

pub fn by(world: &World, trace: &[Arrival], selection: Selection) -> Outcome {
    run(world, trace, &Options { selection, load: 1.0, seed: 1 })
}

pub fn share(outcome: &[(String, f64)], tier: &str) -> f64 {
    outcome.iter().find(|(name, _)| name == tier).map(|(_, share)| *share).unwrap()
}
