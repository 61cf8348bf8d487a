//! Clients that close their own side once they have asked, and wait for the answer (`shutdown` of a socket for writing).
//!
//! hyper takes the end of what a client sends for the client's end, and drops the request. Often it is right: a client that
//! is gone looks the same, and what is computed for it is computed for nobody. What tells them apart is the answer to being
//! sent something: a machine whose program is gone resets the connection. So a client that has closed its side is sent
//! `100 Continue`, which any HTTP/1.1 client has to expect before its answer (RFC 9110, section 15.2), and again a little
//! later, when the reset is there. Once an answer is on its way, its own bytes tell as much.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
/// How long after each `100 Continue` the next one follows. Few: some clients take no more than five.
const PAUSES: [Duration; 3] = [Duration::from_millis(50), Duration::from_millis(450), Duration::from_secs(2)];

/// Where a connection's exchange stands.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    /// A request over HTTP/1.1 came whole, and its answer is not complete.
    asked: AtomicBool,
    /// Some of its answer was sent.
    begun: AtomicBool,
}

impl Exchange {
    fn asked(&self) {
        self.begun.store(false, Relaxed);
        self.asked.store(true, Relaxed);
    }
}

/// A request's body, which notes its end.
pub(crate) struct Asked<B = Incoming> {
    body: B,
    exchange: Arc<Exchange>,
}

impl<B: Body> Asked<B> {
    pub(crate) fn new(body: B, exchange: Arc<Exchange>) -> Self {
        if body.is_end_stream() {
            exchange.asked();
        }
        Self { body, exchange }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Asked<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if frame.is_none() || self.body.is_end_stream() {
            self.exchange.asked();
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

/// Ends an exchange when it is dropped: with the last byte of the answer, or when there will be none.
pub(crate) struct Ends(pub(crate) Arc<Exchange>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.asked.store(false, Relaxed);
    }
}

/// An answer's body; the exchange ends with it.
pub(crate) struct Answered<B> {
    pub(crate) body: B,
    pub(crate) _ends: Ends,
}

impl<B: Body + Unpin> Body for Answered<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A connection whose other end may have closed its side.
pub(crate) struct HalfOpen<S> {
    stream: S,
    exchange: Arc<Exchange>,
    /// Nothing more will come.
    closed: bool,
    /// What is left to be sent of a `100 Continue`.
    probe: &'static [u8],
    flushing: bool,
    /// How many were begun.
    probes: usize,
    pause: Option<Pin<Box<Sleep>>>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> HalfOpen<S> {
    pub(crate) fn new(stream: S, exchange: Arc<Exchange>) -> Self {
        Self { stream, exchange, closed: false, probe: b"", flushing: false, probes: 0, pause: None }
    }

    /// Never ready while the client may be there; an error once it is not.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if self.exchange.begun.load(Relaxed) {
                return Poll::Pending;
            }
            ready!(self.poll_probe(cx))?;
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(cx));
            }
            // Without a pause after it, it was the last.
            if self.probes > PAUSES.len() {
                return Poll::Pending;
            }
            self.pause = PAUSES.get(self.probes).map(|pause| Box::pin(tokio::time::sleep(*pause)));
            self.probes += 1;
            (self.probe, self.flushing) = (CONTINUE, true);
        }
    }

    /// Sends what was begun of a `100 Continue`, before anything else goes out.
    fn poll_probe(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.probe.is_empty() {
            let sent = ready!(Pin::new(&mut self.stream).poll_write(cx, self.probe))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.probe = &self.probe[sent..];
        }
        if std::mem::take(&mut self.flushing) && Pin::new(&mut self.stream).poll_flush(cx)?.is_pending() {
            self.flushing = true;
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for HalfOpen<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.closed {
            let (before, room) = (buf.filled().len(), buf.remaining());
            ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
            if room == 0 || buf.filled().len() > before {
                return Poll::Ready(Ok(()));
            }
            self.closed = true;
        }
        if self.exchange.asked.load(Relaxed) { self.poll_gone(cx) } else { Poll::Ready(Ok(())) }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for HalfOpen<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_probe(cx))?;
        self.exchange.begun.store(true, Relaxed);
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_probe(cx))?;
        self.exchange.begun.store(true, Relaxed);
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
