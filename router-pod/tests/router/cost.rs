//! What traces cost: processor time of a request in routers that differ in nothing else. Measured, so not a part of
//! `make test`: `make bench-traces`.

use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::json;
use terrace_contract::trust::Boundary;

use crate::support::process::{self, Process};
use crate::support::{Act, Scripted, World, question, until};

/// Requests of one sample: few, so that a machine that slows down slows all samples of a round.
const REQUESTS: usize = 100;
/// Samples of each way, in turns.
const ROUNDS: usize = 151;
/// What 0 % may cost more than no traces at all, in one run.
const GOAL: f64 = 1.03;

async fn count(State(calls): State<Arc<AtomicUsize>>, _: Bytes) {
    calls.fetch_add(1, Ordering::Relaxed);
}

/// Takes spans as a collector does, and counts how often it was called.
async fn collector() -> (SocketAddr, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let app = Router::new().route("/v1/traces", post(count)).with_state(Arc::clone(&calls));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    (address, calls)
}

/// A router with this share of traces to this collector; none: traces go nowhere.
struct Way {
    name: &'static str,
    process: Process,
    sender: http1::SendRequest<Full<Bytes>>,
    samples: Vec<f64>,
    _world: World,
}

async fn way(name: &'static str, percent: u8, collector: Option<SocketAddr>) -> Way {
    let agent = Scripted::new("small", 4, Act::Say("one two three four"));
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[&agent]).await;
    world.snapshot.policy.trace_sample_percent = percent;
    world.publish();
    let ports = world.path("ports");
    let mut command = process::command(&world);
    command
        .args(["--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0"])
        .arg(format!("--port-file={}", ports.display()))
        .env_remove("TERRACE_TRACE_FILE")
        .stderr(Stdio::null());
    if let Some(address) = collector {
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{address}"));
    }
    let process = process::running(&world, command.spawn().unwrap()).await;
    let stream = tokio::net::TcpStream::connect(process.listen).await.unwrap();
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    Way { name, process, sender, samples: Vec::new(), _world: world }
}

impl Way {
    async fn requests(&mut self) {
        let body = Bytes::from(question(&"the same two hundred bytes ".repeat(8)).to_string());
        for _ in 0..REQUESTS {
            let request = Request::post("/v1/chat/completions")
                .header("host", "router")
                .header("content-type", "application/json")
                .body(Full::new(body.clone()))
                .unwrap();
            self.sender.ready().await.unwrap();
            let answer = self.sender.send_request(request).await.unwrap();
            assert_eq!(answer.status(), 200);
            answer.into_body().collect().await.unwrap();
        }
    }

    /// Microseconds of processor time that the router used so far, all threads together.
    fn used_us(&self) -> f64 {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.process.child.id())).unwrap();
        let of = |task: std::fs::DirEntry| {
            let line = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            line.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0)
        };
        tasks.map(|task| of(task.unwrap())).sum::<f64>() / 1e3
    }

    async fn sample(&mut self) {
        let before = self.used_us();
        self.requests().await;
        self.samples.push((self.used_us() - before) / REQUESTS as f64);
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

#[tokio::test]
#[ignore = "measures: make bench-traces"]
async fn at_zero_percent_traces_cost_nothing_measurable() {
    let (address, calls) = collector().await;
    let mut ways = vec![
        way("none", 0, None).await,
        way("0 %", 0, Some(address)).await,
        way("1 %", 1, Some(address)).await,
        way("100 %", 100, Some(address)).await,
    ];
    for way in &mut ways {
        way.requests().await;
    }
    for round in 0..ROUNDS {
        // In another order each time.
        for index in 0..ways.len() {
            let turn = (index + round) % ways.len();
            ways[turn].sample().await;
        }
    }
    until("spans of the traced router are there", || calls.load(Ordering::Relaxed) > 0).await;
    // The median of the ratios of each round: what slows the machine slows both of a round.
    let none = ways[0].samples.clone();
    let mut figures = Vec::new();
    for way in &ways {
        let ratios: Vec<f64> = way.samples.iter().zip(&none).map(|(one, none)| one / none).collect();
        let (us, ratio) = (median(&way.samples), median(&ratios));
        eprintln!("{:>6}: {us:6.1} us of processor time a request, {ratio:.3} of none", way.name);
        let goal = (way.name == "0 %").then_some(GOAL);
        figures.push(json!({
            "name": format!("processor time of a request, traces: {}; against none, microseconds", way.name),
            "ours": us, "peer": median(&none), "ratio": ratio, "goal": goal, "met": goal.is_none_or(|goal| ratio < goal),
            "samples": {"ours": way.samples, "peer": none}, "command": "make bench-traces",
        }));
    }
    if let Ok(file) = std::env::var("BENCH_FILE") {
        let machine = format!("{} {}", std::env::consts::OS, std::env::consts::ARCH);
        let told = json!({"bench": "traces", "figures": figures, "machine": machine});
        std::fs::write(file, told.to_string()).unwrap();
    }
    assert!(figures[1]["met"] == true, "0 % costs {} times what no traces cost", figures[1]["ratio"]);
}
