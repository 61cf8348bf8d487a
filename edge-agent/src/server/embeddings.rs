//! `POST /v1/embeddings`: the hidden states of each input, pooled to one vector of length 1.
//!
//! Inputs go to the engine as prompts without an answer, as many at once as sequences may run, so that one step reads the
//! weights for several of them and chats that come meanwhile take their turn. The first fault drops what is left, and so
//! does a client that goes away.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::response::Response;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use serde_json::Value;
use terrace_contract::cost::Cost;
use terrace_telemetry::time::micros;
use terrace_wire::answer::Terrace;
use terrace_wire::embedding::{
    Embedding, EmbeddingList, EmbeddingRequest, EmbeddingUsage, Encoding, Input, Pooling as Asked, Vector,
};
use terrace_wire::error::Code;
use terrace_wire::pointer::Pointer;
use tracing::Instrument as _;

use super::access;
use super::error::ApiError;
use super::request::{self, Wishes};
use super::watch::Watch;
use super::{Agent, body, status};
use crate::engine::{CacheDomain, Done, Event, Failure, GenerateRequest, HiddenStates, Refused, Usage};
use crate::model::{Pooled, Pooling};

/// Tokens of one request at most, as OpenAI's.
const MOST_TOKENS: usize = 300_000;

/// The handler.
pub(super) async fn embeddings(State(agent): State<Arc<Agent>>, request: Request) -> Response {
    let watch = Watch::begin(agent.clone(), "embeddings", request.headers());
    let span = watch.span.clone();
    Box::pin(embed(agent, request, watch)).instrument(span).await
}

async fn embed(agent: Arc<Agent>, request: Request, mut watch: Watch) -> Response {
    let (head, body) = request.into_parts();
    let made = async {
        let body = body::read(&head.headers, body).await?;
        let Wishes { deadline, confidence, .. } = Wishes::read(&head.extensions, &head.headers, watch.arrived)?;
        let job = read(&agent, body).await?;
        let (encoding, began) = (job.encoding, Instant::now());
        let cache = access::cache_domain(&head.extensions, &head.headers);
        let vectors = vectors(&agent, job, deadline, cache).await?;
        Ok::<_, ApiError>((vectors, encoding, confidence, began.elapsed()))
    };
    match made.await {
        Ok((vectors, encoding, confidence, took)) => {
            let (usage, cost) = totals(&vectors, took);
            watch.queued(Duration::from_micros(cost.queue_us));
            watch.answered(usage, &[]);
            let terrace =
                confidence.then(|| Terrace { cost: Some(cost), load: Some(agent.engine.load()), ..Terrace::default() });
            status::json(&list(&agent, vectors, encoding, usage, terrace))
        }
        Err(error) => watch.refuse(error),
    }
}

/// What to embed, and how.
struct Job {
    inputs: Vec<Vec<u32>>,
    pooled: Pooled,
    encoding: Encoding,
}

/// Reads the body and makes its tokens.
async fn read(agent: &Arc<Agent>, body: Value) -> Result<Job, ApiError> {
    let agent = agent.clone();
    request::apart(move || {
        let request = EmbeddingRequest::from_value(body)?;
        request::check_model(&agent, &request.model)?;
        let pooled = pooled(&agent, request.pooling)?;
        check_dimensions(&agent, request.dimensions)?;
        let (mut inputs, mut total) = (Vec::new(), 0);
        for (index, input) in request.inputs.iter().enumerate() {
            let tokens = tokens(&agent, input, &request.place(index))?;
            total += tokens.len();
            if total > MOST_TOKENS {
                let message = format!("/input: has more than {MOST_TOKENS} tokens: send the rest in another request");
                return Err(ApiError::new(Code::RequestTooLarge, message).at(&Pointer::root().key("input")));
            }
            inputs.push(tokens);
        }
        Ok(Job { inputs, pooled, encoding: request.encoding })
    })
    .await
}

fn pooled(agent: &Agent, asked: Option<Asked>) -> Result<Pooled, ApiError> {
    match asked {
        Some(Asked::Mean) => Ok(Pooled::Mean),
        Some(Asked::Last) => Ok(Pooled::Last),
        None => agent.engine.model().pooled.ok_or_else(|| {
            let at = Pointer::root().key("pooling");
            let what = "the model's file asks for a pooling that this agent does not have: give mean or last";
            ApiError::new(Code::UnsupportedFeature, format!("{at}: {what}")).at(&at)
        }),
    }
}

/// Only models that were trained for it (Kusupati et al. 2022, Matryoshka) keep their meaning in their first numbers, and
/// no key of a file says whether one was: a vector that was cut would be worse without anyone noticing.
fn check_dimensions(agent: &Agent, asked: Option<u32>) -> Result<(), ApiError> {
    let width = agent.engine.model().width;
    if asked.is_none_or(|asked| asked as usize == width) {
        return Ok(());
    }
    let at = Pointer::root().key("dimensions");
    let what =
        format!("this model's vectors have {width} numbers and cannot be shortened: ask for {width}, or leave it out");
    Err(ApiError::new(Code::UnsupportedFeature, format!("{at}: {what}")).at(&at))
}

