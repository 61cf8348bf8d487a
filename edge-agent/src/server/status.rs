//! What this agent is and how busy: `/terrace/status` and `/v1/models`.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde::Serialize;
use terrace_contract::SCHEMA_VERSION;
use terrace_contract::status::AgentStatus;
use terrace_wire::error::Code;
use terrace_wire::models::{Model, ModelList};

use super::Agent;
use super::error::ApiError;

pub(super) fn json(value: &impl Serialize) -> Response {
    let bytes = serde_json::to_vec(value).unwrap_or_default();
    ([(header::CONTENT_TYPE, "application/json")], bytes).into_response()
}

pub(super) async fn status(State(agent): State<Arc<Agent>>) -> Response {
    json(&AgentStatus {
        schema_version: SCHEMA_VERSION,
        pod_uid: agent.pod_uid.clone(),
        node: agent.node.clone(),
        model: agent.model.clone(),
        device: agent.device.clone(),
        load: agent.engine.load(),
        draining: agent.engine.is_draining(),
    })
}

/// What load balancers ask of a model server: whether it takes requests.
pub(super) async fn health(State(agent): State<Arc<Agent>>) -> Response {
    if agent.engine.is_draining() { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK }.into_response()
}

pub(super) async fn models(State(agent): State<Arc<Agent>>) -> Response {
    json(&ModelList::of(vec![entry(&agent)]))
}

pub(super) async fn model(State(agent): State<Arc<Agent>>, Path(name): Path<String>) -> Result<Response, ApiError> {
    if name == agent.model.name {
        Ok(json(&entry(&agent)))
    } else {
        Err(ApiError::new(Code::ModelNotFound, format!("this agent serves only the model {:?}", agent.model.name)))
    }
}

fn entry(agent: &Agent) -> Model {
    Model {
        id: agent.model.name.clone(),
        object: "model".into(),
        created: agent.created,
        owned_by: "terrace".into(),
        context_length: Some(agent.model.context_tokens),
        digest: Some(agent.model.digest.clone()),
    }
}
