//! A tier that follows a script: what it does with each request, in order, and then for ever.
//!
//! It counts the bodies that reached it, which is what a fail-closed test looks at, and notes when a request was
//! cancelled. As an agent it has real slots: a request that is held keeps one, and one more is refused.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::routing::{get, post};
use bytes::Bytes;
use futures::StreamExt as _;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use terrace_contract::load::Load;
use terrace_contract::status::{AgentStatus, DeviceStatus, ModelStatus};
use terrace_wire::sse;
use tokio::sync::watch;

use super::play;

/// What a tier does with one request.
#[derive(Debug, Clone)]
pub enum Act {
    /// Answers with this text, word by word if streamed.
    Say(&'static str),
    /// Does what the request asks, as a model would.
    Play,
    /// Answers with this text once it is let go; keeps its slot until then.
    Hold(&'static str),
    /// Streams this text's first word, and the rest once it is let go.
    Pause(&'static str),
    /// Never answers.
    Stall,
    /// Answers with this status and these headers.
    Status(u16, Vec<(&'static str, &'static str)>),
    /// Answers with this status and this place at fault.
    Blame(u16, &'static str),
    /// Answers with this status and this code.
    Code(u16, &'static str),
    /// Streams these words and cuts the connection.
    Cut(&'static str),
    /// A 200 that is no answer.
    Nonsense,
    /// A 200 with this JSON body.
    Body(&'static str),
    /// A stream of these very bytes.
    Events(&'static str),
    /// Streams a word and then an error event.
    ErrorEvent(&'static str),
    /// Streams these choices, one an event, and ends well, or cuts the connection; or answers with them whole.
    Choices(Vec<Value>, bool),
}

/// A tier that follows a script.
pub struct Scripted {
    pub acts: Mutex<VecDeque<Act>>,
    pub then: Mutex<Act>,
    pub bodies: Mutex<Vec<Value>>,
    pub headers: Mutex<Vec<HeaderMap>>,
    pub cancelled: Arc<AtomicU32>,
    pub running: Arc<AtomicU32>,
    pub slots: u32,
    pub model: String,
    pub pod_uid: Mutex<String>,
    /// What it says in `terrace`, beside an answer, to a router that asks.
    pub beside: Mutex<Value>,
    release: watch::Sender<bool>,
    pub address: Mutex<Option<SocketAddr>>,
}

struct Running {
    count: Arc<AtomicU32>,
    cancelled: Arc<AtomicU32>,
    done: bool,
}

impl Running {
    /// It ended by itself, not because it was cancelled.
    fn finish(mut self) {
        self.done = true;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::SeqCst);
        if !self.done {
            self.cancelled.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Scripted {
    pub fn new(model: &str, slots: u32, then: Act) -> Arc<Self> {
        Arc::new(Self {
            acts: Mutex::default(),
            then: Mutex::new(then),
            bodies: Mutex::default(),
            headers: Mutex::default(),
            cancelled: Arc::default(),
            running: Arc::default(),
            slots,
            model: model.to_owned(),
            pod_uid: Mutex::default(),
            beside: Mutex::default(),
            release: watch::channel(false).0,
            address: Mutex::default(),
        })
    }

    pub fn next(&self, act: Act) {
        self.acts.lock().unwrap().push_back(act);
    }
    pub fn always(&self, act: Act) {
        *self.then.lock().unwrap() = act;
    }
    /// How many bodies came.
    pub fn count(&self) -> usize {
        self.bodies.lock().unwrap().len()
    }
    pub fn last_body(&self) -> Value {
        self.bodies.lock().unwrap().last().cloned().unwrap()
    }
    pub fn last_headers(&self) -> HeaderMap {
        self.headers.lock().unwrap().last().cloned().unwrap()
    }
    pub fn cancelled(&self) -> u32 {
        self.cancelled.load(Ordering::SeqCst)
    }
    pub fn running(&self) -> u32 {
        self.running.load(Ordering::SeqCst)
    }
    /// Lets held answers go.
    pub fn release(&self) {
        self.release.send_replace(true);
    }

    fn load(&self) -> Load {
        Load {
            running: self.running(),
            queued: 0,
            slots: self.slots,
            queue_limit: 0,
            prefill_rate: 5_000.0,
            step_base_us: 2_000.0,
            step_per_sequence_us: 10.0,
            ..Load::default()
        }
    }

    /// Its routes, as an agent and as an endpoint alike.
    pub fn routes(self: &Arc<Self>) -> Router {
        Router::new()
            .route("/v1/chat/completions", post(complete))
            .route("/v1/completions", post(complete))
            .route("/v1/embeddings", post(complete))
            .route("/terrace/status", get(status))
            .with_state(Arc::clone(self))
    }
}

async fn status(State(tier): State<Arc<Scripted>>) -> Response<Body> {
    let status = AgentStatus {
        schema_version: 1,
        pod_uid: tier.pod_uid.lock().unwrap().clone(),
        node: "n1".into(),
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

async fn complete(State(tier): State<Arc<Scripted>>, request: Request<Body>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let body: Value = serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
    let stream = body["stream"] == true;
    let chat = head.uri.path().contains("chat");
    let full = tier.running.fetch_add(1, Ordering::SeqCst) >= tier.slots;
    let mut running = Running { count: Arc::clone(&tier.running), cancelled: Arc::clone(&tier.cancelled), done: false };
    if full {
        running.done = true;
        return refuse(&tier, 429, &[("retry-after-ms", "50")], None);
    }
    tier.bodies.lock().unwrap().push(body);
    tier.headers.lock().unwrap().push(head.headers);
    let act = tier.acts.lock().unwrap().pop_front().unwrap_or_else(|| tier.then.lock().unwrap().clone());
    match act {
        Act::Say(_) | Act::Play if head.uri.path().contains("embeddings") => {
            running.done = true;
            vectors(&tier)
        }
        Act::Play => {
            let builder = Response::builder().header("endpoint-load-metrics", tier.load().to_header());
            let body = tier.last_body();
            if stream {
                return pour(builder, play::events(&body, chat), running, End::Done);
            }
            running.done = true;
            let body = Body::from(play::whole(&body, chat).to_string());
            builder.header("content-type", "application/json").body(body).unwrap()
        }
        Act::Say(text) => answer(&tier, text, stream, chat, running, End::Done),
        Act::Hold(text) => {
            let mut released = tier.release.subscribe();
            released.wait_for(|released| *released).await.unwrap();
            answer(&tier, text, stream, chat, running, End::Done)
        }
        Act::Pause(text) => {
            let mut words = text.split_inclusive(' ').map(|w| json!({"index": 0, "delta": {"content": w}}));
            let end = json!({"index": 0, "delta": {}, "finish_reason": "stop"});
            let event = |choice: Value| Ok::<_, std::io::Error>(sse::json_event(&json!({ "choices": [choice] })));
            let first = futures::stream::iter(words.next().map(event));
            let mut rest: Vec<_> = words.chain([end]).map(event).collect();
            rest.push(Ok(sse::done_event()));
            let mut released = tier.release.subscribe();
            let wait = async move {
                // Nobody who could let it go is left: the test is over.
                let _ = released.wait_for(|released| *released).await;
                running.finish();
                futures::stream::iter(rest)
            };
            let body = Body::from_stream(first.chain(futures::stream::once(wait).flatten()));
            Response::builder().header("content-type", "text/event-stream").body(body).unwrap()
        }
        Act::Stall => std::future::pending().await,
        Act::Status(status, headers) => {
            running.done = true;
            refuse(&tier, status, &headers, None)
        }
        Act::Blame(status, at) => {
            running.done = true;
            refuse(&tier, status, &[], Some(at))
        }
        Act::Code(status, code) => {
            running.done = true;
            let body = json!({"error": {"message": "UPSTREAM-WORDS", "type": "x", "code": code, "param": "messages"}});
            Response::builder().status(status).body(Body::from(body.to_string())).unwrap()
        }
        Act::Cut(text) => answer(&tier, text, stream, chat, running, End::Cut),
        Act::Choices(choices, _) if !stream => {
            running.done = true;
            let usage = json!({"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14});
            let body = json!({"choices": choices, "usage": usage}).to_string();
            let response = Response::builder().header("endpoint-load-metrics", tier.load().to_header());
            response.header("content-type", "application/json").body(Body::from(body)).unwrap()
        }
        Act::Choices(choices, whole) => {
            let mut events: Vec<Bytes> = choices.iter().map(|c| sse::json_event(&json!({"choices": [c]}))).collect();
            events.extend(whole.then(sse::done_event));
            let builder = Response::builder().header("endpoint-load-metrics", tier.load().to_header());
            pour(builder, events, running, if whole { End::Done } else { End::Cut })
        }
        Act::ErrorEvent(text) => answer(&tier, text, stream, chat, running, End::Error),
        Act::Body(text) => {
            running.done = true;
            Response::builder().header("content-type", "application/json").body(Body::from(text)).unwrap()
        }
        Act::Nonsense | Act::Events(_) => {
            running.done = true;
            let text = if let Act::Events(text) = act { text } else { "<html>" };
            Response::builder().header("content-type", "text/event-stream").body(Body::from(text)).unwrap()
        }
    }
}

/// A vector for each input of the last body: its index and its words, in the encoding that was asked for.
fn vectors(tier: &Scripted) -> Response<Body> {
    let body = tier.last_body();
    let inputs = match &body["input"] {
        Value::Array(list) if !list[0].is_number() => list.clone(),
        one => vec![one.clone()],
    };
    let vector = |(index, input): (usize, &Value)| {
        let words = input.as_str().map_or(0, |text| text.split(' ').count());
        let numbers = vec![index as f32, words as f32];
        let base64 = body["encoding_format"] == "base64";
        let vector = if base64 { json!(terrace_wire::vector::encode(&numbers)) } else { json!(numbers) };
        json!({"object": "embedding", "index": index, "embedding": vector, "secret": 1})
    };
    let data: Vec<Value> = inputs.iter().enumerate().map(vector).collect();
    let usage = json!({"prompt_tokens": 5, "total_tokens": 5});
    let answer = json!({"object": "list", "data": data, "model": "upstream-model", "usage": usage});
    let response = Response::builder().header("endpoint-load-metrics", tier.load().to_header());
    response.header("content-type", "application/json").body(Body::from(answer.to_string())).unwrap()
}

fn refuse(tier: &Scripted, status: u16, headers: &[(&str, &str)], at: Option<&str>) -> Response<Body> {
    let mut response = Response::builder().status(StatusCode::from_u16(status).unwrap());
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    let body = json!({"error": {"message": "UPSTREAM-WORDS", "type": "x", "code": "upstream_code", "param": at}});
    response.header("endpoint-load-metrics", tier.load().to_header()).body(Body::from(body.to_string())).unwrap()
}

#[derive(Clone, Copy, PartialEq)]
enum End {
    Done,
    Cut,
    Error,
}

fn answer(
    tier: &Arc<Scripted>,
    text: &'static str,
    stream: bool,
    chat: bool,
    mut running: Running,
    end: End,
) -> Response<Body> {
    let builder = Response::builder()
        .header("endpoint-load-metrics", tier.load().to_header())
        .header("x-upstream-secret", "do-not-pass")
        .header("set-cookie", "a=b");
    let usage = json!({"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14});
    let beside = tier.beside.lock().unwrap().clone();
    if !stream {
        running.done = true;
        if end == End::Cut {
            let half = [Ok(Bytes::from_static(b"{\"choices\": [")), Err(std::io::Error::other("cut"))];
            return builder.body(Body::from_stream(futures::stream::iter(half))).unwrap();
        }
        let choice = if chat {
            json!({"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"})
        } else {
            json!({"index": 0, "text": text, "finish_reason": "stop"})
        };
        let mut body = json!({"id": "upstream-id", "model": "upstream-model", "choices": [choice], "usage": usage});
        if !beside.is_null() {
            body["terrace"] = beside;
        }
        return builder.header("content-type", "application/json").body(Body::from(body.to_string())).unwrap();
    }
    let chunk = |delta: Value, finish: Value| {
        let choice = if chat {
            json!({"index": 0, "delta": delta, "finish_reason": finish})
        } else {
            json!({"index": 0, "text": delta["content"].as_str().unwrap_or(""), "finish_reason": finish})
        };
        json!({"id": "upstream-id", "model": "upstream-model", "choices": [choice]})
    };
    let mut events = vec![sse::json_event(&chunk(json!({"role": "assistant", "content": ""}), Value::Null))];
    events.extend(text.split_inclusive(' ').map(|w| sse::json_event(&chunk(json!({"content": w}), Value::Null))));
    match end {
        End::Done => {
            events.push(sse::json_event(&chunk(json!({}), "stop".into())));
            events.push(sse::json_event(&json!({"choices": [], "usage": usage})));
            if !beside.is_null() {
                events.push(sse::json_event(&json!({"choices": [], "terrace": beside})));
            }
            events.push(sse::done_event());
        }
        End::Error => events.push(sse::json_event(&json!({"error": {"message": "UPSTREAM-WORDS"}}))),
        End::Cut => {}
    }
    pour(builder, events, running, end)
}

/// A response of these events.
fn pour(builder: http::response::Builder, events: Vec<Bytes>, running: Running, end: End) -> Response<Body> {
    let mut events: VecDeque<Bytes> = events.into();
    let body = futures::stream::unfold((running, false), move |(mut running, cut)| {
        let next = events.pop_front();
        async move {
            tokio::task::yield_now().await;
            match next {
                Some(event) => Some((Ok::<_, std::io::Error>(event), (running, cut))),
                None if end == End::Cut && !cut => {
                    running.done = true;
                    Some((Err(std::io::Error::other("cut")), (running, true)))
                }
                None => {
                    running.finish();
                    None
                }
            }
        }
    });
    builder.header("content-type", "text/event-stream").body(Body::from_stream(body)).unwrap()
}