fn tokens(agent: &Agent, input: &Input, at: &Pointer) -> Result<Vec<u32>, ApiError> {
    let invalid = |at: &Pointer, what: String| ApiError::new(Code::InvalidRequest, format!("{at}: {what}")).at(at);
    let model = agent.engine.model();
    let tokens = match input {
        Input::Text(text) => {
            request::check_length(agent, text.len(), at)?;
            agent.engine.tokenizer().encode_document(text).map_err(|e| invalid(at, e.to_string()))?
        }
        Input::Tokens(ids) => {
            if let Some(index) = ids.iter().position(|&id| id as usize >= model.vocabulary) {
                let what = format!("is no token id of this model, which has {}", model.vocabulary);
                return Err(invalid(&at.index(index), what));
            }
            ids.clone()
        }
    };
    if tokens.is_empty() {
        return Err(invalid(at, "has no tokens: give it some text".into()));
    }
    let (count, limit) = (tokens.len(), model.context_tokens as usize);
    if count > limit {
        let message = format!("{at}: has {count} tokens, the context is {limit}: cut the text into parts");
        return Err(ApiError::new(Code::ContextTooLong, message).at(at));
    }
    Ok(tokens)
}

/// One input's vector, and what it took.
struct Made {
    vector: Vec<f32>,
    done: Done,
}

/// The vectors of all inputs, in their order.
async fn vectors(
    agent: &Agent,
    job: Job,
    deadline: Option<Instant>,
    cache: CacheDomain,
) -> Result<Vec<Made>, ApiError> {
    let Job { inputs, pooled, .. } = job;
    // Each input is weighed by itself when it is its turn: all of them together are here. What of them is in the cache
    // already is not known yet, and a mean takes nothing from there.
    if let (Some(deadline), Pooled::Mean) = (deadline, pooled) {
        agent.engine.weigh(inputs.iter().map(Vec::len).sum(), deadline)?;
    }
    let hidden = match pooled {
        Pooled::Mean => Pooling::MeanAndLast,
        Pooled::Last => Pooling::Last,
    };
    let one = |(index, tokens): (usize, Vec<u32>)| {
        let request =
            GenerateRequest { hidden: Some(hidden), deadline, cache: cache.clone(), ..GenerateRequest::new(tokens, 0) };
        one(agent, index, request, pooled)
    };
    let at_once = agent.engine.load().slots.max(1) as usize;
    stream::iter(inputs.into_iter().enumerate().map(one)).buffered(at_once).try_collect().await
}

async fn one(agent: &Agent, index: usize, request: GenerateRequest, pooled: Pooled) -> Result<Made, ApiError> {
    let mut events = loop {
        match agent.engine.submit(request.clone()) {
            Ok((_, events)) => break events,
            // What is done so far is not thrown away because others are busy as well.
            Err(Refused::QueueFull { retry_after, .. }) if index > 0 => tokio::time::sleep(retry_after).await,
            Err(refused) => return Err(refused.into()),
        }
    };
    let damaged = || ApiError::new(Code::Internal, "the model produced no usable numbers: the file may be damaged");
    let mut vector = None;
    loop {
        match events.recv().await.unwrap_or(Event::Failed(Failure::Stopped)) {
            Event::Started { .. } | Event::Piece(_) => {}
            Event::Hidden(states) => vector = unit(states, pooled),
            Event::Done(done) => return vector.map(|vector| Made { vector, done }).ok_or_else(damaged),
            Event::Failed(failure) => return Err(failure.into()),
        }
    }
}

/// A vector of length 1; none if it has no direction.
fn unit(states: HiddenStates, pooled: Pooled) -> Option<Vec<f32>> {
    let mut vector = match pooled {
        Pooled::Mean => states.mean?,
        Pooled::Last => states.last,
    };
    let length = vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt();
    if !length.is_finite() || length <= 0.0 {
        return None;
    }
    vector.iter_mut().for_each(|x| *x = (f64::from(*x) / length) as f32);
    Some(vector)
}

/// Tokens and cost of a whole request that took so long from its first input's submission on.
fn totals(vectors: &[Made], took: Duration) -> (Usage, Cost) {
    let mut usage = Usage::default();
    let mut cost = Cost::default();
    for made in vectors {
        usage.prompt += made.done.usage.prompt;
        usage.cached += made.done.usage.cached;
        cost = cost.beside(made.done.timings.cost(made.done.usage));
    }
    let queue = vectors.first().map(|first| first.done.timings.queue).unwrap_or_default();
    (usage, Cost { queue_us: micros(queue), prefill_us: micros(took.saturating_sub(queue)), decode_us: 0, ..cost })
}

fn list(
    agent: &Agent,
    vectors: Vec<Made>,
    encoding: Encoding,
    usage: Usage,
    terrace: Option<Terrace>,
) -> EmbeddingList {
    let entry = |(index, made): (usize, Made)| Embedding {
        object: "embedding".into(),
        index: index as u32,
        embedding: Vector::of(made.vector, encoding),
    };
    EmbeddingList {
        object: "list".into(),
        data: vectors.into_iter().enumerate().map(entry).collect(),
        model: agent.model.name.clone(),
        usage: EmbeddingUsage { prompt_tokens: usage.prompt, total_tokens: usage.prompt },
        terrace,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_have_length_one_or_there_is_none() {
        let states = |mean: Option<Vec<f32>>, last: Vec<f32>| HiddenStates { mean, last };
        assert_eq!(unit(states(Some(vec![3.0, -4.0]), vec![1.0, 0.0]), Pooled::Mean), Some(vec![0.6, -0.8]));
        assert_eq!(unit(states(None, vec![0.0, 2e30]), Pooled::Last), Some(vec![0.0, 1.0]));
        for broken in [vec![0.0, 0.0], vec![f32::NAN, 1.0], vec![f32::INFINITY, 1.0]] {
            assert_eq!(unit(states(Some(broken.clone()), broken), Pooled::Mean), None);
        }
        assert_eq!(unit(states(None, vec![1.0]), Pooled::Mean), None);
    }
}
