//! A tier as a router meets it: an agent with slots, or an endpoint. Most of its answers are right; the others fail in
//! every way that a tier has been seen to fail. It keeps what it received, which is what the checks look at.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::routing::{get, post};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use terrace_contract::load::Load;
use terrace_contract::status::{AgentStatus, DeviceStatus, ModelStatus};
use terrace_wire::sse;

use crate::dice::Dice;
use crate::log::Log;
use crate::sea::{now, pass};

/// Prompt tokens that every tier counts.
pub const PROMPT_TOKENS: u64 = 7;

/// What a tier does with one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    Answer,
    /// A status; with a time to come back in milliseconds, or none.
    Status(u16, Option<u64>),
    /// Nothing ever comes.
    Stall,
    /// It begins, and nothing more comes.
    StallMidway,
    /// The connection ends before the first word, or after some.
    Cut,
    CutMidway,
    /// The connection ends after the reason to finish: nothing of the answer is missing.
    CutAtTheEnd,
    /// A 200 that is no answer.
    Nonsense,
    /// It begins, and then says that it failed.
    ErrorMidway,
}

const ACTS: [(u64, Act); 13] = [
    (4, Act::Status(500, None)),
    (3, Act::Status(503, None)),
    (3, Act::Status(503, Some(400))),
    (3, Act::Status(429, None)),
    (3, Act::Status(429, Some(300))),
    (1, Act::Status(302, None)),
    (2, Act::Status(422, None)),
    (4, Act::Stall),
    (5, Act::Cut),
    (5, Act::CutMidway),
    (3, Act::CutAtTheEnd),
    (5, Act::Nonsense),
    (4, Act::ErrorMidway),
];

/// A body that came.
#[derive(Debug, Clone)]
pub struct Received {
    pub at: Duration,
    pub nonce: String,
    pub bytes: u64,
}

/// One place that answers.
pub struct Tier {
    pub name: String,
    pub model: String,
    pub uid: String,
    /// Requests at once; more get a 429.
    slots: u32,
    /// How often it fails, percent.
    faulty: u64,
    /// Whether it may stall in the middle of a stream: the one fault that takes half a minute to be found.
    stalls_midway: bool,
    dice: Dice,
    /// What it does with every request, whatever the dice say: a scenario of a test by name.
    pub always: Mutex<Option<Act>>,
    pub received: Mutex<Vec<Received>>,
    pub running: AtomicU32,
    log: Log,
}

/// One request that runs; ends when dropped.
struct Running(Arc<Tier>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Tier {
    pub fn new(seed: u64, name: &str, (uid, model): (&str, &str), slots: u32, log: &Log) -> Arc<Self> {
        let dice = Dice::of(seed, name);
        Arc::new(Self {
            name: name.to_owned(),
            model: model.to_owned(),
            uid: uid.to_owned(),
            slots,
            faulty: dice.pick(&[0, 5, 15, 30, 60]),
            stalls_midway: dice.percent(5),
            dice,
            always: Mutex::default(),
            received: Mutex::default(),
            running: AtomicU32::default(),
            log: log.clone(),
        })
    }

    fn act(&self) -> Act {
        if let Some(act) = *self.always.lock().unwrap() {
            act
        } else if !self.dice.percent(self.faulty) {
            Act::Answer
        } else if self.stalls_midway && self.dice.percent(30) {
            Act::StallMidway
        } else {
            self.dice.weighed(&ACTS)
        }
    }

    fn load(&self) -> Load {
        Load {
            running: self.running.load(Ordering::SeqCst),
            slots: self.slots,
            prefill_rate: 5_000.0,
            step_base_us: 10_000.0,
            step_per_sequence_us: 1_000.0,
            ..Load::default()
        }
    }

    /// Its routes, as an agent and as an endpoint alike.
    pub fn routes(self: &Arc<Self>) -> Router {
        Router::new()
            .route("/v1/chat/completions", post(complete))
            .route("/terrace/status", get(status))
            .with_state(Arc::clone(self))
    }
}

async fn status(State(tier): State<Arc<Tier>>) -> Response<Body> {
    let status = AgentStatus {
        schema_version: 1,
        pod_uid: format!("pod-{}", tier.name),
        node: tier.name.clone(),
        model: ModelStatus {
            name: tier.model.clone(),
            digest: String::new(),
            format: String::new(),
            parameters: String::new(),
            context_tokens: 4096,
        },
        device: DeviceStatus { kind: "cpu".into(), detail: String::new(), fallback: None },
        load: tier.load(),
        draining: false,
    };
    Response::new(Body::from(serde_json::to_vec(&status).unwrap()))
}

/// What stands between `nonce=` and `;` in a body.
pub fn nonce(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let found = text.split_once("nonce=").and_then(|(_, rest)| rest.split_once(';'));
    found.map_or_else(String::new, |(nonce, _)| nonce.to_owned())
}

async fn complete(State(tier): State<Arc<Tier>>, request: Request<Body>) -> Response<Body> {
    let bytes = match request.into_body().collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => return Response::builder().status(400).body(Body::empty()).unwrap(),
    };
    let nonce = nonce(&bytes);
    tier.received.lock().unwrap().push(Received { at: now(), nonce: nonce.clone(), bytes: bytes.len() as u64 });
    let stream = serde_json::from_slice::<Value>(&bytes).unwrap()["stream"] == true;
    let full = tier.running.fetch_add(1, Ordering::SeqCst) >= tier.slots;
    let running = Running(Arc::clone(&tier));
    let act = if full { Act::Status(429, Some(50)) } else { tier.act() };
    tier.log.note(format!("{} got {nonce}: {act:?}", tier.name));
    pass(tier.dice.millis(2, 40)).await;
    match act {
        Act::Status(status, after) => refuse(&tier, status, after),
        Act::Stall => std::future::pending().await,
        Act::Nonsense => nonsense(&tier, stream),
        act if stream => events(running, act, &nonce),
        act => whole(running, act, &nonce).await,
    }
}

