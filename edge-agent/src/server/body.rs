//! Reading a request's body, within limits.

use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use http::{HeaderMap, header};
use http_body_util::BodyExt as _;
use serde_json::Value;
use terrace_wire::error::{Code, ErrorBody};
use terrace_wire::json;
use terrace_wire::pointer::Pointer;

use super::error::ApiError;

/// Bytes of a body that are read. More text than any context here holds.
const LIMIT: usize = 4 << 20;
/// Bytes that are still taken and thrown away, so that a client gets its answer instead of a broken pipe.
const PATIENCE: usize = 64 << 20;
/// How long a body may take to arrive.
const ARRIVAL: Duration = Duration::from_secs(30);

/// The body as strictly read JSON.
pub(super) async fn read(headers: &HeaderMap, body: Body) -> Result<Value, ApiError> {
    if headers.get(header::CONTENT_ENCODING).is_some_and(|v| v != "identity") {
        return Err(ApiError::new(Code::UnsupportedMediaType, "send the body without a content encoding"));
    }
    // Who asks whether to send it, or has more than would be thrown away, is told at once.
    let declared = body.size_hint().lower();
    if declared > PATIENCE as u64 || (declared > LIMIT as u64 && headers.contains_key(header::EXPECT)) {
        return Err(too_large());
    }
    let bytes = tokio::time::timeout(ARRIVAL, collect(body)).await.map_err(|_| {
        ApiError::new(Code::InvalidRequest, format!("the body did not arrive within {} s", ARRIVAL.as_secs()))
    })??;
    json::parse(&bytes).map_err(|malformed| {
        let what = format!("the body cannot be read: {malformed}. Send one JSON object, as OpenAI's API takes it");
        ErrorBody::invalid(&Pointer::root(), what).into()
    })
}

async fn collect(mut body: Body) -> Result<Vec<u8>, ApiError> {
    let mut bytes = Vec::new();
    let mut seen = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| ApiError::new(Code::InvalidRequest, "the body broke off"))?;
        let Some(data) = frame.data_ref() else { continue };
        seen += data.len();
        if seen > PATIENCE {
            break;
        }
        if seen <= LIMIT {
            bytes.extend_from_slice(data);
        }
    }
    if seen > LIMIT {
        return Err(too_large());
    }
    Ok(bytes)
}

fn too_large() -> ApiError {
    let message = format!("the body is larger than {LIMIT} bytes, which is more than any context here holds");
    ApiError::new(Code::RequestTooLarge, message)
}
