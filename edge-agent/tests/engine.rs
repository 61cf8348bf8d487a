//! The engine from outside, with the small model: order of events, limits, cancel, drain, batches.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

#[path = "support/asking.rs"]
mod asking;
#[path = "support/tiny.rs"]
mod tiny;

use std::time::{Duration, Instant};

use asking::{DEADLINE, collect, engine, request, until};
use terrace_agent::engine::{EngineConfig, Event, Failure, FinishReason, GenerateRequest, Refused, Sampling};

#[tokio::test]
async fn a_greedy_answer_is_complete_and_the_same_twice() {
    let handle = engine(EngineConfig { prefill_chunk: 4, ..EngineConfig::default() });
    let mut answers = Vec::new();
    for _ in 0..2 {
        let (_, events) = handle.submit(request(&handle, "hello, this prompt takes several chunks", 20)).unwrap();
        answers.push(collect(events).await);
    }
    let done = answers[0].done();
    assert_eq!(answers[0].text, answers[1].text);
    assert_eq!(done.usage.completion as usize, answers[0].tokens.len());
    let prompt = handle.tokenizer().encode("hello, this prompt takes several chunks").unwrap();
    assert_eq!(done.usage.prompt as usize, prompt.len());
    let confidence = done.confidence.expect("an answer has a confidence");
    assert_eq!(confidence.tokens, done.usage.completion);
    assert!(confidence.min <= confidence.p50 && confidence.p50 <= 0.0 && confidence.entropy > 0.0, "{confidence:?}");
    let load = handle.load();
    assert!(load.prefill_rate > 0.0 && load.step_base_us + load.step_per_sequence_us > 0.0, "{load:?}");
    assert_eq!((load.queued_prefill_tokens, load.total_kv_blocks), (0, u64::from(tiny::CONTEXT) / 16));
}

#[tokio::test]
async fn the_same_seed_says_the_same_and_alternatives_are_sorted() {
    let handle = engine(EngineConfig::default());
    let with_seed = |seed| GenerateRequest {
        sampling: Sampling { temperature: 1.0, top_p: 0.9, seed: Some(seed), ..Sampling::default() },
        ..request(&handle, "hello", 30)
    };
    let mut said = Vec::new();
    for seed in [1, 1, 2] {
        said.push(collect(handle.submit(with_seed(seed)).unwrap().1).await.ids());
    }
    assert_eq!(said[0], said[1]);
    assert_ne!(said[0], said[2]);

    let wanted = GenerateRequest { top_logprobs: 3, ..request(&handle, "hello", 5) };
    let (_, mut events) = handle.submit(wanted).unwrap();
    let mut tokens = Vec::new();
    while let Some(event) = events.recv().await {
        if let Event::Piece(piece) = event {
            tokens.extend(piece.tokens);
        }
    }
    for token in &tokens {
        assert_eq!(token.top.len(), 3);
        assert_eq!((token.top[0].0, token.top[0].1), (token.id, token.logprob), "greedy takes the likeliest");
        assert!(token.top.is_sorted_by(|a, b| a.1 >= b.1));
    }
    assert!(!tokens.is_empty());
}

#[tokio::test]
async fn sequences_of_one_batch_say_what_each_says_alone_to_the_bit() {
    let alone = engine(EngineConfig::default());
    let together = engine(EngineConfig { max_sequences: 8, prefill_chunk: 5, ..EngineConfig::default() });
    let prompt = |i: usize| format!("{}a prompt like no other: {i}", "more of it, ".repeat(i));
    let events: Vec<_> = (0..8).map(|i| together.submit(request(&together, &prompt(i), 25)).unwrap().1).collect();
    for (i, events) in events.into_iter().enumerate() {
        let single = collect(alone.submit(request(&alone, &prompt(i), 25)).unwrap().1).await;
        assert_eq!(collect(events).await.tokens, single.tokens, "{i}");
    }
}

