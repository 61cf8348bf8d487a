//! `POST /v1/explain`: what would be decided of a request now, without sending it. `GET /v1/explain/{id}`: what was decided
//! of one that was sent, by the id in its `x-terrace-request-id`.
//!
//! Both want the same key as a completion does. A decision is shown to the key that made the request and to no other: a
//! foreign id and one that never was are answered alike.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use serde_json::Value;
use terrace_contract::explanation::Explanation;
use terrace_decide::explain::explain;
use terrace_wire::error::Code;
use tokio::time::Instant;

use super::answer::Back;
use super::language::{Api, Asked};
use super::{admit, ask, chat};
use crate::app::App;
use crate::clock::micros;
use crate::refusal::Refusal;
use crate::sense::{self, Known, prefix, sharing};
use crate::trace::Trace;

/// What would be decided.
pub async fn would(State(app): State<Arc<App>>, request: Request<Body>) -> Response<Body> {
    let (head, body) = request.into_parts();
    answer(&app, decided(&app, head, body).await)
}

/// What was decided.
pub async fn find(State(app): State<Arc<App>>, Path(id): Path<String>, request: Request<Body>) -> Response<Body> {
    answer(&app, was(&app, &id, &request))
}

fn answer(app: &App, explained: Result<Explanation, Refusal>) -> Response<Body> {
    let back = Back::new(&app.random.id(), &Trace::default());
    match explained {
        Ok(explanation) => back.json(StatusCode::OK, serde_json::to_vec(&explanation).unwrap_or_default()),
        Err(refusal) => back.refusal(&refusal),
    }
}

/// What a body asks: as this API, or as what its members look like.
///
/// # Errors
/// 400 with the place that is wrong.
pub fn asked(tree: Value, api: Option<Api>) -> Result<Asked, Refusal> {
    ask::read(api.unwrap_or_else(|| Api::of(&tree)), tree)
}

/// The API that `?api=` names.
fn named(head: &Parts) -> Result<Option<Api>, Refusal> {
    let Some(query) = head.uri.query() else { return Ok(None) };
    let known = || Api::ALL.map(Api::name).join(", ");
    let found = query.strip_prefix("api=").and_then(|name| Api::ALL.into_iter().find(|api| api.name() == name));
    found.map(Some).ok_or_else(|| {
        let message = format!("/v1/explain may have ?api= and one of {}, and no other query", known());
        Refusal::new(Code::InvalidRequest, message)
    })
}

async fn decided(app: &App, head: Parts, body: Body) -> Result<Explanation, Refusal> {
    let started = Instant::now();
    let used = chat::in_use(app)?;
    let snapshot = &used.snapshot;
    let caller = admit::caller(app, snapshot, &head.headers)?;
    let (tree, _permit) = ask::arrived(app, &used, &caller, &head.headers, body).await?;
    let asked = asked(tree, named(&head)?)?;
    ask::model(snapshot, &caller, &asked)?;
    let now = app.clock.now_us();
    let session = sense::session(app, &head.headers, &caller);
    let known = Known {
        session: session.as_ref().and_then(|(session, told)| sense::earlier(app, session, told, now)),
        length: &|feature, prompt_tokens, most| app.next_length(feature, prompt_tokens, most),
        hop: &|budget| {
            session.as_ref().and_then(|(session, told)| app.chains.next(*session, budget, &told.chains, now))
        },
        elapsed_us: micros(started.elapsed()),
    };
    let (classified, signals, _) = sense::look(snapshot, &used.rules, &head.headers, &asked, &caller, &known)?;
    let id = session.as_ref().map(|(_, presented)| presented.id.as_str());
    let domain = sharing::domain(&caller.name, id, classified.class());
    let prefix = prefix::of_request(&app.prefix_secret, &snapshot.policy.uid, domain.as_deref(), &asked.request);
    let view = app.fleet.view(&used, app.spend.day(now), &prefix, now);
    let plan = terrace_decide::decide(&signals, &view, &snapshot.policy, app.random.draw());
    let explained = explain(&signals, &view, &snapshot.policy, &plan);
    Ok(Explanation { at_us: now, revision: snapshot.revision.clone(), ..explained })
}

fn was(app: &App, id: &str, request: &Request<Body>) -> Result<Explanation, Refusal> {
    let used = chat::in_use(app)?;
    let caller = admit::caller(app, &used.snapshot, request.headers())?;
    app.decisions.find(&caller.name, id).ok_or_else(|| {
        let most = app.decisions.most();
        let message = format!(
            "no decision with this id is known here: this router keeps its last {most} (--decisions), each for the key that \
             made the request; another replica, or this one before a restart, may have made it"
        );
        Refusal::new(Code::NotFound, message)
    })
}
