//! Who is served when, by a clock of the test's own: nothing here depends on how fast this machine is.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

#[path = "support/asking.rs"]
mod asking;
#[path = "support/device.rs"]
mod device;
#[path = "support/tiny.rs"]
mod tiny;

use std::time::Duration;

use asking::{ask, collect, idle, model, until};
use device::Device;
use terrace_agent::engine::{Engine, EngineConfig, EngineHandle, Event, Failure, GenerateRequest, Refused, Sampling};

/// An engine on a device of the test's, warm.
async fn engine(sequences: u32) -> (Device, EngineHandle) {
    let device = Device::new();
    let config =
        EngineConfig { max_sequences: sequences, queue_limit: 16, clock: device.clock(), ..EngineConfig::default() };
    let handle = Engine::start(device.carry(model(sequences, None)), config).unwrap();
    ask(&handle, request(99, 40, 3)).await;
    (device, handle)
}

/// Some prompt of this length, and a bound of its answer.
fn request(kind: u32, len: usize, max_tokens: u32) -> GenerateRequest {
    GenerateRequest::new((0..len as u32).map(|i| (i * 53 + kind * 101 + 7) % 256).collect(), max_tokens)
}

fn within(device: &Device, limit: Duration, request: GenerateRequest) -> GenerateRequest {
    GenerateRequest { deadline: Some(device.now() + limit), ..request }
}

fn p99(mut gaps: Vec<Duration>) -> Duration {
    gaps.sort_unstable();
    gaps[(gaps.len() * 99).div_ceil(100) - 1]
}

/// 200 tokens of a prompt take this device two seconds, as 2,000 take a fast one. A stream that runs meanwhile waits 60 ms
/// longer for a token at most.
#[tokio::test]
async fn a_long_prompt_delays_a_running_stream_by_little_and_is_not_starved() {
    let (device, handle) = engine(4).await;
    let before = device.steps().len();
    device.permit(60);
    let (_, stream) = handle.submit(request(1, 10, 230)).unwrap();
    until("the stream runs", || device.used_up()).await;
    let (_, long) = handle.submit(request(2, 200, 3)).unwrap();
    device.open();
    let (stream, long) = (collect(stream).await, collect(long).await);
    assert!(stream.done().usage.completion > 150, "the stream ended before the prompt was through");

    // When the stream got its tokens; the prompt's chunks are in the same steps.
    let steps = &device.steps()[before..];
    let gaps = |beside: bool| -> Vec<Duration> {
        let of = steps.windows(2).filter(|w| w[1].feeds.iter().any(|f| f.1 == 1));
        let long = |s: &device::Step| s.feeds.iter().any(|f| f.1 > 1);
        of.filter(|w| long(&w[1]) == beside).map(|w| w[1].end - w[0].end).collect()
    };
    let (alone, beside) = (gaps(false), gaps(true));
    assert!(alone.len() > 50 && beside.len() > 20, "{} alone, {} beside", alone.len(), beside.len());
    let grown = p99(beside.clone()).saturating_sub(p99(alone));
    assert!(grown <= Duration::from_millis(60), "{grown:?}");
    // And the time is used: two seconds of work in at most three.
    assert!(long.done().timings.prefill <= Duration::from_secs(3), "{:?}", long.done().timings);
    idle(&handle).await;
}

#[tokio::test]
async fn a_short_prompt_does_not_wait_for_the_long_ones_before_it() {
    let (device, handle) = engine(4).await;
    device.permit(0);
    let events: Vec<_> =
        [(1, 200), (2, 200), (3, 20)].map(|(kind, len)| handle.submit(request(kind, len, 2)).unwrap().1).into();
    device.open();
    let mut prefill = Vec::new();
    for events in events {
        prefill.push(collect(events).await.done().timings.prefill);
    }
    // Its own 0.2 s and a turn of each neighbour, not their four seconds.
    assert!(prefill[2] <= Duration::from_millis(1800), "{prefill:?}");
    assert!(prefill[0].abs_diff(prefill[1]) <= Duration::from_millis(1500), "{prefill:?}");
    idle(&handle).await;
}

