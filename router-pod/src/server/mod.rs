//! What clients reach: OpenAI's wire, and Anthropic's Messages.

pub mod admit;
pub mod answer;
pub mod ask;
pub mod chat;
pub mod count;
pub mod explain;
pub mod keys;
pub mod language;
pub mod models;
pub mod rate;
pub mod read;
pub mod stream;
pub mod tls;
pub mod unread;
pub mod wait;
pub mod writer;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::IntoResponse as _;
use axum::routing::{MethodRouter, get, post};
use http::{Request, Response, StatusCode};
use terrace_wire::error::Code;

use self::answer::Back;
use self::language::Api;
use crate::app::App;
use crate::refusal::Refusal;
use crate::trace::Trace;

/// The client port's routes.
pub fn routes(app: Arc<App>) -> Router {
    Router::new()
        .route("/v1/chat/completions", asks(Api::Chat))
        .route("/v1/completions", asks(Api::Completion))
        .route("/v1/embeddings", asks(Api::Embedding))
        .route("/v1/messages", asks(Api::Messages))
        .route("/v1/messages/count_tokens", post(count_tokens))
        .route("/v1/responses", asks(Api::Responses))
        .route("/v1/models", get(list_models))
        .route("/v1/explain", post(explain::would))
        .route("/v1/explain/{id}", get(explain::find))
        .fallback(not_found)
        .method_not_allowed_fallback(wrong_method)
        .with_state(app)
}

fn asks(api: Api) -> MethodRouter<Arc<App>> {
    post(move |State(app): State<Arc<App>>, request: Request<Body>| async move {
        Box::pin(chat::serve(app, api, request)).await
    })
}

async fn count_tokens(State(app): State<Arc<App>>, request: Request<Body>) -> Response<Body> {
    Box::pin(count::serve(app, request)).await
}

async fn list_models(State(app): State<Arc<App>>, request: Request<Body>) -> Response<Body> {
    let back = Back::new(&app.random.id(), &Trace::default());
    let listed = chat::in_use(&app).and_then(|used| {
        let caller = admit::caller(&app, &used.snapshot, request.headers())?;
        Ok(models::list(&used.snapshot, caller.rule.as_ref()))
    });
    match listed {
        Ok(list) => back.json(StatusCode::OK, serde_json::to_vec(&list).unwrap_or_default()),
        Err(refusal) => back.refusal(&refusal),
    }
}

async fn not_found(State(app): State<Arc<App>>) -> Response<Body> {
    let known = "there is /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/responses, /v1/messages, \
                 /v1/models and /v1/explain";
    bare(&app, &Refusal::new(Code::NotFound, format!("no such path: {known}")))
}

async fn wrong_method(State(app): State<Arc<App>>) -> Response<Body> {
    bare(&app, &Refusal::new(Code::MethodNotAllowed, "not that method: POST a request, GET /v1/models"))
}

fn bare(app: &App, refusal: &Refusal) -> Response<Body> {
    Back::new(&app.random.id(), &Trace::default()).refusal(refusal).into_response()
}
