//! Between an operator and the API server: passes everything on until it is told to be late, to cut, to lose, to refuse,
//! to fall silent, or to stop after so many writes.

use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use futures::stream;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, watch};
use tokio::task::{JoinHandle, JoinSet};

use super::super::rest::Target;
use crate::wait;

/// What goes wrong between the two.
#[derive(Debug, Clone)]
pub(super) enum Fault {
    /// Nothing.
    None,
    /// Every answer, and every event of a watch, comes late: each by another time up to this one, so that they overtake
    /// one another.
    Late(Duration),
    /// Each n-th answer breaks off in its middle.
    Cut(u32),
    /// Each n-th write is carried out and its answer is lost.
    Lost(u32),
    /// Nothing is carried out: 503, 429 and 500 in turn.
    Refused,
    /// Every connection is closed without an answer.
    Closed,
    /// Connections stay open and nothing comes.
    Silent,
    /// The answers to reads of this path wait for the end of this fault.
    Held(String),
    /// Everything is closed once so many writes to paths that hold this are carried out; the answer to the last is lost.
    Stop(String, u32),
}

/// One fault, and what it has met.
struct Plan {
    fault: Fault,
    /// Connections of an earlier epoch are broken.
    epoch: u64,
    /// Requests.
    seen: AtomicU32,
    /// Requests that it harmed.
    met: AtomicU32,
    /// Writes that were carried out, of a stop those that it counts; reads that are held.
    done: AtomicU32,
}

/// A proxy on a port of its own; it ends when this value goes.
pub(super) struct Proxy {
    address: SocketAddr,
    plans: watch::Sender<Arc<Plan>>,
    accepting: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Proxy {
    /// Before one API server.
    pub(super) async fn start(target: Target) -> anyhow::Result<Proxy> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (plans, _) = watch::channel(Arc::new(plan(Fault::None, 0)));
        let line = Arc::new(Line { target, plans: plans.clone(), writes: Mutex::default() });
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                tokio::select! {
                    accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                        connections.spawn(connection(stream, line.clone()));
                    },
                    Some(_) = connections.join_next() => {}
                }
            }
        });
        Ok(Proxy { address, plans, accepting })
    }

    /// Where an operator reaches the API server through it.
    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on; what is under way breaks off.
    pub(super) fn set(&self, fault: Fault) {
        let epoch = self.plans.borrow().epoch + 1;
        self.plans.send_replace(Arc::new(plan(fault, epoch)));
    }

    /// From now on; what is under way goes on.
    pub(super) fn arm(&self, fault: Fault) {
        let epoch = self.plans.borrow().epoch;
        self.plans.send_replace(Arc::new(plan(fault, epoch)));
    }

    /// Requests that the present fault has harmed.
    pub(super) fn met(&self) -> u32 {
        self.plans.borrow().met.load(Ordering::SeqCst)
    }

    /// Reads that a [`Fault::Held`] holds.
    pub(super) fn held(&self) -> u32 {
        self.plans.borrow().done.load(Ordering::SeqCst)
    }

    /// Waits until a [`Fault::Stop`] has stopped everything.
    pub(super) async fn stopped(&self) -> anyhow::Result<()> {
        let mut plans = self.plans.subscribe();
        plans.wait_for(|plan| matches!(plan.fault, Fault::Closed)).await.context("the proxy has ended")?;
        Ok(())
    }
}

fn plan(fault: Fault, epoch: u64) -> Plan {
    let none = || AtomicU32::new(0);
    Plan { fault, epoch, seen: none(), met: none(), done: none() }
}

/// The connection breaks off.
#[derive(Debug)]
struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the proxy breaks the connection off")
    }
}

impl std::error::Error for Broken {}

type Answer = Response<UnsyncBoxBody<Bytes, Broken>>;
type Upstream = Mutex<Option<SendRequest<Incoming>>>;

struct Line {
    target: Target,
    plans: watch::Sender<Arc<Plan>>,
    /// While writes are counted they go one after the other, so that none is under way when the last one is done.
    writes: Mutex<()>,
}

