//! `POST /v1/messages/count_tokens`: how many tokens a message would take, by the estimate that decisions are made with.
//! Nothing is sent anywhere.

use std::sync::Arc;

use axum::body::Body;
use http::{Request, Response, StatusCode};
use serde_json::{Value, json};

use super::answer::Back;
use super::language::Api;
use super::{admit, ask, chat};
use crate::app::App;
use crate::refusal::Refusal;
use crate::sense::tokens;
use crate::trace::Trace;

/// Counts the tokens of a Messages request.
pub async fn serve(app: Arc<App>, request: Request<Body>) -> Response<Body> {
    let back = Back::new(&app.random.id(), &Trace::default()).speaking(Api::Messages);
    match count(&app, request).await {
        Ok(tokens) => back.json(StatusCode::OK, json!({ "input_tokens": tokens }).to_string()),
        Err(refusal) => back.refusal(&refusal),
    }
}

async fn count(app: &App, request: Request<Body>) -> Result<u64, Refusal> {
    let used = chat::in_use(app)?;
    let (head, body) = request.into_parts();
    let caller = admit::caller(app, &used.snapshot, &head.headers)?;
    let (mut tree, _permit) = ask::arrived(app, &used, &caller, &head.headers, body).await?;
    if let Some(members) = tree.as_object_mut() {
        // The one member that a message needs and its count does not.
        members.entry("max_tokens").or_insert(Value::from(1));
    }
    let asked = ask::read(Api::Messages, tree)?;
    ask::model(&used.snapshot, &caller, &asked)?;
    Ok(tokens::of_request(&asked.request))
}
