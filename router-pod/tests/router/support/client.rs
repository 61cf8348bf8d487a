//! A plain HTTP/1.1 client.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use terrace_wire::sse::{Decoder, Event};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A whole answer.
#[derive(Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {:?}", self.body))
    }
    pub fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
    }
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |v| v.to_str().unwrap())
    }
    pub fn content(&self) -> String {
        self.json()["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned()
    }
}

async fn send(to: SocketAddr, request: Request<Full<Bytes>>) -> http::Response<Incoming> {
    let stream = TcpStream::connect(to).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender.send_request(request).await.unwrap()
}

fn request(method: &str, path: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Request<Full<Bytes>> {
    let mut builder = Request::builder().method(method).uri(path).header("host", "router");
    if method == "POST" && !headers.iter().any(|(name, _)| *name == "content-type") {
        builder = builder.header("content-type", "application/json");
    }
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    builder.body(Full::new(Bytes::from(body))).unwrap()
}

/// Sends these very bytes, and what comes back until the head of the answer is whole.
pub async fn raw(to: SocketAddr, bytes: &str) -> String {
    let mut stream = TcpStream::connect(to).await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    let (mut got, mut part) = (Vec::new(), [0; 1024]);
    while !got.windows(4).any(|w| w == b"\r\n\r\n") {
        let n = tokio::time::timeout(Duration::from_secs(4), stream.read(&mut part)).await.unwrap().unwrap();
        if n == 0 {
            break;
        }
        got.extend_from_slice(&part[..n]);
    }
    String::from_utf8_lossy(&got).into_owned()
}

/// POSTs bytes.
pub async fn post_bytes(to: SocketAddr, path: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Reply {
    read(send(to, request("POST", path, headers, body)).await).await
}

/// POSTs JSON.
pub async fn post(to: SocketAddr, path: &str, headers: &[(&str, &str)], body: &Value) -> Reply {
    post_bytes(to, path, headers, body.to_string().into_bytes()).await
}

/// GETs a path.
pub async fn get(to: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Reply {
    read(send(to, request("GET", path, headers, Vec::new())).await).await
}

async fn read(answer: http::Response<Incoming>) -> Reply {
    let (head, body) = answer.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Reply { status: head.status, headers: head.headers, body }
}

/// An answer that is read event by event; dropping it closes the connection.
pub struct Events {
    pub status: StatusCode,
    pub headers: HeaderMap,
    body: Incoming,
    decoder: Decoder,
    waiting: std::collections::VecDeque<Event>,
}

/// POSTs JSON and reads events.
pub async fn stream(to: SocketAddr, path: &str, headers: &[(&str, &str)], body: &Value) -> Events {
    let answer = send(to, request("POST", path, headers, body.to_string().into_bytes())).await;
    let (head, body) = answer.into_parts();
    Events {
        status: head.status,
        headers: head.headers,
        body,
        decoder: Decoder::new(),
        waiting: std::collections::VecDeque::new(),
    }
}

impl Events {
    /// The next event's data; none at the end.
    pub async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Some(event.data);
            }
            let chunk = self.body.frame().await?.ok()?.into_data().ok()?;
            self.waiting.extend(self.decoder.push(&chunk).unwrap());
        }
    }

    /// All that is left.
    pub async fn rest(mut self) -> Vec<String> {
        let mut all = Vec::new();
        while let Some(data) = self.next().await {
            all.push(data);
        }
        all
    }
}

/// The text of streamed events.
pub fn text(events: &[String]) -> String {
    let json = events.iter().filter_map(|e| serde_json::from_str::<Value>(e).ok());
    json.filter_map(|e| e["choices"][0]["delta"]["content"].as_str().map(str::to_owned)).collect()
}
