//! The OpenAI wire: what clients reach.

pub mod admit;
pub mod answer;
pub mod chat;
pub mod keys;
pub mod models;
pub mod rate;
pub mod read;
pub mod stream;
pub mod tls;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::IntoResponse as _;
use axum::routing::{get, post};
use http::{Request, Response, StatusCode};
use terrace_wire::error::Code;
use tracing::Span;

use self::answer::Back;
use crate::app::App;
use crate::dispatch::body::Call;
use crate::refusal::Refusal;

/// The client port's routes.
pub fn routes(app: Arc<App>) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(chat))
        .route("/v1/completions", post(completions))
        .route("/v1/models", get(list_models))
        .fallback(not_found)
        .method_not_allowed_fallback(wrong_method)
        .with_state(app)
}

async fn chat(State(app): State<Arc<App>>, request: Request<Body>) -> Response<Body> {
    Box::pin(chat::serve(app, Call::Chat, request)).await
}

async fn completions(State(app): State<Arc<App>>, request: Request<Body>) -> Response<Body> {
    Box::pin(chat::serve(app, Call::Completion, request)).await
}

async fn list_models(State(app): State<Arc<App>>, request: Request<Body>) -> Response<Body> {
    let back = Back::new(&app.random.id(), &Span::none());
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
    let known = "there is /v1/chat/completions, /v1/completions and /v1/models";
    bare(&app, &Refusal::new(Code::NotFound, format!("no such path: {known}")))
}

async fn wrong_method(State(app): State<Arc<App>>) -> Response<Body> {
    bare(&app, &Refusal::new(Code::MethodNotAllowed, "not that method: POST a completion, GET /v1/models"))
}

fn bare(app: &App, refusal: &Refusal) -> Response<Body> {
    Back::new(&app.random.id(), &Span::none()).refusal(refusal).into_response()
}