#[tokio::test]
async fn what_cannot_be_made_in_time_is_refused_and_what_is_cached_can_be() {
    let (device, handle) = engine(1).await;
    // Two hundred tokens of an answer take 1.2 s whatever is cached: refused before it is queued.
    for _ in 0..20 {
        // What answers are like here: as long as they may be.
        ask(&handle, request(7, 5, 100)).await;
    }
    let hopeless = handle.submit(within(&device, Duration::from_millis(100), request(1, 100, 90))).unwrap_err();
    assert!(matches!(hopeless, Refused::DeadlineUnmeetable { .. }) && hopeless.retry_after().is_some(), "{hopeless}");
    // 150 tokens of a prompt take 1.5 s: the loop, which knows that none is cached, refuses.
    let tight = |device: &Device| within(device, Duration::from_millis(700), request(2, 150, 10));
    let (_, mut events) = handle.submit(tight(&device)).unwrap();
    let refused = events.recv().await.unwrap();
    let Event::Failed(Failure::Refused(Refused::DeadlineUnmeetable { predicted, .. })) = refused else {
        panic!("{refused:?}")
    };
    assert!(predicted > Duration::from_secs(1) && predicted < Duration::from_secs(3), "{predicted:?}");
    assert_eq!(events.recv().await, None);
    // With more time it is made, and then all but its end is there: now it can be made in the time that was too short.
    let made = ask(&handle, within(&device, Duration::from_secs(4), request(2, 150, 10))).await;
    assert_eq!(made.done().usage.cached, 0);
    assert_eq!(ask(&handle, tight(&device)).await.done().usage.cached, 144);
    idle(&handle).await;
}

/// Rates from a start on a starved machine refused everything with a deadline, and what is refused teaches nothing.
#[tokio::test]
async fn rates_from_a_bad_moment_are_measured_anew_once_they_kept_somebody_out() {
    let device = Device::new();
    device.starve(70);
    let config = EngineConfig { max_sequences: 1, clock: device.clock(), ..EngineConfig::default() };
    let handle = Engine::start(device.carry(model(1, None)), config).unwrap();
    until("it has found out how fast it is", || handle.load().step_base_us > 100_000.0).await;
    device.starve(1);
    let asked = || handle.submit(within(&device, Duration::from_secs(3), request(1, 20, 20)));
    let refused = asked().unwrap_err();
    assert!(refused.retry_after().unwrap() >= Duration::from_secs(1), "another try at once cannot help: {refused}");
    device.pass(Duration::from_secs(6));
    until("it has measured again", || handle.load().step_base_us < 20_000.0).await;
    assert_eq!(collect(asked().unwrap().1).await.done().usage.completion, 20);
    idle(&handle).await;
}

/// What the embeddings handler asks before it sends the first of many inputs: it refuses without the loop, which has to
/// hear of it all the same.
#[tokio::test]
async fn inputs_that_are_refused_together_have_rates_measured_anew_too() {
    let device = Device::new();
    device.starve(5);
    let config = EngineConfig { max_sequences: 1, clock: device.clock(), ..EngineConfig::default() };
    let handle = Engine::start(device.carry(model(1, None)), config).unwrap();
    until("it has found out how fast it reads", || (1.0..60.0).contains(&handle.load().prefill_rate)).await;
    device.starve(1);
    let asked = || handle.weigh(200, device.now() + Duration::from_secs(3));
    let refused = asked().unwrap_err();
    assert!(refused.retry_after().unwrap() >= Duration::from_secs(1), "another try at once cannot help: {refused}");
    device.pass(Duration::from_secs(6));
    until("it has measured again", || handle.load().prefill_rate > 70.0).await;
    asked().unwrap();
    idle(&handle).await;
}

/// A client that obeys asks again when there may be room, not twenty times a second while one long answer runs.
#[tokio::test]
async fn a_full_queue_says_when_a_place_will_be_free() {
    let (device, handle) = engine(1).await;
    device.permit(100);
    // Answers were short so far; this one has outlived them.
    let (_, long) = handle.submit(request(1, 10, 230)).unwrap();
    until("the long answer runs", || device.used_up()).await;
    let waiting: Vec<_> = (0..16).map(|kind| handle.submit(request(kind, 10, 3)).unwrap()).collect();
    let refused = handle.submit(request(20, 10, 3)).unwrap_err();
    assert!(matches!(refused, Refused::QueueFull { limit: 16, .. }), "{refused}");
    let half_of_it = (Device::STEP + Device::SEQUENCE) * 40;
    assert!(refused.retry_after().unwrap() >= half_of_it, "{refused}");
    device.open();
    assert!(collect(long).await.done().usage.completion > 150);
    for (_, events) in waiting {
        collect(events).await;
    }
    idle(&handle).await;
}

