//! What is charged, and when: the day's spend and a key's tokens, whatever becomes of the request.

use std::sync::Arc;

use crate::support::{Act, Scripted, World, post, process, question, stream, streamed, until};
use terrace_contract::policy::{Access, KeyRule};
use terrace_contract::trust::Boundary;

const CHAT: &str = "/v1/chat/completions";
const KEY: [(&str, &str); 1] = [("authorization", "Bearer sk-ci")];

/// Micro-units that were spent today.
fn spent(world: &World) -> u64 {
    let app = &world.running.as_ref().unwrap().app;
    app.spend.day(app.clock.now_us()).spent()
}

/// A router before one agent, for [`KEY`], which may have so many tokens a minute.
async fn limited(agent: &Arc<Scripted>, tokens_per_minute: u32) -> World {
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[agent]).await;
    let keys = vec![KeyRule { name: "ci".into(), tokens_per_minute: Some(tokens_per_minute), ..KeyRule::default() }];
    world.snapshot.policy.access = Access::ApiKeys { keys };
    std::fs::write(world.path("api-keys/ci"), "sk-ci").unwrap();
    world.start().await;
    world
}

/// A word of so many bytes, as long as the test lives.
fn word(bytes: usize) -> &'static str {
    "x".repeat(bytes).leak()
}

#[tokio::test]
async fn a_client_that_leaves_a_stream_pays_for_what_came_until_then() {
    let agent = Scripted::new("small", 4, Act::Pause(word(40_000)));
    let world = limited(&agent, 8_000).await;
    let mut events = stream(world.listen, CHAT, &KEY, &streamed("hi")).await;
    assert!(events.next().await.unwrap().contains("xxxx"));
    drop(events);
    until("its tier ended the work", || agent.cancelled() == 1).await;
    // 10,000 tokens of answer at two micro-units each; the prompt is a few.
    until("what came is charged", || (20_000..20_100).contains(&spent(&world))).await;
    world.until_metrics("terrace_cost_micros_total{tier=\"edge\"} 200").await;
    world.until_metrics("kind=\"output\"} 10000").await;
    let refused = post(world.listen, CHAT, &KEY, &question("hi")).await;
    assert_eq!(
        (refused.status.as_u16(), refused.code().as_str()),
        (429, "rate_limited"),
        "the key's minute is used up"
    );
}

#[tokio::test]
async fn a_client_that_leaves_before_the_answer_pays_for_the_prompt_that_was_read() {
    let agent = Scripted::new("small", 4, Act::Stall);
    let world = limited(&agent, 2_000).await;
    let listen = world.listen;
    let asked = tokio::spawn(async move { post(listen, CHAT, &KEY, &question(word(7_000))).await });
    until("a tier works", || agent.running() == 1).await;
    asked.abort();
    until("its tier ended the work", || agent.cancelled() == 1).await;
    until("its prompt is charged", || (1_750..1_800).contains(&spent(&world))).await;
    let refused = post(listen, CHAT, &KEY, &question(word(7_000))).await;
    assert_eq!(refused.status, 429, "and is of its key's minute: {refused:?}");
}

/// What a tier says that cannot be.
const WHOLE: &str = r#"{"choices": [{"index": 0, "message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 18446744073709551615, "completion_tokens": 18446744073709551615, "total_tokens": 1}}"#;
/// The same in a stream.
const EVENTS: &str = concat!(
    "data: {\"choices\": [{\"index\": 0, \"delta\": {\"content\": \"hello\"}, \"finish_reason\": \"stop\"}]}\n\n",
    "data: {\"choices\": [], \"usage\": {\"prompt_tokens\": 18446744073709551615, ",
    "\"completion_tokens\": 18446744073709551615}}\n\ndata: [DONE]\n\n"
);

#[tokio::test]
async fn a_count_of_tokens_that_cannot_be_true_is_not_charged() {
    let agent = Scripted::new("small", 4, Act::Say("x"));
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[&agent]).await;
    world.start().await;
    agent.next(Act::Body(WHOLE));
    let mut body = question("hi");
    body["max_tokens"] = 20.into();
    let usage = post(world.listen, CHAT, &[], &body).await.json()["usage"].clone();
    let number = |name: &str| usage[name].as_u64().unwrap();
    assert!(number("prompt_tokens") < 20, "as counted here: {usage}");
    assert_eq!(number("completion_tokens"), 20, "the most that was allowed: {usage}");
    assert_eq!(number("total_tokens"), number("prompt_tokens") + 20, "{usage}");
    let first = number("prompt_tokens") + 2 * 20;
    until("it is charged", || spent(&world) == first).await;
    agent.next(Act::Events(EVENTS));
    (body["stream"], body["stream_options"]) = (true.into(), serde_json::json!({"include_usage": true}));
    let events = stream(world.listen, CHAT, &[], &body).await.rest().await;
    assert!(events[events.len() - 2].contains("\"completion_tokens\":20,"), "{events:?}");
    until("and so is a stream", || spent(&world) == 2 * first).await;
}

#[tokio::test]
async fn a_day_that_is_spent_says_when_the_next_begins() {
    let agent = Scripted::new("small", 4, Act::Say("x"));
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[&agent]).await;
    world.snapshot.policy.limits.spend_per_day_micros = Some(1);
    world.start().await;
    let refused = post(world.listen, CHAT, &[], &question("hi")).await;
    assert_eq!((refused.status.as_u16(), refused.code().as_str()), (503, "permitted_tiers_unavailable"), "{refused:?}");
    let message = refused.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("limits.spendPerDay") && message.contains("00:00 UTC"), "{message}");
    let app = &world.running.as_ref().unwrap().app;
    let seconds: u64 = refused.header("retry-after").parse().unwrap();
    let (day, now) = (86_400, app.clock.now_us() / 1_000_000);
    let midnight = (now + seconds) % day;
    assert!(midnight <= 21, "{seconds} s from {now} is no midnight");
}

#[tokio::test]
async fn a_router_that_is_killed_knows_afterwards_what_was_spent_today() {
    let agent = Scripted::new("small", 4, Act::Say("x"));
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[&agent]).await;
    world.snapshot.policy.limits.spend_per_day_micros = Some(100);
    let mut body = question("hi");
    body["max_tokens"] = 20.into();
    let mut process = process::start(&mut world).await;
    let mut answered = 0;
    while post(process.listen, CHAT, &[], &body).await.status == 200 {
        answered += 1;
    }
    assert!((1..20).contains(&answered), "{answered}");
    // Eleven tokens of prompt and three of answer, at one and two micro-units.
    let kept = format!("{}", answered * 17);
    let file = world.path("state/spend.json");
    until("it is written", || std::fs::read_to_string(&file).is_ok_and(|said| said.contains(&kept))).await;
    process.child.kill().unwrap();
    process.child.wait().unwrap();
    std::fs::remove_file(world.path("ports")).unwrap();
    let process = process::start(&mut world).await;
    let refused = post(process.listen, CHAT, &[], &body).await;
    assert_eq!((refused.status.as_u16(), refused.code().as_str()), (503, "permitted_tiers_unavailable"), "{refused:?}");
}
