//! What is charged, and when: the day's spend and a key's tokens, whatever becomes of the request.

use crate::support::{Act, Scripted, World, post, question, stream, streamed, until};
use terrace_contract::policy::{Access, KeyRule};
use terrace_contract::trust::Boundary;

const CHAT: &str = "/v1/chat/completions";
const KEY: [(&str, &str); 1] = [("authorization", "Bearer sk-ci")];

/// Micro-units that were spent today.
fn spent(world: &World) -> u64 {
    let app = &world.running.as_ref().unwrap().app;
    app.ledger.spent_today(app.clock.now_us())
}

/// A word of so many bytes, as long as the test lives.
fn word(bytes: usize) -> &'static str {
    "x".repeat(bytes).leak()
}

#[tokio::test]
async fn a_client_that_leaves_a_stream_pays_for_what_came_until_then() {
    let agent = Scripted::new("small", 4, Act::Pause(word(40_000)));
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[&agent]).await;
    let keys = vec![KeyRule { name: "ci".into(), tokens_per_minute: Some(8_000), ..KeyRule::default() }];
    world.snapshot.policy.access = Access::ApiKeys { keys };
    std::fs::write(world.path("api-keys/ci"), "sk-ci").unwrap();
    world.start().await;
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
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[&agent]).await;
    let keys = vec![KeyRule { name: "ci".into(), tokens_per_minute: Some(2_000), ..KeyRule::default() }];
    world.snapshot.policy.access = Access::ApiKeys { keys };
    std::fs::write(world.path("api-keys/ci"), "sk-ci").unwrap();
    world.start().await;
    let listen = world.listen;
    let asked = tokio::spawn(async move { post(listen, CHAT, &KEY, &question(word(7_000))).await });
    until("a tier works", || agent.running() == 1).await;
    asked.abort();
    until("its tier ended the work", || agent.cancelled() == 1).await;
    until("its prompt is charged", || (1_750..1_800).contains(&spent(&world))).await;
    let refused = post(listen, CHAT, &KEY, &question(word(7_000))).await;
    assert_eq!(refused.status, 429, "and is of its key's minute: {refused:?}");
}
