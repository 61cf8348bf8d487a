//! One attempt at one place: connect, write, wait for the first token.
//!
//! It takes a [`Cleared`] body and nothing else, and asks the clearance once more right before the bytes are written.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use serde_json::Value;
use terrace_contract::headers;
use terrace_contract::load::Load;
use terrace_contract::tier::Backend;
use terrace_contract::trust::Boundary;
use terrace_privacy::Cleared;
use terrace_wire::error::{Code, code_of};
use terrace_wire::passing::Choice;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::body::Call;
use super::connect::Connection;
use super::failure::Failure;
use super::limits;
use super::reader::{self, Reader, Step};
use super::rebuild::{self, Content, Names, Tokens};
use crate::app::App;
use crate::clock::micros;
use crate::fleet::place::{Place, Site};
use crate::trace::Attempted;

/// Longest error body that is looked at, for its code alone.
const ERROR_BYTES: usize = 64 << 10;
/// Room for the headers of a request.
const HEADERS: usize = 12;

/// What an attempt is told.
pub struct Order<'a> {
    /// What may be sent there.
    pub cleared: &'a Cleared<Bytes>,
    /// The request's id.
    pub request_id: &'a str,
    /// Which attempt of the request, from 1.
    pub number: u32,
    /// The call.
    pub call: Call,
    /// Whether events are expected.
    pub stream: bool,
    /// How the answer is named.
    pub names: Names,
    /// Prompt tokens, for the fitted forecast.
    pub prompt_tokens: u64,
    /// What was forecast of the first token.
    pub forecast_us: f64,
    /// How long the first token may take; of an answer that does not stream, all of it.
    pub first_token: Duration,
    /// How long the whole request may still take.
    pub remaining: Duration,
    /// Policies that the request passed, this one last.
    pub via: &'a str,
    /// Who may share computed prompts with it on a device; none: nobody.
    pub cache_domain: Option<&'a str>,
    /// Cancelled when another attempt at the same request has answered; none: there is no other.
    pub outrun: Option<CancellationToken>,
    /// The attempt in the request's trace.
    pub trace: Attempted,
}

/// An answer that has begun.
pub struct Begun {
    /// Where; the count ends with it.
    pub place: Place,
    /// Its connection.
    pub connection: Connection,
    /// How it is named.
    pub names: Names,
    /// What of it is there.
    pub answer: Answer,
    /// When its first token came.
    pub first_token_at: Instant,
    /// The attempt in the request's trace.
    pub trace: Attempted,
}

/// What of an answer is there.
pub enum Answer {
    /// All of it.
    Whole {
        /// What it says, rebuilt.
        content: Content,
        /// What the tier counted.
        usage: Option<Value>,
        /// What an agent says beside it.
        terrace: Option<Value>,
    },
    /// Its first event with content, and the rest to come.
    Stream {
        /// The rest.
        reader: Box<Reader>,
        /// Choices of the first event, rebuilt.
        first: Vec<Choice>,
        /// Usage, if the first event had it.
        tokens: Option<Tokens>,
    },
}

/// Carries an order out at a place, up to the first token. The place hears how it went.
///
/// # Errors
/// [`Failure`]; nothing of an answer has been passed on then.
pub async fn begin(app: &App, mut place: Place, order: Order<'_>) -> Result<Begun, Failure> {
    let started = Instant::now();
    let exchange = tokio::time::timeout(order.first_token, exchange(app, &place, &order));
    let result = match &order.outrun {
        None => exchange.await.unwrap_or(Err(Failure::Late)),
        Some(outrun) => tokio::select! {
            biased;
            () = outrun.cancelled() => Err(Failure::Outrun),
            result = exchange => result.unwrap_or(Err(Failure::Late)),
        },
    };
    let ended = Instant::now();
    let (now, took_us) = (app.clock.us_of(ended), micros(ended.duration_since(started)));
    // One that was outrun soon after its own start says nothing of how long it would have taken.
    let late = matches!(result, Err(Failure::Late)) || took_us as f64 > order.forecast_us;
    if result.is_ok() || (late && matches!(result, Err(Failure::Late | Failure::Outrun))) {
        app.fleet.began(&place.tier.uid, order.stream, took_us);
    }
    match result {
        Ok((connection, answer)) => {
            place.first_token(order.prompt_tokens, order.forecast_us, took_us, now);
            order.trace.first_token(now);
            let (names, trace) = (order.names, order.trace);
            Ok(Begun { place, connection, names, answer, first_token_at: ended, trace })
        }
        Err(failure) => {
            tell(&mut place, &failure, now);
            if matches!(failure, Failure::Outrun) {
                place.outrun(order.forecast_us, took_us, now);
            }
            order.trace.failed(&failure);
            Err(failure)
        }
    }
}