#[tokio::test]
async fn a_stop_string_ends_the_answer_before_it() {
    let handle = engine(EngineConfig::default());
    let free = collect(handle.submit(request(&handle, "hello", 40)).unwrap().1).await;
    let characters: Vec<char> = free.text.chars().collect();
    assert!(characters.len() > 8, "{:?}", free.text);
    let stop: String = characters[4..7].iter().collect();
    let expected = &free.text[..free.text.find(&stop).unwrap()];
    let stopped = GenerateRequest { stop: vec![stop], ..request(&handle, "hello", 40) };
    let answer = collect(handle.submit(stopped).unwrap().1).await;
    assert_eq!((answer.text.as_str(), answer.done().finish_reason), (expected, FinishReason::Stop));
}

#[tokio::test]
async fn what_cannot_be_taken_is_refused_at_once() {
    let handle = engine(EngineConfig { queue_limit: 1, ..EngineConfig::default() });
    let long = |n: usize| GenerateRequest::new(vec![5; n], 4);
    assert_eq!(handle.submit(long(0)).unwrap_err(), Refused::EmptyPrompt);
    assert_eq!(handle.submit(long(256)).unwrap_err(), Refused::ContextTooLong { tokens: 256, limit: 256 });
    assert!(matches!(handle.submit(GenerateRequest::new(vec![999], 1)), Err(Refused::UnknownToken { id: 999, .. })));

    // One runs, one waits, the third finds no place.
    let taken: Vec<_> = (0..2).map(|_| handle.submit(request(&handle, "hello", 200)).unwrap()).collect();
    let refused = handle.submit(request(&handle, "hello", 1)).unwrap_err();
    assert!(matches!(refused, Refused::QueueFull { limit: 1, .. }) && refused.retry_after().is_some(), "{refused}");
    assert_ne!(taken[0].0, taken[1].0);
    drop(taken);
    until("the places are free again", || handle.load().running + handle.load().queued == 0).await;

    // Rates are known by now, and no one can answer in no time.
    let late = GenerateRequest { deadline: Some(Instant::now()), ..request(&handle, "hello", 100) };
    collect(handle.submit(request(&handle, "hello", 10)).unwrap().1).await;
    assert!(matches!(handle.submit(late), Err(Refused::DeadlineUnmeetable { .. })));
}

#[tokio::test]
async fn a_client_that_goes_is_noticed_and_its_place_freed() {
    let handle = engine(EngineConfig::default());
    let (_, mut first) = handle.submit(request(&handle, "hello", 200)).unwrap();
    let (_, waiting) = handle.submit(request(&handle, "hello", 200)).unwrap();
    assert!(matches!(first.recv().await, Some(Event::Started { .. })));
    drop((first, waiting));
    until("both are gone", || handle.load().running + handle.load().queued == 0).await;
    assert_eq!(handle.load().queued_prefill_tokens, 0);
    assert!(collect(handle.submit(request(&handle, "hello", 3)).unwrap().1).await.done().usage.completion > 0);
}

#[tokio::test]
async fn drain_finishes_what_was_taken_and_refuses_the_rest() {
    let handle = engine(EngineConfig::default());
    let taken: Vec<_> = (0..2).map(|_| handle.submit(request(&handle, "hello", 30)).unwrap().1).collect();
    handle.drain();
    assert!(matches!(handle.submit(request(&handle, "hello", 1)), Err(Refused::Draining { .. })));
    tokio::time::timeout(DEADLINE, handle.drained()).await.unwrap();
    for events in taken {
        assert!(collect(events).await.done().usage.completion > 0);
    }
}

#[tokio::test]
async fn stop_ends_what_runs_and_what_waits() {
    let handle = engine(EngineConfig::default());
    let (_, running) = handle.submit(request(&handle, "hello", 240)).unwrap();
    let (_, waiting) = handle.submit(request(&handle, "hello", 240)).unwrap();
    handle.stop();
    tokio::time::timeout(DEADLINE, handle.drained()).await.unwrap();
    for events in [running, waiting] {
        assert_eq!(collect(events).await.last, Event::Failed(Failure::Stopped));
    }
}

#[tokio::test]
async fn an_idle_engine_shows_that_it_lives() {
    let handle = engine(EngineConfig { idle_tick: Duration::from_millis(2), ..EngineConfig::default() });
    let before = handle.progress();
    until("three ticks", || handle.progress() >= before + 3).await;
    assert!(handle.stalled_for() < DEADLINE);
}
