//! Answers that keep to a grammar, in the engine's loop: a model of random weights says nothing but what fits.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

#[path = "support/asking.rs"]
mod asking;
#[path = "support/tiny.rs"]
mod tiny;

use asking::{ask, collect, engine, idle, model};
use serde_json::{Value, json};
use terrace_agent::engine::{Engine, EngineConfig, EngineHandle, FinishReason, GenerateRequest, Sampling};
use terrace_agent::grammar::{Compiled, Grammar, Grammars};

fn person(handle: &EngineHandle) -> Compiled {
    let schema = json!({"type": "object", "additionalProperties": false, "required": ["name", "age"],
        "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "minimum": 0, "maximum": 99}}});
    Grammars::new(handle.tokenizer().clone()).compile(&Grammar::schema(schema)).unwrap()
}

fn request(grammar: &Compiled, seed: u64) -> GenerateRequest {
    GenerateRequest {
        grammar: Some(grammar.clone()),
        sampling: Sampling { temperature: 1.0, seed: Some(seed), ..Sampling::default() },
        ..GenerateRequest::new((0..40).map(|i| (i * 7 + 3) % 256).collect(), 150)
    }
}

/// The answer's members, checked.
fn check(text: &str) -> (String, u64) {
    let value: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"));
    let (name, age) = (value["name"].as_str().unwrap(), value["age"].as_u64().unwrap());
    assert!(name.chars().count() <= 8 && age <= 99 && value.as_object().unwrap().len() == 2, "{text}");
    (name.to_owned(), age)
}

#[tokio::test]
async fn noise_is_made_to_fit_and_a_seed_is_a_text() {
    let handle = engine(EngineConfig::default());
    let grammar = person(&handle);
    let mut seen = std::collections::HashSet::new();
    for seed in 0..12 {
        let answer = ask(&handle, request(&grammar, seed)).await;
        assert_eq!(answer.done().finish_reason, FinishReason::Stop);
        seen.insert(check(&answer.text));
        assert_eq!(ask(&handle, request(&grammar, seed)).await.text, answer.text);
    }
    assert!(seen.len() > 8, "they say the same: {seen:?}");
    let short = ask(&handle, GenerateRequest { max_tokens: 6, ..request(&grammar, 0) }).await;
    assert_eq!(short.done().finish_reason, FinishReason::Length);
    idle(&handle).await;
}

#[tokio::test]
async fn choices_each_fit_and_say_what_they_say_alone() {
    let alone = engine(EngineConfig::default());
    let grammar = person(&alone);
    for slots in [4, 2] {
        let handle = engine(EngineConfig { max_sequences: slots, ..EngineConfig::default() });
        let (_, choices) = handle.submit_choices(request(&grammar, 20), 4).unwrap();
        for (seed, events) in (20..).zip(choices) {
            let answer = collect(events).await;
            check(&answer.text);
            assert_eq!(answer.tokens, ask(&alone, request(&grammar, seed)).await.tokens, "{slots} slots");
        }
        idle(&handle).await;
    }
}

#[tokio::test]
async fn who_is_preempted_keeps_its_place_in_the_grammar() {
    let config = EngineConfig { max_sequences: 6, queue_limit: 20, ..EngineConfig::default() };
    let small = Engine::start(model(6, Some(16)), config).unwrap();
    let alone = engine(EngineConfig::default());
    let grammar = person(&alone);
    // Half of them are free, and long enough that there is no room for all.
    let of = |seed: u64| {
        let bound = request(&grammar, seed);
        if seed.is_multiple_of(2) { bound } else { GenerateRequest { grammar: None, ..bound } }
    };
    let all: Vec<_> = (0..12).map(|seed| small.submit(of(seed)).unwrap().1).collect();
    for (seed, events) in (0..).zip(all) {
        let answer = collect(events).await;
        if seed % 2 == 0 {
            check(&answer.text);
        }
        assert_eq!(answer.tokens, ask(&alone, of(seed)).await.tokens);
    }
    assert!(small.stats().preemptions > 0, "room for all, so nothing was tested: {:?}", small.stats());
    idle(&small).await;
}

#[tokio::test]
async fn stop_strings_and_grammars_go_together() {
    let handle = engine(EngineConfig::default());
    let grammar = person(&handle);
    let whole = ask(&handle, request(&grammar, 3)).await.text;
    let stopped = ask(&handle, GenerateRequest { stop: vec!["\"age\"".into()], ..request(&grammar, 3) }).await;
    assert_eq!(stopped.text, whole[..whole.find("\"age\"").unwrap()]);
    assert_eq!(stopped.done().finish_reason, FinishReason::Stop);
}

#[tokio::test]
async fn max_tokens_in_the_middle_of_an_emoji_says_whole_characters_only() {
    let handle = engine(EngineConfig::default());
    let grammar =
        Grammars::new(handle.tokenizer().clone()).compile(&Grammar::schema(json!({"const": "a🦀é"}))).unwrap();
    let mut lengths = std::collections::BTreeSet::new();
    for tokens in 1..=9 {
        let answer = ask(&handle, GenerateRequest { max_tokens: tokens, ..request(&grammar, 1) }).await;
        assert!("\"a🦀é\"".starts_with(&answer.text), "{tokens} tokens: {:?}", answer.text);
        assert_eq!(
            answer.tokens.len() as u32,
            answer.done().usage.completion,
            "tokens of no text are told all the same"
        );
        lengths.insert(answer.text.len());
    }
    assert!(lengths.contains(&2) && lengths.contains(&6), "nothing was cut inside of the emoji: {lengths:?}");
}
