//! The agent's HTTP side: OpenAI's wire and its own status, over one router for all listeners.
//!
//! Who calls decides what may be called ([`access`]); what is called becomes requests of the engine
//! ([`request`], [`fields`], [`tools`]), whose events become choices of one answer, whole or streamed ([`generate`],
//! [`choice`], [`answer`]), or vectors ([`embeddings`]).

mod access;
mod answer;
mod body;
mod choice;
mod embeddings;
mod error;
mod fields;
mod generate;
mod hidden;
mod meters;
mod request;
mod status;
mod tools;
mod vllm;
mod watch;

use std::sync::Arc;

use axum::routing::{get, post};
use axum::{Extension, Router, middleware};
use http::HeaderMap;
use terrace_contract::status::{DeviceStatus, ModelStatus};
use terrace_telemetry::{Metrics, admin};

use crate::engine::EngineHandle;
use crate::grammar::Grammars;

pub use meters::Meters;

/// What the handlers share.
pub struct Agent {
    /// The way to the engine.
    pub engine: EngineHandle,
    /// What keeps answers to schemas and calls.
    pub grammars: Grammars,
    /// What it runs.
    pub model: ModelStatus,
    /// On what.
    pub device: DeviceStatus,
    /// UID of the pod; empty outside a cluster.
    pub pod_uid: String,
    /// The node.
    pub node: String,
    /// When the model was loaded, seconds since the Unix epoch.
    pub created: u64,
    /// Metrics.
    pub meters: Meters,
}

/// All routes for routers, the operator, and SDKs on the machine itself.
pub fn router(agent: Arc<Agent>) -> Router {
    let routes = wire().route("/terrace/status", get(status::status));
    guarded(routes, agent)
}

/// The routes of `--gateway-listen`: the wire, and what endpoint pickers and load balancers ask of a model server.
pub fn gateway(agent: Arc<Agent>, metrics: Metrics) -> Router {
    let shown = agent.clone();
    let exposed = move |given: HeaderMap| {
        // A picker asks many times a second and decides by what it reads: it gets the load of this moment.
        shown.meters.observe(&shown.engine.load(), shown.engine.stats(), None);
        let metrics = metrics.clone();
        async move { admin::exposed(&metrics, &given) }
    };
    let routes = wire().route("/health", get(status::health)).route("/metrics", get(exposed));
    guarded(routes, agent).layer(Extension(access::Gateway))
}

fn wire() -> Router<Arc<Agent>> {
    Router::new()
        .route("/v1/chat/completions", post(generate::chat))
        .route("/v1/completions", post(generate::completions))
        .route("/v1/embeddings", post(embeddings::embeddings))
        .route("/v1/models", get(status::models))
        .route("/v1/models/{name}", get(status::model))
}

fn guarded(routes: Router<Arc<Agent>>, agent: Arc<Agent>) -> Router {
    routes
        .fallback(error::no_such_path)
        .method_not_allowed_fallback(error::no_such_method)
        .layer(middleware::from_fn_with_state(agent.clone(), access::guard))
        .with_state(agent)
}
