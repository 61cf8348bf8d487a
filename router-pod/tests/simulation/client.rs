//! Clients: each asks once, and keeps what it saw.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use terrace_contract::headers;
use terrace_wire::sse::{DONE, Decoder};
use tokio::time::timeout;

use crate::log::Log;
use crate::plan::Ask;
use crate::sea::{ROUTER, Sea, now, pass};
use terrace_identity::net::Network as _;

/// Past everything that a router may take: the longest budget, and the longest silence of a stream.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a request ended, as its client saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// A whole answer; of the words that it should have, if it said how many.
    Answered { words: Vec<String>, counted: Option<u64> },
    /// An error instead of an answer.
    Refused { status: u16, code: String },
    /// A stream that said that it broke.
    Broke { words: Vec<String> },
    /// Anything else that came.
    Strange(String),
    /// The router was not there.
    NoConnection,
    /// The connection ended without an answer, or in the middle of one.
    Cut { after: usize },
    /// The client went away itself.
    HungUp,
    /// It waited in vain.
    Lost,
}

/// What became of one request.
#[derive(Debug, Clone)]
pub struct Fate {
    pub ask: Ask,
    pub id: String,
    pub tier: String,
    pub reasons: String,
    pub sent: Duration,
    /// When the head of the answer came.
    pub head: Option<Duration>,
    pub ended: Duration,
    pub end: End,
}

/// What is known of an answer once its head is there; outlives a client that goes away.
#[derive(Default)]
struct Head {
    id: String,
    tier: String,
    reasons: String,
    at: Option<Duration>,
    sent: Option<Duration>,
}

/// Asks, and adds what became of it.
pub async fn ask(ask: Ask, fates: Arc<Mutex<Vec<Fate>>>, log: Log) {
    pass(ask.at.saturating_sub(now())).await;
    log.note(format_args!(
        "{} asks: {} {:?} card={} {} {} {}",
        ask.nonce,
        if ask.stream { "stream" } else { "whole" },
        ask.label,
        ask.card,
        ask.feature,
        ask.model,
        ask.prefer
    ));
    let head = Mutex::new(Head::default());
    let end = match ask.hang_up {
        None => timeout(PATIENCE, exchange(&ask, &head)).await.unwrap_or(End::Lost),
        Some(after) => timeout(after, exchange(&ask, &head)).await.unwrap_or(End::HungUp),
    };
    let Head { id, tier, reasons, at, sent } = head.into_inner().unwrap();
    log.note(format_args!("{} ended: {end:?} at {tier} because {reasons}", ask.nonce));
    let sent = sent.unwrap_or(ask.at);
    fates.lock().unwrap().push(Fate { ask, id, tier, reasons, sent, head: at, ended: now(), end });
}

fn request(ask: &Ask) -> Request<Full<Bytes>> {
    let card = if ask.card { " My card is 4111 1111 1111 1111." } else { "" };
    let text = format!("nonce={}; What is the answer?{card}", ask.nonce);
    let mut body = json!({"model": ask.model, "messages": [{"role": "user", "content": text}], "stream": ask.stream});
    if ask.stream && ask.usage {
        body["stream_options"] = json!({"include_usage": true});
    }
    let mut request = Request::post("/v1/chat/completions")
        .header("host", "router")
        .header(CONTENT_TYPE, "application/json")
        .header(headers::FEATURE, ask.feature);
    if let Some(label) = ask.label {
        request = request.header(headers::CLASS, label.as_str());
    }
    if !ask.prefer.is_empty() {
        request = request.header(headers::PREFER, ask.prefer);
    }
    if let Some(session) = ask.session {
        request = request.header(headers::SESSION, session);
    }
    request.body(Full::new(Bytes::from(body.to_string()))).unwrap()
}

async fn exchange(ask: &Ask, head: &Mutex<Head>) -> End {
    let Ok(stream) = Sea.connect(SocketAddr::new(ROUTER, 8080)).await else { return End::NoConnection };
    let Ok((mut sender, connection)) = http1::handshake(TokioIo::new(stream)).await else { return End::NoConnection };
    let connection = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(connection));
    head.lock().unwrap().sent = Some(now());
    let Ok(answer) = sender.send_request(request(ask)).await else { return End::Cut { after: 0 } };
    let said = |name: &str| answer.headers().get(name).map_or("", |v| v.to_str().unwrap()).to_owned();
    {
        let mut head = head.lock().unwrap();
        (head.id, head.tier, head.reasons) = (said(headers::REQUEST_ID), said(headers::TIER), said(headers::REASON));
        head.at = Some(now());
    }
    let end = match (answer.status().as_u16(), ask.stream) {
        (200, true) => events(answer).await,
        (200, false) => whole(answer).await,
        _ => refused(answer).await,
    };
    drop(connection);
    end
}

async fn refused(answer: Response<Incoming>) -> End {
    let status = answer.status().as_u16();
    let Ok(body) = answer.into_body().collect().await else { return End::Cut { after: 0 } };
    let body = body.to_bytes();
    let code = serde_json::from_slice::<Value>(&body).ok().and_then(|b| Some(b["error"]["code"].as_str()?.to_owned()));
    match code {
        Some(code) if !contains(&body, "UPSTREAM") => End::Refused { status, code },
        _ => End::Strange(String::from_utf8_lossy(&body).into_owned()),
    }
}

async fn whole(answer: Response<Incoming>) -> End {
    let Ok(body) = answer.into_body().collect().await else { return End::Cut { after: 0 } };
    let body = body.to_bytes();
    let strange = || End::Strange(String::from_utf8_lossy(&body).into_owned());
    let Ok(value) = serde_json::from_slice::<Value>(&body) else { return strange() };
    let choices = value["choices"].as_array().map_or(0, Vec::len);
    let Some(text) = value["choices"][0]["message"]["content"].as_str().filter(|_| choices == 1) else {
        return strange();
    };
    End::Answered { words: words(text), counted: value["usage"]["completion_tokens"].as_u64() }
}

async fn events(answer: Response<Incoming>) -> End {
    let (mut body, mut decoder) = (answer.into_body(), Decoder::new());
    let (mut text, mut counted) = (String::new(), None);
    let (mut finished, mut done, mut broke) = (0, 0, 0);
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return End::Cut { after: words(&text).len() } };
        let Ok(data) = frame.into_data() else { continue };
        for event in decoder.push(&data).unwrap() {
            if done + broke > 0 || event.data.contains("UPSTREAM") {
                return End::Strange(format!("after its end: {}", event.data));
            }
            if event.data == DONE {
                done += 1;
                continue;
            }
            let Ok(event) = serde_json::from_str::<Value>(&event.data) else { return End::Strange(event.data) };
            if !event["error"].is_null() {
                broke += 1;
                continue;
            }
            let choice = &event["choices"][0];
            text.push_str(choice["delta"]["content"].as_str().unwrap_or_default());
            finished += u32::from(choice["finish_reason"] == "stop");
            counted = event["usage"]["completion_tokens"].as_u64().or(counted);
        }
    }
    match (done, broke, finished) {
        (1, 0, 1) => End::Answered { words: words(&text), counted },
        (0, 1, 0) => End::Broke { words: words(&text) },
        _ => End::Strange(format!("{done} [DONE], {broke} errors, {finished} finished")),
    }
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn contains(body: &Bytes, text: &str) -> bool {
    String::from_utf8_lossy(body).contains(text)
}
