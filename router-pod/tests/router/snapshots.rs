//! Which snapshots are taken, which are refused, and what a router starts from.

use crate::support::{Act, Scripted, World, get, post, question, until};
use terrace_contract::trust::Boundary;
use terrace_identity::SnapshotKey;

const CHAT: &str = "/v1/chat/completions";

async fn refused(world: &World) -> String {
    until("a snapshot is refused", || !world.metrics().contains("terrace_snapshots_refused_total 0")).await;
    // The one in use stays: the router goes on answering.
    let reply = post(world.listen, CHAT, &[], &question("hi")).await;
    assert_eq!(reply.content(), "one", "{reply:?}");
    world.metrics()
}

async fn running() -> (World, std::sync::Arc<Scripted>) {
    let agent = Scripted::new("small", 4, Act::Say("one"));
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[&agent]).await;
    world.start().await;
    (world, agent)
}

#[tokio::test]
async fn an_unsigned_one_is_refused() {
    let (mut world, _agent) = running().await;
    world.snapshot.policy.limits.concurrency = 7;
    world.sign();
    world.snapshot.signature.clear();
    world.write("snapshot.json", &world.snapshot);
    refused(&world).await;
}

#[tokio::test]
async fn one_signed_by_another_is_refused() {
    let (mut world, _agent) = running().await;
    world.snapshot.policy.limits.concurrency = 7;
    world.snapshot.revision = world.snapshot.digest();
    SnapshotKey::generate().unwrap().sign(&mut world.snapshot);
    world.write("snapshot.json", &world.snapshot);
    refused(&world).await;
}

#[tokio::test]
async fn one_of_another_policy_is_refused() {
    let (mut world, _agent) = running().await;
    world.snapshot.policy.uid = "p-2".into();
    world.publish();
    refused(&world).await;
}

#[tokio::test]
async fn an_older_one_is_refused() {
    let (mut world, _agent) = running().await;
    world.snapshot.generations.policy = 0;
    world.publish();
    refused(&world).await;
}

#[tokio::test]
async fn one_that_contradicts_itself_is_refused() {
    let (mut world, _agent) = running().await;
    world.snapshot.generations.policy += 1;
    world.snapshot.policy.sensitivity.boundaries.restricted = Boundary::Public;
    world.publish();
    refused(&world).await;
}

#[tokio::test]
async fn a_newer_one_is_in_use_within_a_second() {
    let (mut world, _old) = running().await;
    let new = Scripted::new("small", 4, Act::Say("two"));
    let identity = terrace_identity::Identity::tier(crate::support::fleet::CLUSTER, "shop", "edge");
    let address = world.serve_agent(&identity, &new).await;
    world.snapshot.devices[0].pod_uid = "pod-new".into();
    world.snapshot.devices[0].port = address.port();
    world.publish();
    let listen = world.listen;
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while post(listen, CHAT, &[], &question("hi")).await.content() != "two" {
        assert!(std::time::Instant::now() < deadline, "the newer snapshot is never in use");
    }
}

#[tokio::test]
async fn cut_off_from_the_operator_it_starts_from_what_it_kept_and_else_from_the_mounted_copy() {
    let agent = Scripted::new("small", 4, Act::Say("one"));
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[&agent]).await;
    world.sign();
    world.write("mounted/snapshot.json", &world.snapshot);
    let mounted = format!("--snapshot-dir={}", world.path("mounted").display());
    let state = format!("--state-dir={}", world.path("state").display());
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let operator = format!("--operator={nobody}");
    world.start_with(&[&operator, &mounted, &state]).await;
    world.ready().await;
    assert_eq!(post(world.listen, CHAT, &[], &question("hi")).await.content(), "one");

    // What it kept is fuller than the mounted copy, which has no devices.
    world.write("state/snapshot.json", &world.snapshot);
    let mut bare = world.snapshot.without_devices();
    world.key.sign(&mut bare);
    world.write("mounted/snapshot.json", &bare);
    world.shutdown.cancel();
    world.running.take().unwrap().ended().await;
    world.shutdown = tokio_util::sync::CancellationToken::new();
    let agent = Scripted::new("small", 4, Act::Say("again"));
    let identity = terrace_identity::Identity::tier(crate::support::fleet::CLUSTER, "shop", "edge");
    let address = world.serve_agent(&identity, &agent).await;
    world.snapshot.devices[0].port = address.port();
    world.sign();
    world.write("state/snapshot.json", &world.snapshot);
    world.start_with(&[&operator, &mounted, &state]).await;
    world.ready().await;
    assert_eq!(post(world.listen, CHAT, &[], &question("hi")).await.content(), "again");
}

#[tokio::test]
async fn told_to_stop_it_finishes_what_runs_and_takes_nothing_new() {
    let agent = Scripted::new("small", 4, Act::Hold("finished"));
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[&agent]).await;
    // The agent outlives the router: it has its own end.
    world.start().await;
    let (listen, admin) = (world.listen, world.admin);
    let held = tokio::spawn(async move { post(listen, CHAT, &[], &question("hi")).await });
    until("one is in flight", || agent.running() == 1).await;
    world.router_shutdown.cancel();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while get(admin, "/readyz", &[]).await.status == 200 {
        assert!(std::time::Instant::now() < deadline, "it is ready for ever");
    }
    while tokio::net::TcpStream::connect(listen).await.is_ok() {
        assert!(std::time::Instant::now() < deadline, "it listens for ever");
    }
    agent.release();
    assert_eq!(held.await.unwrap().content(), "finished");
    world.running.take().unwrap().ended().await;
}
