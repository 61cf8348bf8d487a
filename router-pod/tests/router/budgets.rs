//! Which time of a budget ends what: docs/budgets.md.

use crate::support::{Act, Scripted, World, post, streamed};
use terrace_contract::policy::OnMiss;
use terrace_contract::trust::Boundary;

const CHAT: &str = "/v1/chat/completions";

#[tokio::test]
async fn reject_refuses_a_stream_that_has_not_begun_in_time_though_nothing_else_may_answer() {
    let agent = Scripted::new("small", 4, Act::Stall);
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[&agent]).await;
    world.budget("strict", &["strict"], 1_000, 60_000, OnMiss::Reject);
    world.start().await;
    let feature = [("x-terrace-feature", "strict")];
    let asked = std::time::Instant::now();
    let refused = post(world.listen, CHAT, &feature, &streamed("hi")).await;
    assert_eq!((refused.status.as_u16(), refused.code().as_str()), (504, "budget_exceeded"), "{refused:?}");
    assert!((1.0..20.0).contains(&asked.elapsed().as_secs_f64()), "{:?}", asked.elapsed());
    let message = refused.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("spec.firstToken"), "{message}");
    assert_eq!(agent.count(), 1, "it was tried");
}
