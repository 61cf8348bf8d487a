//! `POST /v1/embeddings`: the prompt's hidden states, pooled and of length 1.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use serde_json::Value;
use terrace_wire::completion::OnePrompt;
use terrace_wire::embedding::{Embedding, EmbeddingList, EmbeddingRequest, EmbeddingUsage, Encoding, Vector};
use terrace_wire::error::{Code, ErrorBody};
use terrace_wire::pointer::Pointer;
use tracing::Instrument as _;

use super::access::Role;
use super::error::ApiError;
use super::request::{self, Wire, Wishes};
use super::watch::Watch;
use super::{Agent, body, fields, status};
use crate::engine::{Event, Failure, GenerateRequest, HiddenStates, Refused, Usage};
use crate::model::Pooling;

/// The handler.
pub(super) async fn embeddings(State(agent): State<Arc<Agent>>, request: Request) -> Response {
    let watch = Watch::begin(agent.clone(), Wire::Embedding, request.headers());
    let span = watch.span.clone();
    embed(agent, request, watch).instrument(span).await
}

async fn embed(agent: Arc<Agent>, request: Request, mut watch: Watch) -> Response {
    let (head, body) = request.into_parts();
    let role = head.extensions.get::<Role>().copied().unwrap_or(Role::Local);
    let made = async {
        let body = body::read(&head.headers, body).await?;
        let wishes = Wishes::read(role, &head.headers, watch.arrived)?;
        let asked = read(&agent, body).await?;
        vectors(&agent, asked, wishes.deadline).await
    };
    match made.await {
        Ok(list) => {
            watch.answered(Usage { prompt: list.usage.prompt_tokens, ..Usage::default() }, &[]);
            status::json(&list)
        }
        Err(error) => watch.refuse(error),
    }
}

struct Asked {
    inputs: Vec<Vec<u32>>,
    encoding: Encoding,
    dimensions: Option<u32>,
}

async fn read(agent: &Arc<Agent>, body: Value) -> Result<Asked, ApiError> {
    let agent = agent.clone();
    let read = move || {
        fields::check(Wire::Embedding, &body)?;
        let request = EmbeddingRequest::from_value(body)?;
        request::check_model(&agent, &request.model)?;
        let (several, at) = (request.input.is_list(), Pointer::root().key("input"));
        let mut inputs = Vec::new();
        for (i, input) in request.input.each().into_iter().enumerate() {
            let at = if several { at.index(i) } else { at.clone() };
            let tokens = match input {
                OnePrompt::Text(text) => agent.engine.tokenizer().encode_document(&text),
                OnePrompt::Tokens(ids) => {
                    request::check_ids(&ids, agent.engine.model().vocabulary, &at)?;
                    Ok(ids)
                }
            };
            let tokens = tokens.map_err(|e| ErrorBody::invalid(&at, e))?;
            if tokens.is_empty() {
                return Err(ErrorBody::invalid(&at, "has no tokens: give it some text").into());
            }
            inputs.push(tokens);
        }
        let encoding = request.encoding_format.unwrap_or_default();
        Ok(Asked { inputs, encoding, dimensions: request.dimensions })
    };
    let unread = |_| ApiError::new(Code::Internal, "the request could not be read");
    tokio::task::spawn_blocking(read).await.map_err(unread)?
}

async fn vectors(agent: &Arc<Agent>, asked: Asked, deadline: Option<Instant>) -> Result<EmbeddingList, ApiError> {
    let Asked { inputs, encoding, dimensions } = asked;
    let tokens = inputs.iter().map(Vec::len).sum::<usize>() as u32;
    let at_once = agent.engine.load().slots.max(1) as usize;
    let each = inputs.into_iter().enumerate().map(|(index, input)| one(agent, index, input, deadline));
    let vectors: Vec<Vec<f32>> = stream::iter(each).buffered(at_once).try_collect().await?;
    if let (Some(asked), Some(vector)) = (dimensions, vectors.first())
        && asked as usize != vector.len()
    {
        let at = Pointer::root().key("dimensions");
        let what = format!("the model's vectors have {} numbers and cannot be shortened", vector.len());
        return Err(ErrorBody::unsupported(&at, what).into());
    }
    let write = |vector: Vec<f32>| match encoding {
        Encoding::Float => Vector::Float(vector),
        Encoding::Base64 => {
            let bytes: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
            Vector::Base64(STANDARD.encode(bytes))
        }
    };
    let entry = |(index, vector)| Embedding { object: "embedding".into(), index: index as u32, embedding: write(vector) };
    Ok(EmbeddingList {
        object: "list".into(),
        data: vectors.into_iter().enumerate().map(entry).collect(),
        model: agent.model.name.clone(),
        usage: EmbeddingUsage { prompt_tokens: tokens, total_tokens: tokens },
    })
}

async fn one(
    agent: &Agent,
    index: usize,
    tokens: Vec<u32>,
    deadline: Option<Instant>,
) -> Result<Vec<f32>, ApiError> {
    let hidden = Some(match agent.pooling {
        super::Pooled::Mean => Pooling::MeanAndLast,
        super::Pooled::Last => Pooling::Last,
    });
    let request = GenerateRequest { hidden, deadline, ..GenerateRequest::new(tokens, 0) };
    let mut events = loop {
        match agent.engine.submit(request.clone()) {
            Ok((_, events)) => break events,
            // What is done so far is not thrown away because others are busy as well.
            Err(Refused::QueueFull { retry_after, .. }) if index > 0 => tokio::time::sleep(retry_after).await,
            Err(refused) => return Err(refused.into()),
        }
    };
    loop {
        match events.recv().await.unwrap_or(Event::Failed(Failure::Stopped)) {
            Event::Hidden(states) => return unit(states, agent.pooling).ok_or_else(no_direction),
            Event::Failed(failure) => return Err(failure.into()),
            Event::Done(_) => return Err(no_direction()),
            Event::Started { .. } | Event::Piece(_) => {}
        }
    }
}

fn no_direction() -> ApiError {
    ApiError::new(Code::Internal, "the model made no vector of an input: the file may be damaged")
}

/// A vector of length 1; none if it has no direction.
fn unit(states: HiddenStates, pooled: super::Pooled) -> Option<Vec<f32>> {
    let mut vector = match pooled {
        super::Pooled::Mean => states.mean?,
        super::Pooled::Last => states.last,
    };
    let length = vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt();
    if !length.is_finite() || length <= 0.0 {
        return None;
    }
    vector.iter_mut().for_each(|x| *x = (f64::from(*x) / length) as f32);
    Some(vector)
}