/// What a failure means for the place.
fn tell(place: &mut Place, failure: &Failure, now_us: u64) {
    match failure {
        Failure::Full { retry_after_us } => place.full(*retry_after_us, now_us),
        Failure::Credential => place.credential_refused(now_us),
        Failure::Connect(error) => {
            place.unreachable(error.reachable());
            place.failed(now_us);
        }
        failure if failure.is_fault() => place.failed(now_us),
        // The caller's mistake, or ours: the place did nothing wrong.
        _ => {}
    }
}

async fn exchange(app: &App, place: &Place, order: &Order<'_>) -> Result<(Connection, Answer), Failure> {
    let mut connection = app.connector.to(place).await?;
    if !connection.timing.reused {
        place.connected(connection.timing.connect_us);
    }
    order.trace.connected(connection.timing);

    let request = request(app, place, order)?;
    let written = Instant::now();
    let sender = connection.sender().ok_or(Failure::Broken("the connection is gone"))?;
    let answer = sender.send(request).await.map_err(|_| Failure::Broken("the connection broke"))?;
    order.trace.first_byte(micros(written.elapsed()), answer.status().as_u16());
    if let Some(load) = text(answer.headers(), headers::LOAD).and_then(Load::from_header) {
        place.reported(load, app.clock.now_us());
    }
    if answer.status() != StatusCode::OK {
        return Err(refusal(answer, place).await);
    }
    if order.stream {
        let answer = first_event(answer, place, order, app).await?;
        Ok((connection, answer))
    } else {
        let mut said = reader::whole(answer.into_body(), order.call).await?;
        let content = order.names.whole(&mut said).ok_or(Failure::Broken("the answer is none of this call"))?;
        Ok((connection, Answer::Whole { content, usage: said.usage, terrace: said.terrace }))
    }
}

/// Builds the request: its body from the clearance, its headers from a list.
fn request(app: &App, place: &Place, order: &Order<'_>) -> Result<Request<Full<Bytes>>, Failure> {
    let mut sent = HeaderMap::with_capacity(HEADERS);
    sent.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let accept = if order.stream { "text/event-stream" } else { "application/json" };
    sent.insert(ACCEPT, HeaderValue::from_static(accept));
    sent.insert(USER_AGENT, HeaderValue::from_static(concat!("terrace-router/", env!("CARGO_PKG_VERSION"))));
    let uri = match &place.site {
        Site::Device { address, .. } => {
            let mut deadline = HeaderValue::from(limits::deadline_ms(order.remaining));
            // Another one each time: HTTP/2 need not remember it.
            deadline.set_sensitive(true);
            sent.insert(headers::DEADLINE_MS, deadline);
            sent.insert(headers::CONFIDENCE, HeaderValue::from_static("1"));
            if let Some(domain) = order.cache_domain {
                sent.insert(headers::CACHE_DOMAIN, header_value(domain)?);
            }
            let uri = format!("https://{address}/v1{}", order.call.path());
            uri.parse().map_err(|_| Failure::Broken("the device's address cannot be used"))?
        }
        Site::Endpoint(target) => {
            sent.insert(HOST, target.authority.clone());
            sent.insert(headers::VIA, header_value(order.via)?);
            if let Backend::Endpoint(endpoint) = &place.tier.backend
                && let Some(key) = &endpoint.credential
            {
                let bearer = app.credentials.bearer(&place.tier.uid, key).map_err(|_| Failure::Credential)?;
                sent.insert(AUTHORIZATION, bearer);
            }
            target.uri(order.call)
        }
    };
    if place.tier.boundary < Boundary::Public {
        order.trace.inject(&mut sent);
    }
    let bytes = app.write(order.cleared, order.request_id, order.number)?;
    let mut request = Request::new(Full::new(bytes));
    *request.method_mut() = http::Method::POST;
    *request.uri_mut() = uri;
    *request.headers_mut() = sent;
    Ok(request)
}

