//! The operator's side over mutual TLS: snapshots come down, reports go up; and what happens while it is away.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use axum::body::Body;
use axum::extract::{Path, State};
use axum::routing::{get, post as posting};
use axum::{Json, Router};
use bytes::Bytes;
use http::Response;
use serde_json::json;
use terrace_contract::report::{Outcome, Report};
use terrace_contract::snapshot::Snapshot;
use terrace_contract::spent::{DAY_US, Spent, Taken};
use terrace_contract::trust::{Boundaries, Boundary};
use terrace_identity::authority::Usage;
use terrace_identity::{Identity, IdentityStore};
use terrace_wire::sse;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::support::fleet::CLUSTER;
use crate::support::{Act, Scripted, World, post, question, until};

const CHAT: &str = "/v1/chat/completions";

/// An operator that streams what it is given and keeps what it is told.
struct Operator {
    snapshot: watch::Sender<Option<Snapshot>>,
    asked: Mutex<Vec<(String, String)>>,
    reports: Mutex<Vec<Report>>,
    taken: Mutex<Taken>,
}

async fn stream(
    State(operator): State<Arc<Operator>>,
    Path((namespace, policy)): Path<(String, String)>,
) -> Response<Body> {
    operator.asked.lock().unwrap().push((namespace, policy));
    let events = futures::stream::unfold((operator.snapshot.subscribe(), true), |(mut changes, first)| async move {
        if !first {
            changes.changed().await.ok()?;
        }
        let snapshot = changes.borrow_and_update().clone();
        let event = snapshot.map_or_else(
            || sse::comment("heartbeat"),
            |s| [Bytes::from(format!("id: {}\n", s.revision)), sse::json_event(&s)].concat().into(),
        );
        Some((Ok::<Bytes, std::convert::Infallible>(event), (changes, false)))
    });
    Response::builder().header("content-type", "text/event-stream").body(Body::from_stream(events)).unwrap()
}

async fn report(State(operator): State<Arc<Operator>>, body: Bytes) -> Json<Taken> {
    operator.reports.lock().unwrap().push(serde_json::from_slice(&body).unwrap());
    Json(operator.taken.lock().unwrap().clone())
}

impl Operator {
    async fn start(world: &World) -> (Arc<Self>, SocketAddr) {
        let operator = Arc::new(Self {
            snapshot: watch::channel(None).0,
            asked: Mutex::default(),
            reports: Mutex::default(),
            taken: Mutex::default(),
        });
        let leaf =
            world.authority.issue(&Identity::operator(CLUSTER), Usage::Both, &[], &[], SystemTime::now()).unwrap();
        let store = IdentityStore::from_material(terrace_identity::store::Material {
            cert_pem: leaf.cert_pem.into_bytes(),
            key_pem: leaf.key_pem.into_bytes(),
            ca_pem: world.authority.cert_pem().as_bytes().to_vec(),
        })
        .unwrap();
        let routes = Router::new()
            .route("/v1/snapshots/{namespace}/{policy}", get(stream))
            .route("/v1/reports", posting(report))
            .with_state(Arc::clone(&operator));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = world.shutdown.clone();
        tokio::spawn(async move {
            terrace_identity::serve(listener, store.identities(), routes, stop, Duration::ZERO).await;
        });
        (operator, address)
    }
}

#[tokio::test]
async fn snapshots_come_down_and_reports_go_up() {
    let (edge, cloud) = (Scripted::new("small", 4, Act::Say("near")), Scripted::new("big", 4, Act::Say("far")));
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[&edge]).await;
    world.endpoint("cloud", Boundary::Public, &cloud).await;
    world.sign();
    let (operator, address) = Operator::start(&world).await;
    operator.snapshot.send_replace(Some(world.snapshot.clone()));
    let flags = [format!("--operator={address}"), format!("--state-dir={}", world.path("state").display())];
    world.start_with(&[&flags[0], &flags[1], "--allow-loopback"]).await;
    world.ready().await;
    assert_eq!(*operator.asked.lock().unwrap(), [("shop".to_owned(), "assistant".to_owned())]);
    assert_eq!(post(world.listen, CHAT, &[], &question("hi")).await.content(), "near");
    let mut big = question("hi");
    big["model"] = "big".into();
    assert_eq!(post(world.listen, CHAT, &[], &big).await.content(), "far");
    let wrong = json!({"model": "auto"});
    assert_eq!(post(world.listen, CHAT, &[], &wrong).await.status, 400);

    // A change is in use at once, and kept for a restart.
    world.snapshot.generations.policy += 1;
    world.snapshot.policy.limits.request_bytes = 100;
    world.sign();
    operator.snapshot.send_replace(Some(world.snapshot.clone()));
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while post(world.listen, CHAT, &[], &question(&"long ".repeat(50))).await.status != 413 {
        assert!(std::time::Instant::now() < deadline, "the change never comes");
    }
    let kept: Snapshot = serde_json::from_slice(&std::fs::read(world.path("state/snapshot.json")).unwrap()).unwrap();
    assert_eq!(kept, world.snapshot);

    // The last report, sent at the end, has all of it.
    world.router_shutdown.cancel();
    world.running.take().unwrap().ended().await;
    let reports = operator.reports.lock().unwrap();
    let last = reports.last().unwrap();
    assert_eq!((last.policy_uid.as_str(), &last.revision), ("p-1", &world.snapshot.revision));
    let count = |tier: &str, outcome: Outcome| -> u64 {
        let same = last.counts.iter().filter(|c| c.tier == tier && c.outcome == outcome);
        same.map(|c| c.requests).sum()
    };
    assert!(count("uid-edge", Outcome::Served) >= 1);
    assert_eq!(count("uid-cloud", Outcome::Served), 1);
    assert!(count("", Outcome::Invalid) >= 2);
    let cloud_usage = last.usage.iter().find(|u| u.tier == "uid-cloud").unwrap();
    assert_eq!((cloud_usage.input_tokens, cloud_usage.output_tokens, cloud_usage.cost_micros), (11, 3, 17));
    assert_eq!(last.latency.iter().find(|l| l.tier == "uid-cloud").unwrap().first_token.count(), 1);
    assert!(last.reachability.iter().all(|r| r.reason.is_empty()), "{:?}", last.reachability);
    let ledger = last.ledger.as_ref().unwrap();
    assert!(ledger.last_write_us > 0, "the crossing to the cloud was recorded");
    assert!(ledger.free_bytes > 0, "and there is room for more");
}