fn refuse(tier: &Tier, status: u16, after_ms: Option<u64>) -> Response<Body> {
    let mut response = Response::builder().status(status).header("endpoint-load-metrics", tier.load().to_header());
    if let Some(ms) = after_ms {
        response = response.header("retry-after-ms", ms.to_string());
    }
    let body = json!({"error": {"message": "UPSTREAM-WORDS", "type": "x", "code": "upstream_code"}});
    response.body(Body::from(body.to_string())).unwrap()
}

fn nonsense(tier: &Tier, stream: bool) -> Response<Body> {
    let (kind, body) = match (stream, tier.dice.below(2)) {
        (true, 0) => ("text/event-stream", "<html>"),
        (true, _) => ("text/event-stream", "data: {\"hello\": 1}\n\n"),
        (false, 0) => ("application/json", "<html>"),
        (false, _) => ("application/json", "{\"hello\": 1}"),
    };
    Response::builder().header("content-type", kind).body(Body::from(body)).unwrap()
}

/// Word `i` of the answer to a request, of this tier and no other.
fn word(tier: &Tier, nonce: &str, i: u64) -> String {
    format!("{}/{nonce}/{i} ", tier.name)
}

fn usage(words: u64) -> Value {
    json!({"prompt_tokens": PROMPT_TOKENS, "completion_tokens": words, "total_tokens": PROMPT_TOKENS + words})
}

async fn whole(running: Running, act: Act, nonce: &str) -> Response<Body> {
    let tier = Arc::clone(&running.0);
    let words = tier.dice.between(1, 6);
    pass(tier.dice.millis(5, 60) * u32::try_from(words).unwrap()).await;
    let text: String = (0..words).map(|i| word(&tier, nonce, i)).collect();
    let choice = json!({"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"});
    let body = json!({"choices": [choice], "usage": usage(words)}).to_string();
    let parts: Vec<Part> = match act {
        Act::Answer | Act::CutAtTheEnd => vec![Part::Say(body.into())],
        Act::StallMidway => vec![Part::Say(Bytes::from(body[..9].to_owned())), Part::Stall],
        _ => vec![Part::Say(Bytes::from(body[..9].to_owned())), Part::Cut],
    };
    let builder = Response::builder().header("endpoint-load-metrics", tier.load().to_header());
    pour(builder.header("content-type", "application/json"), running, parts)
}

fn events(running: Running, act: Act, nonce: &str) -> Response<Body> {
    let tier = Arc::clone(&running.0);
    let words = tier.dice.between(1, 6);
    let chunk = |delta: Value, finish: Value| {
        sse::json_event(&json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}))
    };
    let mut parts = vec![Part::Say(chunk(json!({"role": "assistant", "content": ""}), Value::Null))];
    let said = if act == Act::Cut { 0 } else { words };
    for i in 0..said {
        parts.push(Part::Wait(tier.dice.millis(5, 60)));
        parts.push(Part::Say(chunk(json!({"content": word(&tier, nonce, i)}), Value::Null)));
    }
    match act {
        Act::Answer => {
            parts.push(Part::Say(chunk(json!({}), "stop".into())));
            parts.push(Part::Say(sse::json_event(&json!({"choices": [], "usage": usage(words)}))));
            parts.push(Part::Say(sse::done_event()));
        }
        Act::CutAtTheEnd => {
            let choice = json!({"index": 0, "delta": {}, "finish_reason": "stop"});
            parts.push(Part::Say(sse::json_event(&json!({"choices": [choice], "usage": usage(words)}))));
            // A reset overtakes what has not been sent yet.
            parts.extend([Part::Wait(Duration::from_millis(20)), Part::Cut]);
        }
        Act::ErrorMidway => {
            parts.push(Part::Say(sse::json_event(&json!({"error": {"message": "UPSTREAM-WORDS"}}))));
        }
        Act::StallMidway => parts.push(Part::Stall),
        _ => parts.push(Part::Cut),
    }
    let builder = Response::builder().header("endpoint-load-metrics", tier.load().to_header());
    pour(builder.header("content-type", "text/event-stream"), running, parts)
}

enum Part {
    Say(Bytes),
    Wait(Duration),
    Stall,
    Cut,
}

/// A response of these parts; its slot is taken until it ends or nobody reads on.
fn pour(builder: http::response::Builder, running: Running, parts: Vec<Part>) -> Response<Body> {
    let parts = VecDeque::from(parts);
    let body = futures::stream::unfold((running, parts), |(running, mut parts)| async move {
        loop {
            match parts.pop_front()? {
                Part::Say(bytes) => return Some((Ok(bytes), (running, parts))),
                Part::Wait(time) => pass(time).await,
                Part::Stall => std::future::pending().await,
                Part::Cut => return Some((Err(std::io::Error::other("cut")), (running, parts))),
            }
        }
    });
    builder.body(Body::from_stream(body)).unwrap()
}