fn header_value(text: &str) -> Result<HeaderValue, Failure> {
    HeaderValue::from_str(text).map_err(|_| Failure::Broken("a header cannot be written"))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|v| v.to_str().ok())
}

/// Reads on until something of the answer is there: a 200 that is cut before is a failure like any other.
async fn first_event(
    answer: Response<Incoming>,
    place: &Place,
    order: &Order<'_>,
    app: &App,
) -> Result<Answer, Failure> {
    if !text(answer.headers(), CONTENT_TYPE.as_str()).is_some_and(|kind| kind.starts_with("text/event-stream")) {
        return Err(Failure::Broken("the answer is no event stream"));
    }
    let mut reader = Box::new(Reader::new(answer.into_body()));
    let (mut tokens, mut roles) = (None, Vec::new());
    // The attempt's own limit stands around this.
    while let Some(step) = reader.next(order.remaining).await? {
        let Step::Event(event) = step else { break };
        if event.is_error() {
            return Err(Failure::Broken("the stream began with an error"));
        }
        if let Some(load) = rebuild::load_of(event.terrace.as_ref()) {
            place.reported(load, app.clock.now_us());
        }
        tokens = Tokens::read(event.usage.as_ref()).or(tokens);
        let mut choices = order.names.choices(event.choices).ok_or(Failure::Broken("an event is no answer"))?;
        if choices.iter().any(|c| c.has_content() || c.is_finished()) {
            rebuild::with_roles(&mut choices, roles);
            return Ok(Answer::Stream { reader, first: choices, tokens });
        }
        rebuild::with_roles(&mut roles, choices);
    }
    Err(Failure::Broken("the stream ended before its first token"))
}

/// What an answer that is none means.
async fn refusal(answer: Response<Incoming>, place: &Place) -> Failure {
    let status = answer.status();
    let retry_after_us = retry_after(answer.headers());
    let (code, at) =
        match http_body_util::BodyExt::collect(http_body_util::Limited::new(answer.into_body(), ERROR_BYTES)).await {
            Ok(body) => code_of(&body.to_bytes()),
            Err(_) => (None, None),
        };
    let at = at.filter(|_| place.is_device());
    match status.as_u16() {
        429 => Failure::Full { retry_after_us },
        503 if retry_after_us.is_some() || code == Some(Code::Draining) => Failure::Full { retry_after_us },
        401 | 403 | 407 => Failure::Credential,
        status @ (400 | 413 | 422) if code == Some(Code::ContextTooLong) => Failure::TooLong { status, at },
        status @ 413 => Failure::Caller { status, code: Code::RequestTooLarge, at },
        status @ (400 | 405 | 415 | 422) => {
            let code = code.filter(|c| *c == Code::UnsupportedFeature);
            Failure::Caller { status, code: code.unwrap_or(Code::InvalidRequest), at }
        }
        status => Failure::Status { status },
    }
}

/// `retry-after-ms`, or `retry-after` in seconds, as microseconds. A date is not read.
fn retry_after(given: &HeaderMap) -> Option<u64> {
    let number = |name: &str| text(given, name).and_then(|v| v.trim().parse::<f64>().ok()).filter(|n| *n >= 0.0);
    let ms = number(headers::RETRY_AFTER_MS).or_else(|| number(RETRY_AFTER.as_str()).map(|s| s * 1000.0))?;
    Some((ms * 1000.0) as u64)
}