#[tokio::test]
async fn a_deadline_that_passes_ends_what_runs_and_what_waits() {
    let (device, handle) = engine(1).await;
    device.permit(3);
    let submit = |kind| handle.submit(within(&device, Duration::from_secs(9), request(kind, 20, 100))).unwrap().1;
    let events = [submit(1), submit(2)];
    until("one runs", || device.used_up()).await;
    device.pass(Duration::from_secs(10));
    device.open();
    for events in events {
        assert_eq!(collect(events).await.last, Event::Failed(Failure::DeadlineExceeded));
    }
    idle(&handle).await;
}

#[tokio::test]
async fn the_queue_goes_by_deadline() {
    let (device, handle) = engine(1).await;
    device.permit(0);
    let submit = |kind, seconds: Option<u64>| {
        let request = request(kind, 30, 5);
        let deadline = seconds.map(|s| device.now() + Duration::from_secs(s));
        handle.submit(GenerateRequest { deadline, ..request }).unwrap().1
    };
    // The first runs; patience without a deadline is 30 s.
    let events = [None, Some(100), Some(20), None, Some(15)].into_iter().zip(1..).map(|(s, kind)| submit(kind, s));
    let events: Vec<_> = events.collect();
    device.open();
    let mut queued = Vec::new();
    for events in events {
        queued.push(collect(events).await.done().timings.queue);
    }
    let mut order: Vec<usize> = (1..5).collect();
    order.sort_by_key(|&i| queued[i]);
    assert_eq!(order, [4, 2, 3, 1], "{queued:?}");
    idle(&handle).await;
}

#[tokio::test]
async fn a_client_that_goes_costs_no_second_step() {
    let (device, handle) = engine(2).await;
    let before = device.steps().len();
    device.permit(10);
    let (_, events) = handle.submit(request(1, 20, 200)).unwrap();
    until("it runs", || device.used_up()).await;
    drop(events);
    device.open();
    idle(&handle).await;
    let steps = device.steps().len() - before;
    assert!(steps <= 11, "{steps} steps, ten before it went");
}

/// Seeds went by the place among those that were left.
#[tokio::test]
async fn choices_keep_their_seeds_when_others_go_before_they_begin() {
    let (device, handle) = engine(1).await;
    let warm = |seed| GenerateRequest {
        sampling: Sampling { temperature: 1.0, seed: Some(seed), ..Sampling::default() },
        ..request(4, 30, 20)
    };
    let expected = [ask(&handle, warm(6)).await, ask(&handle, warm(8)).await];
    assert_ne!(expected[0].tokens, expected[1].tokens);
    device.permit(1);
    let (_, first) = handle.submit(request(1, 10, 20)).unwrap();
    until("the first runs", || device.used_up()).await;
    let (_, choices) = handle.submit_choices(warm(5), 4).unwrap();
    let kept: Vec<_> = choices.into_iter().enumerate().filter(|(i, _)| i % 2 == 1).map(|(_, c)| c).collect();
    device.open();
    collect(first).await;
    for (events, expected) in kept.into_iter().zip(expected) {
        assert_eq!(collect(events).await.tokens, expected.tokens);
    }
    idle(&handle).await;
}

/// Regression: what a step brings in was told when it had ended, so that a long one looked like an idle device.
#[tokio::test]
async fn what_a_step_computes_is_told_while_it_runs() {
    let (device, handle) = engine(2).await;
    device.permit(0);
    let (_, events) = handle.submit(request(1, 40, 5)).unwrap();
    until("it is told as running", || handle.load().running == 1).await;
    let load = handle.load();
    assert_eq!((load.queued, load.queued_prefill_tokens), (0, 40), "{load:?}");
    assert!(load.free_kv_blocks < load.total_kv_blocks, "{load:?}");
    device.open();
    collect(events).await;
    idle(&handle).await;
    assert_eq!(handle.load().running, 0);
}

#[tokio::test]
async fn a_step_that_does_not_end_fails_liveness() {
    let (device, handle) = engine(1).await;
    let limit = Duration::from_millis(500);
    device.permit(2);
    let (_, events) = handle.submit(request(1, 10, 20)).unwrap();
    until("the engine is found dead", || handle.alive(limit).is_err()).await;
    assert!(handle.alive(limit).unwrap_err().contains("no step for"));
    device.open();
    until("it lives again", || handle.alive(limit).is_ok()).await;
    assert!(collect(events).await.done().usage.completion > 0);
}
