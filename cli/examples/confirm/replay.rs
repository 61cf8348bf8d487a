//! A client that sends a trace's requests when they came, and sees where and when each is answered.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use terrace_contract::headers;
use terrace_contract::policy::Budget;
use terrace_simulate::trace::Arrival;

use crate::compare::Real;
use crate::words;

/// What became of one request.
#[derive(Debug, Default)]
pub struct Asked {
    /// The tier that answered; empty: none did.
    tier: String,
    status: u16,
    /// From when it was due to the first token.
    first: Option<Duration>,
    /// To the end.
    end: Duration,
    /// Tokens of the answer, as its usage tells; none: it broke off.
    tokens: Option<u64>,
    prompt_tokens: Option<u64>,
}

type Pool = Client<HttpConnector, Full<Bytes>>;

/// Sends the arrivals to a router, so many times as fast as they came.
///
/// # Errors
/// Answers are not as long as the trace says: then nothing is compared.
pub async fn replay(router: SocketAddr, arrivals: &[Arrival], load: f64, budget: &Budget, far: &str) -> Result<Real> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let pool: Arc<Pool> = Arc::new(Client::builder(TokioExecutor::new()).build(connector));
    let (began, idle) = (Instant::now(), idle());
    let mut sent = Vec::new();
    for (number, arrival) in arrivals.iter().enumerate() {
        let due = began + Duration::from_secs_f64(arrival.at_us as f64 / 1e6 / load);
        tokio::time::sleep_until(due.into()).await;
        sent.push(tokio::spawn(ask(Arc::clone(&pool), router, number, arrival.clone(), due)));
    }
    let mut all = Vec::new();
    for one in sent {
        all.push(one.await?);
    }
    let mut real = Real::of(&all, arrivals, budget, far)?;
    real.idle_percent = idle_percent(idle, self::idle());
    Ok(real)
}

async fn ask(pool: Arc<Pool>, router: SocketAddr, number: usize, arrival: Arrival, due: Instant) -> Asked {
    let mut asked = Asked::default();
    // What it came to is told by what is there.
    if let Err(error) = tell(&pool, router, number, &arrival, due, &mut asked).await {
        eprintln!("request {number}: {error:#}");
    }
    asked.end = due.elapsed();
    asked
}

async fn tell(
    pool: &Pool,
    router: SocketAddr,
    number: usize,
    arrival: &Arrival,
    due: Instant,
    asked: &mut Asked,
) -> Result<()> {
    let content = words::content(number, arrival.prompt_tokens, arrival.output_tokens);
    let body = json!({"model": "auto", "stream": true, "stream_options": {"include_usage": true},
        "messages": [{"role": "user", "content": content}]});
    let request = Request::post(format!("http://{router}/v1/chat/completions"))
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body.to_string())))?;
    let answer = pool.request(request).await?;
    asked.status = answer.status().as_u16();
    let tier = answer.headers().get(headers::TIER).and_then(|tier| tier.to_str().ok());
    asked.tier = tier.unwrap_or_default().to_owned();
    let well = answer.status() == StatusCode::OK;
    let (mut body, mut rest) = (answer.into_body(), Vec::new());
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.context("the answer broke off")?.into_data() else { continue };
        rest.extend_from_slice(&data);
        while let Some(end) = rest.windows(2).position(|two| two == b"\n\n") {
            let event: Vec<u8> = rest.drain(..end + 2).collect();
            hear(&event, due, asked);
        }
    }
    anyhow::ensure!(
        well,
        "status {}: {}",
        asked.status,
        String::from_utf8_lossy(&rest).chars().take(300).collect::<String>()
    );
    Ok(())
}

/// One event of an answer. Only the first with text and the last, with the usage, are read.
fn hear(event: &[u8], due: Instant, asked: &mut Asked) {
    let begins = event.windows(CONTENT.len() + 1).any(|w| w.starts_with(CONTENT) && w[CONTENT.len()] != b'"');
    if begins && asked.first.is_none() {
        asked.first = Some(due.elapsed());
    }
    if event.windows(USAGE.len()).any(|w| w == USAGE) {
        let usage = event.strip_prefix(b"data: ").and_then(|json| serde_json::from_slice::<Value>(json).ok());
        let count = |name: &str| usage.as_ref()?.pointer(&format!("/usage/{name}"))?.as_u64();
        (asked.tokens, asked.prompt_tokens) = (count("completion_tokens"), count("prompt_tokens"));
    }
}

const CONTENT: &[u8] = b"\"content\":\"";
const USAGE: &[u8] = b"\"usage\":{";

impl Real {
    /// Counts.
    ///
    /// # Errors
    /// Prompts or answers are not as long as the trace says.
    fn of(all: &[Asked], arrivals: &[Arrival], budget: &Budget, far: &str) -> Result<Self> {
        let us = |time: Duration| time.as_micros() as u64;
        let late = |asked: &Asked| {
            let first = asked.first.unwrap_or(asked.end);
            let cut = asked.status == 200 && asked.tokens.is_none();
            asked.status == 504 || cut || us(first) > budget.first_token_us || us(asked.end) > budget.total_us
        };
        let wrong = |(asked, arrival): &(&Asked, &Arrival)| {
            let prompt = arrival.prompt_tokens.max(words::FIXED);
            asked.tokens.is_some_and(|tokens| tokens != u64::from(arrival.output_tokens.max(1)))
                || asked.prompt_tokens.is_some_and(|tokens| tokens != u64::from(prompt))
        };
        let wrong: Vec<_> = all.iter().zip(arrivals).filter(wrong).collect();
        if let Some((asked, arrival)) = wrong.first() {
            anyhow::bail!("{} answers are not of the trace's lengths, such as {asked:?} to {arrival:?}", wrong.len());
        }
        let percent = |count: usize| 100.0 * count as f64 / all.len().max(1) as f64;
        let mut firsts: Vec<u64> = all.iter().filter_map(|asked| asked.first).map(us).collect();
        let mut ends: Vec<u64> = all.iter().filter(|a| a.tokens.is_some()).map(|a| us(a.end)).collect();
        firsts.sort_unstable();
        ends.sort_unstable();
        let at = |sorted: &[u64], share: f64| {
            sorted.get((sorted.len() as f64 * share) as usize).map_or(0.0, |us| *us as f64 / 1000.0)
        };
        Ok(Self {
            requests: all.len(),
            overflow_percent: percent(all.iter().filter(|asked| asked.tier == far).count()),
            late_percent: percent(all.iter().filter(|asked| late(asked)).count()),
            refused_percent: percent(all.iter().filter(|asked| !matches!(asked.status, 200 | 504)).count()),
            first_token_ms: (at(&firsts, 0.5), at(&firsts, 0.95)),
            total_ms: (at(&ends, 0.5), at(&ends, 0.95)),
            idle_percent: 0.0,
        })
    }
}

/// Idle time and all time of this machine's processors so far.
fn idle() -> Option<(f64, f64)> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    let values: Vec<f64> = stat.lines().next()?.split_whitespace().skip(1).filter_map(|v| v.parse().ok()).collect();
    Some((values.get(3)? + values.get(4)?, values.iter().take(8).sum()))
}

fn idle_percent(before: Option<(f64, f64)>, after: Option<(f64, f64)>) -> f64 {
    let (Some((idle, all)), Some((idle_after, all_after))) = (before, after) else { return 0.0 };
    100.0 * (idle_after - idle) / (all_after - all).max(1.0)
}
