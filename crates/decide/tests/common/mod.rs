//! A ladder of three tiers to test with: devices, a private endpoint, a cloud.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::sync::Arc;

use serde_json::{Value, json};
use terrace_contract::load::Load;
use terrace_contract::policy::{OnMiss, Policy, Priority};
use terrace_contract::tier::Tier;
use terrace_contract::trust::{Boundary, Class};
use terrace_decide::complexity::Verdict;
use terrace_decide::view::Report;
use terrace_decide::{
    BreakerState, Deadline, DeviceFacts, DeviceView, EndpointView, FleetView, ModelChoice, OverflowWindow, Rates,
    Serving, Signals, TierView,
};

pub fn policy() -> Policy {
    serde_json::from_value(json!({
        "uid": "p", "name": "assistant", "namespace": "shop",
        "weights": {"quality": 30, "latency": 25, "cost": 25, "privacy": 10, "availability": 10},
        "access": "anonymous", "listenerTls": false,
        "sensitivity": {"unlabelled": "Public",
            "boundaries": {"public": "Public", "internal": "Private", "confidential": "Private", "restricted": "Private"},
            "detector": "Score", "anonymise": null, "consent": null, "residency": [], "entities": [],
            "maxPolicyAgeUs": 3_600_000_000u64},
        "complexity": {"mode": "Rules", "maxPromptTokens": 50}, "cascade": "disabled",
        "selection": "ShortestExpectedCompletion", "overflow": {"mode": "Predicted", "maxPercent": 30},
        "degrade": "Mark", "learning": "Disabled", "canaryPercent": 0, "ledgerOnWriteFailure": "Deny",
        "limits": {"requestBytes": 1048576, "maxOutputTokens": 4096, "concurrency": 512, "spendPerDayMicros": null},
        "traceSamplePercent": 100,
    }))
    .unwrap()
}

pub fn tier(name: &str, boundary: Boundary, backend: Value, quality: u8, price_micros: u64) -> Arc<Tier> {
    Arc::new(
        serde_json::from_value(json!({
            "uid": format!("uid-{name}"), "generation": 1, "name": name, "namespace": "shop",
            "boundary": boundary.as_str(), "topologyKey": null, "region": "eu-west", "processor": "Example GmbH",
            "backend": backend,
            "cost": {"currency": "USD", "perMillionInputMicros": price_micros, "perMillionOutputMicros": 4 * price_micros,
                "perDeviceHourMicros": 0},
            "energy": {"microjoulesPerInputToken": 0, "microjoulesPerOutputToken": 0, "pricePerKwhMicros": 0},
            "capability": {"features": ["Tools"], "contextTokens": 4096, "quality": quality,
                "tasks": [{"task": "math", "score": quality.saturating_sub(10)}]},
        }))
        .unwrap(),
    )
}

pub fn fleet(name: &str, quality: u8, devices: Vec<DeviceView>) -> TierView {
    let backend =
        json!({"fleet": {"model": "small", "maxSequences": 4, "service": "s", "port": 8443, "serverName": "n"}});
    TierView { tier: tier(name, Boundary::Device, backend, quality, 0), turn: 0, serving: Serving::Devices(devices) }
}

pub fn endpoint(name: &str, boundary: Boundary, model: &str, quality: u8, price_micros: u64) -> TierView {
    let backend = json!({"endpoint": {"url": "https://api.example.com/v1", "model": model, "credential": "apiKey",
        "caCertificate": null, "allowedCidrs": [], "extraFields": [], "limits": {}}});
    TierView {
        tier: tier(name, boundary, backend, quality, price_micros),
        turn: 0,
        serving: Serving::Endpoint(EndpointView {
            rtt_us: Some(30_000),
            queue_us: 0,
            rates: Some(Rates { prefill_rate: 8_000.0, step_base_us: 12_000.0, step_per_sequence_us: 0.0 }),
            in_flight: 0,
            concurrency_left: None,
            requests_left: None,
            tokens_left: None,
            cooling_until_us: 0,
            breaker: BreakerState::Closed,
            credential: true,
            correction: 1.0,
        }),
    }
}

pub fn load(running: u32, queued: u32) -> Load {
    Load {
        running,
        queued,
        slots: 4,
        queue_limit: 4,
        queued_prefill_tokens: u64::from(queued) * 100,
        free_kv_blocks: 1000,
        total_kv_blocks: 1000,
        prefill_rate: 500.0,
        step_base_us: 20_000.0,
        step_per_sequence_us: 1_000.0,
    }
}

pub fn device(name: &str, running: u32, queued: u32) -> DeviceView {
    DeviceView {
        facts: Arc::new(DeviceFacts {
            pod_uid: format!("uid-{name}").into(),
            node: format!("node-{name}").into(),
            domain: "".into(),
        }),
        ready: true,
        report: Some(Report { load: load(running, queued), age_us: 100_000 }),
        own_in_flight: 0,
        own_since_report: 0,
        own_prompt_tokens_since_report: 0,
        own_slack_us: None,
        cached_tokens: 0,
        rtt_us: Some(500),
        breaker: BreakerState::Closed,
        correction: 1.0,
        pace: 1.0,
        tail_correction: 1.0,
        tail_pace: 1.0,
    }
}

/// Edge with two idle devices (quality 55), private (75), cloud (92).
pub fn view() -> FleetView {
    FleetView {
        tiers: vec![
            fleet("edge", 55, vec![device("a", 0, 0), device("b", 1, 0)]),
            endpoint("private", Boundary::Private, "medium", 75, 200_000),
            endpoint("cloud", Boundary::Public, "large", 92, 3_000_000),
        ],
        now_us: 1_000_000,
        snapshot_age_us: 0,
        domain: String::new(),
        overflow: OverflowWindow::default(),
        spend_left_micros: None,
    }
}

pub fn devices(view: &mut FleetView) -> &mut Vec<DeviceView> {
    let Serving::Devices(devices) = &mut view.tiers[0].serving else { panic!("the first tier is a fleet") };
    devices
}

pub fn far(view: &mut FleetView, tier: usize) -> &mut EndpointView {
    let Serving::Endpoint(endpoint) = &mut view.tiers[tier].serving else { panic!("that tier is an endpoint") };
    endpoint
}

pub fn signals() -> Signals {
    Signals {
        prompt_tokens: 30,
        longest_input_tokens: None,
        expected_output_tokens: 64,
        likely_output_tokens: 64,
        max_output_tokens: None,
        class: Class::Public,
        class_reasons: Vec::new(),
        needs: Vec::new(),
        model: ModelChoice::Auto,
        feature: "chat".to_owned(),
        deadline: None,
        prefer: None,
        complexity: Verdict::simple(),
        escalate_from: None,
        hop: None,
    }
}

pub fn deadline(first_token_ms: u64, total_ms: u64, on_miss: OnMiss) -> Option<Deadline> {
    let (first_token_us, total_us) = (first_token_ms * 1000, total_ms * 1000);
    Some(Deadline { first_token_us, total_us, on_miss, priority: Priority::Interactive })
}
