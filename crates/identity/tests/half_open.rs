//! Clients that close their own side and wait for the answer, and clients that are gone: to a server they begin alike.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::routing::post;
use bytes::Bytes;
use terrace_identity::serve_plain;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

/// Nothing here takes nearly as long.
const LIMIT: Duration = Duration::from_secs(60);

/// What happens to a request.
#[derive(Debug, PartialEq)]
enum Saw {
    Asked(Bytes),
    /// It was dropped before its answer was made.
    Dropped,
}

struct Request(mpsc::UnboundedSender<Saw>, bool);

impl Drop for Request {
    fn drop(&mut self) {
        if !self.1 {
            let _ = self.0.send(Saw::Dropped);
        }
    }
}

struct Server {
    address: SocketAddr,
    /// One answer may be made.
    answer: Arc<Notify>,
    seen: mpsc::UnboundedReceiver<Saw>,
}

impl Server {
    async fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, seen) = mpsc::unbounded_channel();
        let answer = Arc::new(Notify::new());
        let may = answer.clone();
        let handler = move |body: Bytes| {
            let (sender, may) = (sender.clone(), may.clone());
            async move {
                let mut request = Request(sender.clone(), false);
                sender.send(Saw::Asked(body)).unwrap();
                may.notified().await;
                request.1 = true;
                "the answer"
            }
        };
        let app = axum::Router::new().route("/", post(handler));
        tokio::spawn(serve_plain(listener, app, CancellationToken::new(), LIMIT));
        Server { address, answer, seen }
    }

    async fn sees(&mut self) -> Saw {
        tokio::time::timeout(LIMIT, self.seen.recv()).await.expect("nothing is seen").unwrap()
    }

    async fn asked(&self, version: &str, length: usize) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let head = format!("POST / HTTP/{version}\r\nhost: x\r\ncontent-length: {length}\r\n\r\nhi");
        stream.write_all(head.as_bytes()).await.unwrap();
        stream
    }
}

async fn rest(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    tokio::time::timeout(LIMIT, stream.read_to_string(&mut text)).await.expect("it stays open").unwrap();
    text
}

#[tokio::test]
async fn a_client_that_closes_its_side_gets_its_answer() {
    let mut server = Server::start().await;
    let mut stream = server.asked("1.1", 2).await;
    assert_eq!(server.sees().await, Saw::Asked("hi".into()));
    stream.shutdown().await.unwrap();
    // The server has noticed, and goes on; so it does after it has asked a second time.
    let expected = "HTTP/1.1 100 Continue\r\n\r\n".repeat(2);
    let mut noticed = vec![0; expected.len()];
    tokio::time::timeout(LIMIT, stream.read_exact(&mut noticed)).await.expect("it is not noticed").unwrap();
    assert_eq!(noticed, expected.as_bytes());
    server.answer.notify_one();
    let answer = rest(&mut stream).await;
    let answer = answer.trim_start_matches("HTTP/1.1 100 Continue\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nthe answer"), "{answer}");
}

/// Closed before the server has looked: the first thing that it reads is all there will be.
#[tokio::test]
async fn a_client_that_closes_its_side_at_once_gets_its_answer_too() {
    let mut server = Server::start().await;
    let mut stream = server.asked("1.1", 2).await;
    stream.shutdown().await.unwrap();
    assert_eq!(server.sees().await, Saw::Asked("hi".into()));
    server.answer.notify_one();
    assert!(rest(&mut stream).await.ends_with("\r\n\r\nthe answer"));
}

#[tokio::test]
async fn a_client_that_is_gone_is_noticed() {
    let mut server = Server::start().await;
    for version in ["1.1", "1.0"] {
        let stream = server.asked(version, 2).await;
        assert_eq!(server.sees().await, Saw::Asked("hi".into()));
        drop(stream);
        assert_eq!(server.sees().await, Saw::Dropped, "HTTP/{version}");
    }
}

/// HTTP/1.0 knows no `100 Continue`: nothing can be found out, and the end is the end.
#[tokio::test]
async fn what_cannot_be_told_apart_is_an_end() {
    let mut server = Server::start().await;
    let mut old = server.asked("1.0", 2).await;
    assert_eq!(server.sees().await, Saw::Asked("hi".into()));
    old.shutdown().await.unwrap();
    assert_eq!(server.sees().await, Saw::Dropped);
    assert_eq!(rest(&mut old).await, "");
    // Likewise a request that is not whole: there is nothing to answer.
    let mut half = server.asked("1.1", 10).await;
    half.shutdown().await.unwrap();
    assert!(!rest(&mut half).await.contains("200 OK"));
}
