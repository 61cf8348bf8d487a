//! Reads a request's body up to its limit.
//!
//! What is too long is read on and thrown away, up to a point: a client that is still sending would otherwise see its
//! connection break instead of the answer that says why. One that says beforehand that it will send more than that, or
//! asks whether it may send at all, is told at once.

use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use terrace_wire::error::Code;

use crate::refusal::Refusal;

/// How long a body may take to arrive: a slow one must not keep its place for ever.
const TIME: Duration = Duration::from_secs(30);
/// How long one that will be thrown away may take.
const TIME_OF_TOO_LONG: Duration = Duration::from_secs(5);
/// Most that is thrown away of a body that is too long.
const DISCARD: u64 = 64 << 20;

/// The whole body. `asks`: the client waits until it is told to send it (`expect: 100-continue`).
///
/// # Errors
/// 413 with the limit and the size, or 400 for a body that never becomes whole.
pub async fn all(body: Body, limit: u64, asks: bool) -> Result<Bytes, Refusal> {
    let declared = body.size_hint().lower();
    let long = declared > limit;
    if long && (asks || declared > DISCARD) {
        return Err(too_large(limit, Some(declared)));
    }
    let time = if long { TIME_OF_TOO_LONG } else { TIME };
    tokio::time::timeout(time, collect(body, limit)).await.unwrap_or_else(|_| match long {
        true => Err(too_large(limit, Some(declared))),
        false => Err(Refusal::new(Code::InvalidRequest, "the body took longer than 30 s to arrive: send it again")),
    })
}

async fn collect(mut body: Body, limit: u64) -> Result<Bytes, Refusal> {
    let (mut kept, mut size) = (BytesMut::new(), 0u64);
    while let Some(frame) = body.frame().await {
        let broken = |_| Refusal::new(Code::InvalidRequest, "the body ended before it was whole: send it again");
        let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
        size += data.len() as u64;
        if size <= limit {
            kept.extend_from_slice(&data);
        } else if size > DISCARD {
            return Err(too_large(limit, None));
        } else {
            kept = BytesMut::new();
        }
    }
    if size <= limit { Ok(kept.freeze()) } else { Err(too_large(limit, Some(size))) }
}

/// 413 with the limit and, where known, the size.
fn too_large(limit: u64, size: Option<u64>) -> Refusal {
    let size = size.map_or_else(String::new, |size| format!(", and this one has {size}"));
    Refusal::new(Code::RequestTooLarge, format!("a body may have {limit} bytes{size} (limits.requestBytes)"))
}
