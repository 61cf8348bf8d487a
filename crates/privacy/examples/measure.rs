//! How long classifying takes, and what the detector finds.
//!
//! `cargo run --release -p terrace-privacy --example measure [presidio_synth_v2.json [PROMPTS...]]` prints JSON. With
//! the labelled sentences of microsoft/presidio-research, recall and precision of the kinds that are detected are
//! measured too; with files of clean prompts, one a line, the share of each class.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "measuring is its purpose")]

#[path = "../tests/common/mod.rs"]
mod common;

use std::hint::black_box;
use std::time::Instant;

use serde_json::{Value, json};
use terrace_contract::trust::Class;
use terrace_privacy::detect::{self, Kind};
use terrace_privacy::normalise::normalise;
use terrace_privacy::{Request, Rules};

const PROSE: &str = "The quarterly review went well, and the team agreed to move the launch to the second week of May. \
                     We still need 3 more machines for the test lab; please ask for quotes before 12 April. ";

fn main() {
    let mut figures = vec![
        time("short message", &common::user("What time does the library open on Sunday?"), 20_000),
        time("1 KiB of prose", &common::user(&prose(1024)), 5_000),
        time("4 KiB of prose", &common::user(&prose(4096)), 2_000),
        time("20 KiB of prose", &common::user(&prose(20 * 1024)), 500),
        time("1 KiB of Chinese", &common::user(&"下周三的会议改到下午三点,请通知大家带上笔记本。".repeat(15)), 5_000),
        time("200 KiB of digits", &common::user(&"4111 ".repeat(40 * 1024)), 20),
    ];
    if let Some(path) = std::env::args().nth(1) {
        let sentences: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        figures.extend(accuracy(&sentences));
        let texts = sentences.as_array().unwrap().iter().filter_map(|sentence| sentence["full_text"].as_str());
        figures.push(beside("the labelled sentences", texts.flat_map(|text| text.split_inclusive(". "))));
    }
    for path in std::env::args().skip(2) {
        figures.push(clean(&path));
        figures.push(beside(&path, std::fs::read_to_string(&path).unwrap().lines()));
    }
    println!("{}", serde_json::to_string_pretty(&json!({"bench": "sensitivity", "figures": figures})).unwrap());
}

fn prose(bytes: usize) -> String {
    PROSE.chars().cycle().take(bytes).collect()
}

fn time(name: &str, body: &Value, rounds: usize) -> Value {
    let rules = Rules::compile(&common::policy(json!({})).sensitivity).unwrap();
    let request = Request { body, label: None, trust_label: false, session: None };
    let mut samples: Vec<f64> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            black_box(rules.classify(black_box(&request), &mut || false));
            start.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    samples.sort_by(f64::total_cmp);
    let at = |q: f64| samples[((rounds - 1) as f64 * q) as usize];
    json!({"name": format!("classify, {name}, microseconds"), "p50": at(0.5), "p99": at(0.99)})
}

/// Share of clean prompts that the detector raises.
fn clean(path: &str) -> Value {
    let prompts = std::fs::read_to_string(path).unwrap();
    let sensitivity = common::policy(json!({"unlabelled": "Public"})).sensitivity;
    let rules = Rules::compile(&sensitivity).unwrap();
    let (mut all, mut raised) = (0u32, std::collections::BTreeMap::<String, u32>::new());
    for line in prompts.lines() {
        let request = Request { body: &common::user(line), label: None, trust_label: false, session: None };
        let classified = rules.classify(&request, &mut || false);
        all += 1;
        if classified.class() > Class::Public {
            let kinds: Vec<&str> = classified.entities().keys().map(String::as_str).collect();
            *raised.entry(format!("{} {}", classified.class(), kinds.join("+"))).or_insert(0) += 1;
        }
    }
    json!({"name": format!("clean prompts of {path}"), "prompts": all, "raised": raised})
}

/// Share of innocent texts that are raised only because they stand beside each other: as parts, turns and descriptions.
fn beside<'a>(name: &str, texts: impl Iterator<Item = &'a str>) -> Value {
    let rules = Rules::compile(&common::policy(json!({"unlabelled": "Public"})).sensitivity).unwrap();
    let class = |body: &Value| {
        let classified =
            rules.classify(&Request { body, label: None, trust_label: false, session: None }, &mut || false);
        (classified.class(), classified.entities().keys().cloned().collect::<Vec<_>>().join("+"))
    };
    let innocent: Vec<&str> = texts.filter(|text| class(&common::user(text)).0 == Class::Public).collect();
    let (mut all, mut raised) = (0u32, std::collections::BTreeMap::<String, u32>::new());
    for some in innocent.chunks(4) {
        let each = |make: &dyn Fn(&str) -> Value| some.iter().map(|text| make(text)).collect::<Vec<Value>>();
        let parts = each(&|text| json!({"type": "text", "text": text}));
        for (form, body) in [
            ("parts", json!({"messages": [{"role": "user", "content": parts}]})),
            ("turns", json!({"messages": each(&|text| json!({"role": "user", "content": text}))})),
            ("tools", json!({"tools": each(&|text| json!({"type": "function", "function": {"description": text}}))})),
            ("prompts", json!({"prompt": some})),
        ] {
            all += 1;
            let (class, kinds) = class(&body);
            if class > Class::Public {
                *raised.entry(format!("{form} {class} {kinds}")).or_insert(0) += 1;
            }
        }
    }
    json!({"name": format!("innocent neighbours of {name}"), "requests": all, "raised": raised})
}

/// Spans of the labelled sentences that are found, and findings that are labelled, by kind.
fn accuracy(sentences: &Value) -> Vec<Value> {
    let kinds = [
        (Kind::Card, "CREDIT_CARD"),
        (Kind::Iban, "IBAN_CODE"),
        (Kind::Ssn, "US_SSN"),
        (Kind::Email, "EMAIL_ADDRESS"),
        (Kind::Ip, "IP_ADDRESS"),
        (Kind::Phone, "PHONE_NUMBER"),
    ];
    let sentences = sentences.as_array().unwrap();
    let text = |v: &Value, key: &str| v[key].as_str().unwrap_or_default().to_owned();
    kinds
        .iter()
        .map(|(kind, label)| {
            let (mut spans, mut hit, mut found, mut wrong) = (0, 0, 0, 0);
            let mut missed = Vec::new();
            let mut spurious = Vec::new();
            for sentence in sentences {
                let all = sentence["spans"].as_array().unwrap();
                let labelled: Vec<String> =
                    all.iter().filter(|s| s["entity_type"] == **label).map(|s| text(s, "entity_value")).collect();
                let mut values = Vec::new();
                detect::scan(&normalise(&text(sentence, "full_text")), &mut |k, value| {
                    if k == *kind {
                        values.push(value.to_owned());
                    }
                });
                spans += labelled.len();
                found += values.len();
                for span in labelled.iter() {
                    if values.iter().any(|v| v.contains(span.trim()) || span.contains(v.as_str())) {
                        hit += 1;
                    } else {
                        missed.push(span.clone());
                    }
                }
                for value in values {
                    if !labelled.iter().any(|span| span.contains(&value) || value.contains(span.trim())) {
                        wrong += 1;
                        spurious.push(value);
                    }
                }
            }
            missed.truncate(8);
            spurious.truncate(8);
            json!({"name": format!("{kind:?}"), "spans": spans, "recall": f64::from(hit) / spans.max(1) as f64,
                "precision": 1.0 - f64::from(wrong) / found.max(1) as f64, "missed": missed, "spurious": spurious})
        })
        .collect()
}
