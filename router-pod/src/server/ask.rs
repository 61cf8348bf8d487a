//! What a client asks: its body, read and parsed once and checked, and the model that it names.

use axum::body::Body;
use http::HeaderMap;
use serde_json::Value;
use terrace_contract::names::AUTO_MODEL;
use terrace_contract::snapshot::Snapshot;
use terrace_contract::tier::Feature;
use terrace_wire::error::{Code, ErrorBody};
use terrace_wire::json::{self, member};
use terrace_wire::pointer::Pointer;

use super::admit::{self, Caller};
use super::language::{Api, Asked};
use super::models;
use super::rate::Permit;
use crate::app::App;
use crate::dispatch::body::Call;
use crate::fleet::InUse;
use crate::refusal::Refusal;

/// Lets a caller's body come and reads it, once; returns it with its place among the requests in flight, which it takes
/// when it is here.
///
/// # Errors
/// What the headers say of it, 503 `overloaded`, 400 for what cannot be read, 413 for what is too long.
pub async fn arrived(
    app: &App,
    used: &InUse,
    caller: &Caller,
    headers: &HeaderMap,
    body: Body,
) -> Result<(Value, Permit), Refusal> {
    admit::body(headers)?;
    let arriving = admit::arriving(app, &used.snapshot, caller)?;
    let tree = tree(used, headers, body).await?;
    drop(arriving);
    Ok((tree, admit::place(app, &used.snapshot)?))
}

/// Reads what a tree asks.
///
/// # Errors
/// 400 with the place.
pub fn read(api: Api, tree: Value) -> Result<Asked, Refusal> {
    api.read(tree).map_err(|body| Refusal::of_body(Code::InvalidRequest, body))
}

async fn tree(used: &InUse, headers: &HeaderMap, body: Body) -> Result<Value, Refusal> {
    let asks = headers.contains_key(http::header::EXPECT);
    let bytes = super::read::all(body, used.snapshot.policy.limits.request_bytes, asks).await?;
    parsed(&bytes)
}

/// The tree of a body.
///
/// # Errors
/// 400 with the place that cannot be read.
pub fn parsed(bytes: &[u8]) -> Result<Value, Refusal> {
    json::parse(bytes)
        .map_err(|malformed| Refusal::new(Code::InvalidRequest, format!("the body cannot be read: {malformed}")))
}

/// The model's name if a tier has it and the key may ask for it.
///
/// # Errors
/// 404 with the names there are; 400 for embeddings that leave the choice among several models.
pub fn model(snapshot: &Snapshot, caller: &Caller, of: &Asked) -> Result<String, Refusal> {
    let asked = member(&of.request, "model").and_then(Value::as_str).unwrap_or_default();
    let refuse =
        |code, message: String| Refusal::of_body(code, ErrorBody::new(code, message).at(&Pointer::root().key("model")));
    if !models::knows(snapshot, caller.rule.as_ref(), asked) {
        let list = models::list(snapshot, caller.rule.as_ref());
        let names: Vec<&str> = list.data.iter().map(|model| model.id.as_str()).collect();
        return Err(refuse(Code::ModelNotFound, format!("no such model here: use one of {}", names.join(", "))));
    }
    if of.call == Call::Embedding && asked == AUTO_MODEL {
        let several = embedding(snapshot);
        if several.len() > 1 {
            let message =
                format!("/model: vectors of different models cannot be compared: name one of {}", several.join(", "));
            return Err(refuse(Code::InvalidRequest, message));
        }
    }
    Ok(asked.to_owned())
}

/// The models of tiers that embed, each once.
fn embedding(snapshot: &Snapshot) -> Vec<&str> {
    let mut names = Vec::new();
    for tier in snapshot.tiers.iter().filter(|tier| tier.capability.features.contains(&Feature::Embeddings)) {
        if !names.contains(&tier.backend.model()) {
            names.push(tier.backend.model());
        }
    }
    names
}