#[tokio::test]
async fn a_router_in_anothers_place_hears_what_was_spent_before_it() {
    let edge = Scripted::new("small", 4, Act::Say("near"));
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[&edge]).await;
    world.snapshot.policy.limits.spend_per_day_micros = Some(1_000);
    world.sign();
    let (operator, address) = Operator::start(&world).await;
    let day = terrace_telemetry::time::now_us() / DAY_US;
    let told = Spent { day, by_router: [("gone".to_owned(), 999)].into() };
    *operator.taken.lock().unwrap() = Taken { spent: told.clone() };
    operator.snapshot.send_replace(Some(world.snapshot.clone()));
    world.start_with(&[&format!("--operator={address}")]).await;
    world.ready().await;
    until("the operator is asked", || !operator.reports.lock().unwrap().is_empty()).await;
    let app = Arc::clone(&world.running.as_ref().unwrap().app);
    until("its answer is known", || app.spend.day(app.clock.now_us()).spent() == 999).await;
    let refused = post(world.listen, CHAT, &[], &question("hi")).await;
    assert_eq!((refused.status.as_u16(), refused.code().as_str()), (503, "permitted_tiers_unavailable"), "{refused:?}");
    world.router_shutdown.cancel();
    world.running.take().unwrap().ended().await;
    assert_eq!(operator.reports.lock().unwrap().last().unwrap().spent, told, "and passes it on");
}

#[tokio::test]
async fn without_devices_the_services_name_is_resolved() {
    let agent = Scripted::new("small", 4, Act::Say("found"));
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[&agent]).await;
    let device = world.snapshot.devices.pop().unwrap();
    if let terrace_contract::tier::Backend::Fleet(fleet) = &mut world.snapshot.tiers[0].backend {
        (fleet.service, fleet.port) = ("localhost".into(), device.port);
    }
    world.start().await;
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    let mut reply = post(world.listen, CHAT, &[], &question("hi")).await;
    // Its node is known once it was asked for its status.
    while reply.header("x-terrace-device") != "n1" {
        assert!(std::time::Instant::now() < deadline, "never found: {reply:?}");
        reply = post(world.listen, CHAT, &[], &question("hi")).await;
    }
    assert_eq!(reply.content(), "found");
}

#[tokio::test]
async fn past_its_age_a_policy_lets_only_class_public_out() {
    let cloud = Scripted::new("big", 4, Act::Say("far"));
    let mut world = World::new();
    world.endpoint("cloud", Boundary::Public, &cloud).await;
    world.snapshot.policy.sensitivity.boundaries = Boundaries { internal: Boundary::Public, ..Boundaries::default() };
    world.snapshot.policy.sensitivity.max_policy_age_us = 60_000_000;
    world.sign();
    world.snapshot.issued_at_us -= 120_000_000;
    world.key.sign(&mut world.snapshot);
    world.write("mounted/snapshot.json", &world.snapshot);
    let (operator, address) = Operator::start(&world).await;
    let flags = [format!("--operator={address}"), format!("--snapshot-dir={}", world.path("mounted").display())];
    world.start_with(&[&flags[0], &flags[1], "--allow-loopback"]).await;
    world.ready().await;
    let internal = [("x-terrace-class", "Internal")];
    let reply = post(world.listen, CHAT, &internal, &question("hi")).await;
    assert_eq!(reply.code(), "permitted_tiers_unavailable", "{reply:?}");
    assert!(reply.header("x-terrace-reason").contains("stale_policy"), "{reply:?}");
    assert_eq!(cloud.count(), 0);
    assert_eq!(post(world.listen, CHAT, &[], &question("hi")).await.status, 200, "class Public goes out");

    // The operator stands by the same policy: it is not old any more.
    until("the router asks the operator", || !operator.asked.lock().unwrap().is_empty()).await;
    operator.snapshot.send_replace(Some(world.snapshot.clone()));
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while post(world.listen, CHAT, &internal, &question("hi")).await.status != 200 {
        assert!(std::time::Instant::now() < deadline, "the policy stays old");
    }
}
