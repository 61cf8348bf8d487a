#![allow(clippy::all, clippy::disallowed_types, clippy::disallowed_methods, clippy::unwrap_used, clippy::print_stdout)]
use serde_json::json;
use std::sync::Arc;
use terrace_contract::policy::*;
use terrace_contract::trust::Boundary;
use terrace_decide::select::Selection;
use terrace_simulate::world::*;
use terrace_simulate::*;

fn tier(name: &str, boundary: Boundary, backend: serde_json::Value, price: u64) -> Arc<terrace_contract::tier::Tier> {
    Arc::new(serde_json::from_value(json!({
        "uid": format!("uid-{name}"), "generation": 1, "name": name, "namespace": "shop",
        "boundary": boundary.as_str(), "topologyKey": null, "region": "eu-west", "processor": "x", "backend": backend,
        "cost": {"currency": "USD", "perMillionInputMicros": price, "perMillionOutputMicros": 4 * price, "perDeviceHourMicros": 0},
        "energy": {"microjoulesPerInputToken": 0, "microjoulesPerOutputToken": 0, "pricePerKwhMicros": 0},
        "capability": {"features": [], "contextTokens": 32768, "quality": 60, "tasks": []},
    })).unwrap())
}

fn env(name: &str, default: f64) -> f64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

fn main() {
    let path = std::env::args().nth(1).unwrap();
    let trace = trace::read(&std::fs::read_to_string(path).unwrap()).unwrap();
    let policy: Policy = serde_json::from_value(json!({
        "uid": "p", "name": "assistant", "namespace": "shop",
        "weights": {"quality": 25, "latency": 10, "cost": 10, "privacy": 45, "availability": 10},
        "access": "anonymous", "listenerTls": false,
        "sensitivity": {"unlabelled": "Public",
            "boundaries": {"public": "Public", "internal": "Private", "confidential": "Private", "restricted": "Private"},
            "detector": "Score", "anonymise": null, "consent": null, "residency": [], "entities": [],
            "maxPolicyAgeUs": 3_600_000_000u64},
        "complexity": {"mode": "Static", "maxPromptTokens": 1000000}, "cascade": "disabled",
        "selection": "ShortestExpectedCompletion", "overflow": {"mode": "Predicted", "maxPercent": 100},
        "degrade": "Mark", "learning": "Disabled", "canaryPercent": 0, "ledgerOnWriteFailure": "Deny",
        "limits": {"requestBytes": 1048576, "maxOutputTokens": 4096, "concurrency": 512, "spendPerDayMicros": null},
        "traceSamplePercent": 100,
    })).unwrap();
    let mut devices = Vec::new();
    let slots = env("SLOTS", 4.0) as u32;
    let part = env("PART", 0.1);
    for (count, rate) in [(5, 6.0), (5, 8.0), (7, 28.0), (9, 48.0), (2, 60.0), (2, 90.0), (2, 120.0)] {
        for i in 0..count {
            let step = 1e6 / rate;
            devices.push(Device {
                node: format!("n{rate}-{i}").into(),
                slots,
                queue_limit: env("QUEUE", 4.0) as u32,
                prefill_rate: 12.0 * rate,
                step_base_us: step * (1.0 - part),
                step_per_sequence_us: step * part,
                prefill_chunk: 64,
                prefix_cache_tokens: 0,
                rtt_us: 2_000,
            });
        }
    }
    let (first, total) = (env("FIRST", 10.0), env("TOTAL", 20.0));
    let world = World {
        policy,
        budgets: vec![Budget {
            uid: "b".into(),
            name: "b".into(),
            features: vec![],
            first_token_us: (first * 1e6) as u64,
            total_us: (total * 1e6) as u64,
            objective_basis_points: 9900,
            window_us: 1,
            on_miss: OnMiss::Overflow,
            priority: Priority::Interactive,
            chain: None,
        }],
        rungs: vec![
            Rung {
                tier: tier(
                    "edge",
                    Boundary::Device,
                    json!({"fleet": {"model": "small", "maxSequences": 4, "service": "s", "port": 8443, "serverName": "n"}}),
                    0,
                ),
                places: Places::Devices(devices),
            },
            Rung {
                tier: tier(
                    "cloud",
                    Boundary::Public,
                    json!({"endpoint": {"url": "https://x/v1", "model": "big", "credential": null, "caCertificate": null, "allowedCidrs": [], "extraFields": [], "limits": {}}}),
                    1_000_000,
                ),
                places: Places::Endpoint(Endpoint {
                    rtt_us: 60_000,
                    queue_us: 200_000,
                    prefill_rate: 8_000.0,
                    step_us: 12_000.0,
                }),
            },
        ],
        traffic: Traffic { features: vec![], classes: vec![], complex_percent: 0, max_output_tokens: None },
        routers: env("ROUTERS", 1.0) as u32,
        reports_every_us: (env("REPORTS", 0.25) * 1e6) as u64,
        own_dispatches: env("OWN", 1.0) > 0.0,
        drift: env("DRIFT", 0.1),
        faults: vec![],
    };
    let loads: Vec<f64> =
        std::env::var("LOADS").unwrap_or("0.4,0.6,0.8,1.0,1.2".into()).split(',').map(|l| l.parse().unwrap()).collect();
    let only = std::env::var("ONLY").unwrap_or_default();
    println!(
        "{:>27} {:>5} {:>6} {:>8} {:>6} {:>6} {:>6} {:>6} {:>6} {:>8} {:>8}",
        "", "load", "rps", "overflow", "late", "kept", "busy", "honest", "h-end", "ttft95", "tot95"
    );
    for load in loads {
        for selection in Selection::ALL {
            if !only.is_empty() && !only.split(',').any(|o| o == selection.name()) {
                continue;
            }
            let began = std::time::Instant::now();
            let o = run(&world, &trace, &Options { selection, load, seed: env("SEED", 1.0) as u64 });
            println!(
                "{:>27} {:>5.2} {:>6.2} {:>8.2} {:>6.2} {:>6.2} {:>6.1} {:>6.1} {:>6.1} {:>8.0} {:>8.0}  {:>6.2}s left {} ref {:.2}",
                o.strategy,
                load,
                o.requests_per_second,
                o.overflow_percent,
                o.late_percent,
                o.late_kept_percent,
                o.busy_percent,
                o.honest_first_token_percent,
                o.honest_total_percent,
                o.first_token_ms.p95,
                o.total_ms.p95,
                began.elapsed().as_secs_f64(),
                o.left_in_flight,
                o.refused_percent
            );
        }
    }
}
