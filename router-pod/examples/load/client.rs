//! A client that keeps its connections: as fast as answers come, or at a rate with random gaps.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use bytes::Bytes;
use clap::Args;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::tier::PIECES;

/// What and how to ask.
#[derive(Args)]
pub struct Asks {
    /// Whom.
    #[arg(long)]
    to: SocketAddr,
    /// The request's body.
    #[arg(long)]
    body: PathBuf,
    /// Connections, each with one request at a time.
    #[arg(long, default_value_t = 8)]
    connections: usize,
    /// How long, seconds.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Requests a second, with exponential gaps from a fixed seed; 0: the next as soon as one is answered.
    #[arg(long, default_value_t = 0.0)]
    rate: f64,
    /// Opens one stream a connection, says so with a line, and reads the rest once its input ends.
    #[arg(long)]
    hold: bool,
}

type Connection = SendRequest<Full<Bytes>>;

/// What became of the requests.
#[derive(Default)]
struct Tally {
    /// Microseconds from when each answered request was due.
    took: Vec<u64>,
    errors: BTreeMap<String, u64>,
}

async fn connect(to: SocketAddr) -> anyhow::Result<Connection> {
    let stream = TcpStream::connect(to).await.with_context(|| format!("nobody listens at {to}"))?;
    stream.set_nodelay(true)?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    // Whoever sends on it hears how it ended.
    tokio::spawn(connection);
    Ok(sender)
}

fn request(to: SocketAddr, body: &Bytes) -> anyhow::Result<Request<Full<Bytes>>> {
    Ok(Request::post("/v1/chat/completions")
        .header("host", to.to_string())
        .header("content-type", "application/json")
        .header("accept", "*/*")
        .header("authorization", "Bearer sk-bench")
        .header("user-agent", "bench")
        .body(Full::new(body.clone()))?)
}

/// Sends one request and reads its answer, which must be whole.
async fn one(connection: &mut Connection, to: SocketAddr, body: &Bytes, stream: bool) -> anyhow::Result<()> {
    connection.ready().await?;
    let answer = connection.send_request(request(to, body)?).await?;
    let status = answer.status();
    let body = answer.into_body().collect().await?.to_bytes();
    if status != 200 {
        bail!("status {}: {}", status.as_u16(), String::from_utf8_lossy(&body).chars().take(200).collect::<String>());
    }
    let words = body.windows(5).filter(|w| w == b" word").count();
    let ends = if stream { body.windows(6).any(|w| w == b"[DONE]") } else { true };
    if words != PIECES || !ends {
        bail!("an answer with {words} words of {PIECES}");
    }
    Ok(())
}

/// Asks, and says what became of it.
///
/// # Errors
/// Nobody listens there, or the body cannot be read.
pub async fn ask(asks: Asks) -> anyhow::Result<Value> {
    let body = Bytes::from(std::fs::read(&asks.body).with_context(|| format!("cannot read {}", asks.body.display()))?);
    let stream = serde_json::from_slice::<Value>(&body)?["stream"] == true;
    if asks.hold {
        return hold(&asks, &body).await;
    }
    let mut connections = Vec::new();
    for _ in 0..asks.connections {
        connections.push(connect(asks.to).await?);
    }
    let (began, lasts) = (Instant::now(), Duration::from_secs_f64(asks.seconds));
    let (due, coming) = unbounded_channel();
    let coming = (asks.rate > 0.0).then(|| Arc::new(tokio::sync::Mutex::new(coming)));
    let pacer = coming.is_some().then(|| std::thread::spawn(move || pace(asks.rate, began + lasts, &due)));
    let tally = Arc::new(Mutex::new(Tally::default()));
    let workers: Vec<_> = connections
        .into_iter()
        .map(|connection| {
            let worker = Worker { to: asks.to, body: body.clone(), stream, until: began + lasts };
            tokio::spawn(worker.run(connection, coming.clone(), Arc::clone(&tally)))
        })
        .collect();
    for worker in workers {
        worker.await??;
    }
    let seconds = began.elapsed().as_secs_f64();
    if let Some(pacer) = pacer {
        // It sent until the time was over, and nothing of it can fail.
        let _ = pacer.join();
    }
    let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
    tally.took.sort_unstable();
    let at = |part: f64| tally.took.get((tally.took.len() as f64 * part) as usize).copied();
    Ok(json!({
        "answered": tally.took.len(), "seconds": seconds, "errors": tally.errors,
        "p50_us": at(0.5), "p90_us": at(0.9), "p99_us": at(0.99), "max_us": tally.took.last(),
    }))
}

/// One connection's share of the work.
struct Worker {
    to: SocketAddr,
    body: Bytes,
    stream: bool,
    until: Instant,
}

impl Worker {
    async fn run(
        self,
        mut connection: Connection,
        coming: Option<Arc<tokio::sync::Mutex<UnboundedReceiver<Instant>>>>,
        tally: Arc<Mutex<Tally>>,
    ) -> anyhow::Result<()> {
        loop {
            let due = match &coming {
                None => Some(Instant::now()).filter(|now| *now < self.until),
                Some(coming) => coming.lock().await.recv().await,
            };
            let Some(due) = due else { return Ok(()) };
            let done = one(&mut connection, self.to, &self.body, self.stream).await;
            let us = u64::try_from(due.elapsed().as_micros()).unwrap_or(u64::MAX);
            let failed = done.is_err();
            {
                let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
                match done {
                    Ok(()) => tally.took.push(us),
                    Err(error) => *tally.errors.entry(format!("{error:#}")).or_default() += 1,
                }
            }
            if failed {
                connection = connect(self.to).await?;
            }
        }
    }
}

/// Says when each request is due, from a thread of its own: a runtime's timer is no finer than a millisecond.
fn pace(rate: f64, until: Instant, due: &UnboundedSender<Instant>) {
    let (mut state, mut next) = (0x9E37_79B9_7F4A_7C15_u64, Instant::now());
    loop {
        // Knuth's MMIX generator: its upper bits are good enough for gaps.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let uniform = ((state >> 11) as f64 + 1.0) / (1u64 << 53) as f64;
        next += Duration::from_secs_f64(-uniform.ln() / rate);
        if next >= until {
            return;
        }
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        if due.send(next).is_err() {
            return;
        }
    }
}

/// Opens streams and leaves them open until the input of this program ends; then every one must end well.
async fn hold(asks: &Asks, body: &Bytes) -> anyhow::Result<Value> {
    let mut open = Vec::new();
    for _ in 0..asks.connections {
        let mut connection = connect(asks.to).await?;
        let answer = connection.send_request(request(asks.to, body)?).await?;
        if answer.status() != 200 {
            bail!("status {} after {} open streams", answer.status().as_u16(), open.len());
        }
        let mut body = answer.into_body();
        let mut got = Vec::new();
        while !got.windows(5).any(|w| w == b" word") {
            let frame = body.frame().await.context("a stream ended before its first word")??;
            got.extend_from_slice(&frame.into_data().unwrap_or_default());
        }
        open.push((connection, body, got));
    }
    use std::io::Write as _;
    println!("{}", json!({"open": open.len()}));
    std::io::stdout().flush()?;
    tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink())).await??;
    let (mut well, all) = (0, open.len());
    for (_connection, body, mut got) in open {
        got.extend_from_slice(&body.collect().await?.to_bytes());
        well += usize::from(got.windows(6).any(|w| w == b"[DONE]"));
    }
    Ok(json!({"open": all, "ended_well": well}))
}
