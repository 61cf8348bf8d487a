//! Accepting: mutual TLS for Terrace's programs, plain for clients; HTTP/1.1 and HTTP/2 on either.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::certificate;
use crate::net::{Listen, Stream};
use crate::spiffe::Identity;
use crate::store::Identities;

/// A connection that has not finished its handshake by then is dropped.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How often an HTTP/2 connection is pinged, and how long its answer may take.
const PING: Duration = Duration::from_secs(5);
/// How long the head of an HTTP/1 request may take.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
/// A pause after a failed accept: with no file descriptors left, a loop would only burn the processor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Who is on the other end, proved by its certificate. A request extension of [`serve`], absent with [`serve_plain`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer(pub Identity);

/// The address on the other end: a request extension of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerAddr(pub SocketAddr);

/// Serves `app` over mutual TLS until `shutdown`, then lets open requests finish for at most `grace`.
pub async fn serve(
    listener: impl Listen,
    identities: Identities,
    app: Router,
    shutdown: CancellationToken,
    grace: Duration,
) {
    accept(listener, shutdown, grace, |stream, address, watcher| {
        let (identities, app) = (identities.clone(), app.clone());
        async move {
            let acceptor = TlsAcceptor::from(identities.server_config());
            let stream = match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => stream,
                Ok(Err(error)) => return tracing::debug!(%address, %error, "a TLS handshake failed"),
                Err(_) => return tracing::debug!(%address, "a TLS handshake took too long"),
            };
            let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
            let identity = match certificates.first().map(certificate::caller) {
                Some(Ok(identity)) if identity.cluster() == identities.identity().cluster() => identity,
                Some(Ok(identity)) => return tracing::debug!(%address, %identity, "a caller of another cluster"),
                Some(Err(error)) => return tracing::debug!(%address, %error, "a caller's certificate was refused"),
                None => return,
            };
            connection(stream, Some(Peer(identity)), PeerAddr(address), app, watcher).await;
        }
    })
    .await;
}

/// Serves `app` without TLS: clients of a router, SDKs on the machine itself.
pub async fn serve_plain(listener: impl Listen, app: Router, shutdown: CancellationToken, grace: Duration) {
    accept(listener, shutdown, grace, |stream, address, watcher| {
        connection(stream, None, PeerAddr(address), app.clone(), watcher)
    })
    .await;
}

/// Serves `app` over TLS that asks for no client certificate: clients of a router with `listener.tls`. `config` is asked
/// for each connection, so that a renewed certificate is used at once.
pub async fn serve_tls(
    listener: impl Listen,
    config: impl Fn() -> Arc<ServerConfig> + Clone + Send + Sync + 'static,
    app: Router,
    shutdown: CancellationToken,
    grace: Duration,
) {
    accept(listener, shutdown, grace, |stream, address, watcher| {
        let (acceptor, app) = (TlsAcceptor::from(config()), app.clone());
        async move {
            match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => connection(stream, None, PeerAddr(address), app, watcher).await,
                Ok(Err(error)) => tracing::debug!(%address, %error, "a TLS handshake failed"),
                Err(_) => tracing::debug!(%address, "a TLS handshake took too long"),
            }
        }
    })
    .await;
}

async fn accept<F>(
    listener: impl Listen,
    shutdown: CancellationToken,
    grace: Duration,
    mut handle: impl FnMut(Stream, SocketAddr, Watcher) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let graceful = GracefulShutdown::new();
    let end = CancellationToken::new();
    loop {
        let (stream, address) = tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
        };
        let connection = handle(stream, address, graceful.watcher());
        let end = end.clone();
        tokio::spawn(async move {
            tokio::select! { biased; () = connection => {}, () = end.cancelled() => {} }
        });
    }
    drop(listener);
    if tokio::time::timeout(grace, graceful.shutdown()).await.is_err() {
        tracing::warn!(grace_seconds = grace.as_secs(), "connections were still open at the end of the grace period");
    }
    end.cancel();
}

async fn connection<S>(stream: S, peer: Option<Peer>, address: PeerAddr, app: Router, watcher: Watcher)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        if let Some(peer) = &peer {
            request.extensions_mut().insert(peer.clone());
        }
        request.extensions_mut().insert(address);
        app.clone().oneshot(request.map(Body::new))
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING)
        .max_concurrent_streams(1024)
        .max_header_list_size(64 << 10);
    let serving = builder.serve_connection(TokioIo::new(stream), service).into_owned();
    if let Err(error) = watcher.watch(serving).await {
        tracing::debug!(address = %address.0, %error, "a connection ended early");
    }
}
