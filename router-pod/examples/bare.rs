//! The least that a router made of this one's libraries can cost: it passes requests and answers on, frame by frame, and
//! looks at neither. `make bench-router` runs it beside the others as `bare-hyper`: what a request takes here is the
//! system's and the HTTP library's, and no router on them goes below it.
//!
//! `bare PORT UPSTREAM`: listens on the loopback, sends to that address.

use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use anyhow::Context as _;
use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Sender = SendRequest<Incoming>;

/// Connections that wait to be used again.
#[derive(Clone, Default)]
struct Pool(Arc<Mutex<Vec<Sender>>>);

impl Pool {
    async fn take(&self, upstream: SocketAddr) -> anyhow::Result<Sender> {
        let waiting = {
            let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            idle.retain(|sender| !sender.is_closed());
            idle.iter().rposition(SendRequest::is_ready).map(|at| idle.swap_remove(at))
        };
        if let Some(sender) = waiting {
            return Ok(sender);
        }
        let stream = TcpStream::connect(upstream).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }

    fn put(&self, sender: Sender) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
    }
}

/// An answer on its way, with its connection, which is free again at the answer's end.
struct Passing {
    body: Incoming,
    sender: Option<Sender>,
    pool: Pool,
}

impl Body for Passing {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if (frame.is_none() || self.body.is_end_stream())
            && let Some(sender) = self.sender.take()
        {
            self.pool.put(sender);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

async fn pass(pool: Pool, upstream: SocketAddr, request: Request<Incoming>) -> anyhow::Result<Response<Passing>> {
    let mut sender = pool.take(upstream).await?;
    let answer = sender.send_request(request).await?;
    Ok(answer.map(|body| Passing { body, sender: Some(sender), pool }))
}

async fn serve(port: u16, upstream: SocketAddr) -> anyhow::Result<()> {
    let (listener, pool) = (TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?, Pool::default());
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let pool = pool.clone();
        let service = service_fn(move |request| pass(pool.clone(), upstream, request));
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

fn main() -> anyhow::Result<()> {
    let mut words = std::env::args().skip(1);
    let (port, upstream) = words.next().zip(words.next()).context("bare PORT UPSTREAM: where to listen and send to")?;
    terrace_telemetry::shutdown::block_on(serve(port.parse()?, upstream.parse()?))?
}
