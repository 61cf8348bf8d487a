//! A policy and tiers to test with.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use serde_json::{Value, json};
use terrace_contract::policy::{Policy, Sensitivity};
use terrace_contract::tier::Tier;
use terrace_contract::trust::{Boundary, Class};
use terrace_privacy::{Classified, Request, Rules};

pub fn policy(sensitivity: Value) -> Policy {
    let mut base = json!({
        "unlabelled": "Internal",
        "boundaries": {"public": "Public", "internal": "Private", "confidential": "Private", "restricted": "Private"},
        "detector": "Score", "anonymise": null, "consent": null, "residency": [], "entities": [],
        "maxPolicyAgeUs": 3_600_000_000u64,
    });
    for (key, value) in sensitivity.as_object().unwrap() {
        base[key] = value.clone();
    }
    serde_json::from_value(json!({
        "uid": "p", "name": "assistant", "namespace": "shop",
        "weights": {"quality": 30, "latency": 25, "cost": 25, "privacy": 10, "availability": 10},
        "access": "anonymous", "listenerTls": false, "sensitivity": base,
        "complexity": {"mode": "Rules", "maxPromptTokens": 50}, "cascade": "disabled",
        "selection": "ShortestExpectedCompletion", "overflow": {"mode": "Predicted", "maxPercent": 30},
        "degrade": "Mark", "learning": "Disabled", "canaryPercent": 0, "ledgerOnWriteFailure": "Deny",
        "limits": {"requestBytes": 1048576, "maxOutputTokens": 4096, "concurrency": 512, "spendPerDayMicros": null},
        "traceSamplePercent": 100,
    }))
    .unwrap()
}

pub fn tier(boundary: Boundary, url: &str) -> Tier {
    serde_json::from_value(json!({
        "uid": format!("t-{boundary}"), "generation": 1, "name": "far", "namespace": "shop", "boundary": boundary.as_str(),
        "topologyKey": null, "region": "eu-west", "processor": "Example GmbH",
        "backend": {"endpoint": {"url": url, "model": "big-model", "credential": null, "caCertificate": null,
            "allowedCidrs": [], "extraFields": [], "limits": {}}},
        "cost": {"currency": "", "perMillionInputMicros": 0, "perMillionOutputMicros": 0, "perDeviceHourMicros": 0},
        "energy": {"microjoulesPerInputToken": 0, "microjoulesPerOutputToken": 0, "pricePerKwhMicros": 0},
        "capability": {"features": [], "contextTokens": 4096, "quality": 80, "tasks": []},
    }))
    .unwrap()
}

pub fn user(text: &str) -> Value {
    json!({"model": "auto", "messages": [{"role": "user", "content": text}]})
}

pub fn classify(sensitivity: &Sensitivity, body: &Value) -> Classified {
    labelled(sensitivity, body, None, false)
}

pub fn labelled(sensitivity: &Sensitivity, body: &Value, label: Option<Class>, trust_label: bool) -> Classified {
    let rules = Rules::compile(sensitivity).unwrap();
    rules.classify(&Request { body, label, trust_label, session: None }, &mut || false)
}
