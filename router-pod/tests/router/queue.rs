//! What happens when every permitted tier is full.

use crate::support::{Act, Reply, Scripted, World, post, question, until};
use std::sync::Arc;
use terrace_contract::policy::{OnMiss, Priority};
use terrace_contract::trust::Boundary;
use tokio::task::JoinHandle;

const CHAT: &str = "/v1/chat/completions";

/// A device with one slot, which the first request takes until it is let go.
async fn busy(world: &mut World) -> (Arc<Scripted>, JoinHandle<Reply>) {
    let agent = Scripted::new("small", 1, Act::Hold("near"));
    world.agents("edge", Boundary::Device, &[&agent]).await;
    for (name, total_ms, priority) in [
        ("tight", 100, Priority::Interactive),
        ("soon", 20_000, Priority::Interactive),
        ("batch", 15_000, Priority::Batch),
    ] {
        world.budget(name, &[name], total_ms, total_ms, OnMiss::Overflow);
        world.snapshot.budgets.last_mut().unwrap().priority = priority;
    }
    world.budget("late", &[], 60_000, 60_000, OnMiss::Overflow);
    world.start().await;
    let held = ask(world, "none", "first");
    until("the agent has a request", || agent.running() == 1).await;
    (agent, held)
}

fn ask(world: &World, feature: &'static str, text: &'static str) -> JoinHandle<Reply> {
    let listen = world.listen;
    tokio::spawn(async move { post(listen, CHAT, &[("x-terrace-feature", feature)], &question(text)).await })
}

async fn queued(world: &World, n: usize) {
    world.until_metrics(&format!("terrace_queued_requests {n}\n")).await;
}

#[tokio::test]
async fn the_earliest_deadline_goes_first_and_batch_after_everyone() {
    let mut world = World::new();
    let (agent, held) = busy(&mut world).await;
    let mut waiting = Vec::new();
    for (n, (feature, text)) in [("none", "late"), ("batch", "batch"), ("soon", "soon")].into_iter().enumerate() {
        waiting.push(ask(&world, feature, text));
        queued(&world, n + 1).await;
    }
    agent.release();
    assert_eq!(held.await.unwrap().header("x-terrace-reason"), "nearest");
    for reply in waiting {
        let reply = reply.await.unwrap();
        assert_eq!(
            (reply.content().as_str(), reply.header("x-terrace-reason")),
            ("near", "nearest,queued"),
            "{reply:?}"
        );
    }
    let order: Vec<String> =
        agent.bodies.lock().unwrap().iter().map(|b| b["messages"][0]["content"].as_str().unwrap().to_owned()).collect();
    assert_eq!(order, ["first", "soon", "late", "batch"]);
    queued(&world, 0).await;
    world.until_metrics("terrace_queue_wait_seconds_count{outcome=\"sent\"} 3").await;
    world.until_metrics("terrace_requests_in_flight 0").await;
}

#[tokio::test]
async fn what_cannot_make_it_is_told_so_at_once() {
    let mut world = World::new();
    let (agent, held) = busy(&mut world).await;
    let late = ask(&world, "tight", "second").await.unwrap();
    assert_eq!((late.status.as_u16(), late.code().as_str()), (504, "budget_exceeded"), "{late:?}");
    assert!(late.header("retry-after-ms").parse::<u64>().unwrap() > 0, "{late:?}");
    assert!(late.header("x-terrace-reason").starts_with("budget_exceeded,saturated"), "{late:?}");
    world.until_metrics("terrace_queue_wait_seconds_count{outcome=\"late\"} 1").await;
    // The control: one that has the time waits for it.
    let soon = ask(&world, "soon", "third");
    queued(&world, 1).await;
    agent.release();
    assert_eq!(
        (soon.await.unwrap().status, held.await.unwrap().status),
        (200.try_into().unwrap(), 200.try_into().unwrap())
    );
    assert_eq!(agent.count(), 2);
}

#[tokio::test]
async fn the_queue_is_bounded_by_the_policys_concurrency() {
    let mut world = World::new();
    world.snapshot.policy.limits.concurrency = 4;
    let (agent, held) = busy(&mut world).await;
    let mut waiting = Vec::new();
    for n in 1..=2 {
        waiting.push(ask(&world, "soon", "second"));
        queued(&world, n).await;
    }
    let refused = ask(&world, "soon", "third").await.unwrap();
    assert_eq!((refused.status.as_u16(), refused.code().as_str()), (503, "overloaded"), "{refused:?}");
    assert!(refused.json()["error"]["message"].as_str().unwrap().contains("queue"), "{refused:?}");
    assert!(refused.header("retry-after-ms").parse::<u64>().unwrap() > 0, "{refused:?}");
    agent.release();
    for reply in waiting.into_iter().chain([held]) {
        assert_eq!(reply.await.unwrap().status, 200);
    }
}

#[tokio::test]
async fn one_that_goes_away_leaves_the_queue_and_a_drain_loses_nobody() {
    let mut world = World::new();
    let (agent, held) = busy(&mut world).await;
    let (gone, stays) = (ask(&world, "soon", "gone"), ask(&world, "none", "stays"));
    queued(&world, 2).await;
    gone.abort();
    queued(&world, 1).await;
    world.until_metrics("terrace_queue_wait_seconds_count{outcome=\"cancelled\"} 1").await;
    world.router_shutdown.cancel();
    agent.release();
    assert_eq!((held.await.unwrap().content(), stays.await.unwrap().content()), ("near".into(), "near".into()));
    world.running.take().unwrap().ended().await;
    assert_eq!(agent.count(), 2, "what went away was sent to nobody");
}

#[tokio::test]
async fn a_sensitive_request_waits_inside_its_boundary() {
    let cloud = Scripted::new("big", 8, Act::Say("far"));
    let mut world = World::new();
    let (agent, held) = {
        let agent = busy(&mut world).await;
        world.endpoint("cloud", Boundary::Public, &cloud).await;
        world.publish();
        until("the router knows the cloud", || {
            world.running.as_ref().unwrap().app.fleet.in_use().is_some_and(|used| used.tiers.len() == 2)
        })
        .await;
        agent
    };
    let sensitive = ask(&world, "soon", "pay with 4111 1111 1111 1111");
    queued(&world, 1).await;
    // The positive control: what may go out does not wait.
    assert_eq!(ask(&world, "soon", "hi").await.unwrap().content(), "far");
    agent.release();
    assert_eq!(sensitive.await.unwrap().content(), "near");
    assert_eq!((held.await.unwrap().status, cloud.count()), (200.try_into().unwrap(), 1));
}