async fn connection(stream: TcpStream, line: Arc<Line>) {
    let _ = stream.set_nodelay(true);
    let upstream = Arc::new(Upstream::default());
    let service = service_fn(move |request| {
        let (line, upstream) = (line.clone(), upstream.clone());
        async move { line.answer(request, &upstream).await }
    });
    // An end that is not clean is what this is for.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

impl Line {
    async fn answer(&self, request: Request<Incoming>, upstream: &Upstream) -> Result<Answer, Broken> {
        let mut plans = self.plans.subscribe();
        let plan = plans.borrow_and_update().clone();
        let path = request.uri().path().to_owned();
        let write = request.method() != Method::GET;
        match &plan.fault {
            Fault::Closed => {
                plan.met.fetch_add(1, Ordering::SeqCst);
                return Err(Broken);
            }
            Fault::Refused => return Ok(refusal(plan.met.fetch_add(1, Ordering::SeqCst))),
            Fault::Silent => {
                plan.met.fetch_add(1, Ordering::SeqCst);
                let _ = plans.wait_for(|now| now.epoch != plan.epoch).await;
                return Err(Broken);
            }
            _ => {}
        }
        let stop = match &plan.fault {
            Fault::Stop(part, after) if write && path.contains(part.as_str()) => Some(*after),
            _ => None,
        };
        let turn = if stop.is_some() { Some(self.writes.lock().await) } else { None };
        if plans.borrow().epoch != plan.epoch {
            return Err(Broken);
        }
        let answer = self.forward(request, upstream).await?;
        let number = plan.seen.fetch_add(1, Ordering::SeqCst) + 1;
        let done = write && answer.status().is_success();
        if let Some(after) = stop
            && done
            && plan.done.fetch_add(1, Ordering::SeqCst) + 1 == after
        {
            self.plans.send_replace(Arc::new(self::plan(Fault::Closed, plan.epoch + 1)));
            return Err(Broken);
        }
        drop(turn);
        let mut cut = false;
        let harm = || plan.met.fetch_add(1, Ordering::SeqCst);
        match &plan.fault {
            Fault::Late(most) => {
                harm();
                wait::latency(spread(number, *most)).await;
            }
            Fault::Lost(each) if done && (plan.done.fetch_add(1, Ordering::SeqCst) + 1).is_multiple_of(*each) => {
                harm();
                return Err(Broken);
            }
            Fault::Held(held) if !write && path == *held => {
                plan.done.fetch_add(1, Ordering::SeqCst);
                let _ = plans.changed().await;
            }
            Fault::Cut(each) if number.is_multiple_of(*each) => {
                harm();
                cut = true;
            }
            _ => {}
        }
        let (parts, body) = answer.into_parts();
        Ok(Response::from_parts(parts, passed(Passing { body, plans, epoch: plan.epoch, number, cut, over: false })))
    }

    async fn forward(&self, request: Request<Incoming>, upstream: &Upstream) -> Result<Response<Incoming>, Broken> {
        let mut slot = upstream.lock().await;
        let mut sender = self.target.connected(slot.take()).await.map_err(|_| Broken)?;
        let answer = sender.send_request(request).await.map_err(|_| Broken)?;
        *slot = Some(sender);
        Ok(answer)
    }
}

/// Up to `most`, another time for each number, and the same in every run.
fn spread(number: u32, most: Duration) -> Duration {
    // Knuth's multiplicative hash: neighbours are far apart.
    most.mul_f64(f64::from(number.wrapping_mul(2_654_435_761)) / f64::from(u32::MAX))
}

fn refusal(number: u32) -> Answer {
    let (code, reason) = [
        (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable"),
        (StatusCode::TOO_MANY_REQUESTS, "TooManyRequests"),
        (StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
    ][number as usize % 3];
    let status = serde_json::json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason,
        "message": "the proxy refuses", "code": code.as_u16()});
    let none = |never: Infallible| match never {};
    let mut answer = Response::new(Full::from(status.to_string()).map_err(none).boxed_unsync());
    *answer.status_mut() = code;
    answer.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    answer
}

/// An answer's body on its way.
struct Passing {
    body: Incoming,
    plans: watch::Receiver<Arc<Plan>>,
    epoch: u64,
    number: u32,
    cut: bool,
    over: bool,
}

fn passed(passing: Passing) -> UnsyncBoxBody<Bytes, Broken> {
    let frames = stream::unfold(passing, |mut passing| async move {
        let frame = passing.next().await?;
        Some((frame, passing))
    });
    StreamBody::new(frames).boxed_unsync()
}

impl Passing {
    async fn next(&mut self) -> Option<Result<Frame<Bytes>, Broken>> {
        if self.over {
            return Some(Err(Broken));
        }
        tokio::select! {
            frame = self.body.frame() => {
                let frame = match frame? {
                    Ok(frame) => frame,
                    Err(_) => return Some(Err(Broken)),
                };
                let fault = self.plans.borrow().fault.clone();
                match fault {
                    Fault::Late(most) => {
                        self.number = self.number.wrapping_add(1);
                        wait::latency(spread(self.number, most)).await;
                    }
                    Fault::Silent => {
                        broken(&mut self.plans, self.epoch).await;
                        return Some(Err(Broken));
                    }
                    _ => {}
                }
                if !self.cut {
                    return Some(Ok(frame));
                }
                self.over = true;
                let mut data = frame.into_data().unwrap_or_default();
                data.truncate(data.len() / 2);
                Some(Ok(Frame::data(data)))
            }
            () = broken(&mut self.plans, self.epoch) => Some(Err(Broken)),
        }
    }
}

/// Ends when connections of this epoch break; while all is silent, they do not.
async fn broken(plans: &mut watch::Receiver<Arc<Plan>>, epoch: u64) {
    let silent_or_same = |plan: &Plan| plan.epoch == epoch || matches!(plan.fault, Fault::Silent);
    // The sender lives as long as the proxy.
    let _ = plans.wait_for(|plan| !silent_or_same(plan)).await;
}
