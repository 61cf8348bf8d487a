//! The tier behind the devices: it answers at once, with as many tokens as the prompt asks for.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::post;
use bytes::Bytes;
use http::Response;
use serde_json::{Value, json};
use terrace_wire::sse;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::words;

/// Serves until it is told to stop; where.
///
/// # Errors
/// No port.
pub async fn serve(stop: CancellationToken) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let routes = Router::new().route("/v1/chat/completions", post(complete));
    tokio::spawn(terrace_identity::serve_plain(listener, routes, stop, Duration::ZERO));
    Ok(address)
}

async fn complete(body: Bytes) -> Result<Response<Body>, String> {
    let asked: Value = serde_json::from_slice(&body).map_err(|e| e.to_string())?;
    let content = asked.pointer("/messages/0/content").and_then(Value::as_str).unwrap_or_default();
    let said = content.as_bytes().get(..words::LETTERS).and_then(words::read).ok_or("a prompt without its letters")?;
    let event = |choices: Value| json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "big", "choices": choices});
    let choice = |delta: Value, finish: Value| event(json!([{"index": 0, "delta": delta, "finish_reason": finish}]));
    let mut last = event(json!([]));
    last["usage"] = json!({"prompt_tokens": said.prompt_tokens, "completion_tokens": said.answer_tokens,
        "total_tokens": said.prompt_tokens + said.answer_tokens});
    let events =
        [choice(json!({"role": "assistant", "content": "a"}), Value::Null), choice(json!({}), "stop".into()), last];
    let mut body: Vec<u8> = events.iter().flat_map(|event| sse::json_event(event).to_vec()).collect();
    body.extend_from_slice(&sse::done_event());
    Response::builder().header("content-type", "text/event-stream").body(Body::from(body)).map_err(|e| e.to_string())
}
