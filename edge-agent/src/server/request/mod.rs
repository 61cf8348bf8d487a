//! From OpenAI's request to the engine's.

mod chat;
mod sampling;
mod text;

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Extensions, HeaderMap};
use serde_json::Value;
use terrace_contract::headers;
use terrace_contract::names::AUTO_MODEL;
use terrace_wire::error::{Code, ErrorBody};
use terrace_wire::params::Params;
use terrace_wire::pointer::Pointer;
use tokio::sync::Semaphore;

use super::access::Role;
use super::error::ApiError;
use super::tools::reader::CallReader;
use super::{Agent, fields, hidden};
use crate::engine::{Failure, GenerateRequest, Refused};

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wire {
    /// `/v1/chat/completions`
    Chat,
    /// `/v1/completions`
    Text,
}

impl Wire {
    /// `gen_ai.operation.name`.
    pub(super) fn operation(self) -> &'static str {
        match self {
            Wire::Chat => "chat",
            Wire::Text => "text_completion",
        }
    }
}

/// What to answer, and how.
pub(super) struct Job {
    pub(super) stream: bool,
    pub(super) include_usage: bool,
    /// Whether confidence, cost and load go with the answer.
    pub(super) confidence: bool,
    /// Hidden states that go with it.
    pub(super) hidden: Option<hidden::Asked>,
    /// One for each prompt.
    pub(super) prompts: Vec<GenerateRequest>,
    /// Choices of each prompt.
    pub(super) choices: u32,
    /// Alternatives a token; none: no log-probabilities.
    pub(super) logprobs: Option<u8>,
    /// What each choice of a prompt begins with, for each prompt; none: with its own text.
    pub(super) echo: Option<Vec<String>>,
    /// What reads calls in an answer.
    pub(super) calls: Option<Calls>,
    /// Where each prompt stands in the request.
    pub(super) places: Vec<Pointer>,
    /// Where what the answer has to keep to stands in the request; none: it need not.
    pub(super) kept: Option<Pointer>,
}

impl Job {
    /// What the engine says of a prompt as the caller's error, with the place of what is at fault.
    pub(super) fn refused(&self, prompt: usize, refused: Refused) -> ApiError {
        let of_prompt = matches!(refused, Refused::ContextTooLong { .. } | Refused::EmptyPrompt);
        let error = ApiError::from(refused);
        match self.places.get(prompt).filter(|_| of_prompt) {
            Some(at) => error.at(at),
            None => error,
        }
    }

    /// Likewise, of an answer.
    pub(super) fn failed(&self, failure: Failure) -> ApiError {
        let of_grammar = matches!(failure, Failure::Grammar { .. });
        let error = ApiError::from(failure);
        match self.kept.as_ref().filter(|_| of_grammar) {
            Some(at) => error.at(at),
            None => error,
        }
    }
}

/// How calls in an answer are read.
#[derive(Clone)]
pub(super) struct Calls {
    pub(super) format: super::tools::format::Format,
    pub(super) names: Vec<String>,
    /// Whether the answer has to be calls.
    pub(super) required: bool,
}

impl Calls {
    pub(super) fn reader(&self) -> CallReader {
        CallReader::new(self.format, self.names.clone(), self.required)
    }
}

/// What a router may say in headers; nothing of it counts from anyone else.
pub(super) struct Wishes {
    pub(super) deadline: Option<Instant>,
    pub(super) confidence: bool,
    hidden: Option<hidden::Asked>,
}

impl Wishes {
    pub(super) fn read(extensions: &Extensions, headers: &HeaderMap, arrived: Instant) -> Result<Self, ApiError> {
        // Set by the guard; without it a request counts for nothing more than a local one.
        let role = extensions.get::<Role>().copied().unwrap_or(Role::Local);
        if role != Role::Router {
            return Ok(Self { deadline: None, confidence: false, hidden: None });
        }
        let text = |name: &str| headers.get(name).map(|v| v.to_str().unwrap_or_default());
        let deadline = match text(headers::DEADLINE_MS).map(str::parse::<u32>) {
            None => None,
            Some(Ok(millis)) => Some(arrived + Duration::from_millis(u64::from(millis))),
            Some(Err(_)) => {
                let message = format!("{} must be whole milliseconds", headers::DEADLINE_MS);
                return Err(ApiError::new(Code::InvalidRequest, message));
            }
        };
        let hidden = text(headers::HIDDEN).map(hidden::Asked::read).transpose()?;
        Ok(Self { deadline, confidence: text(headers::CONFIDENCE) == Some("1"), hidden })
    }
}

/// Requests that are read at once, at most: each may take many times its own size.
static READERS: Semaphore = Semaphore::const_new(4);

/// Does what takes milliseconds, which other streams should not wait for, on a thread of its own.
///
/// # Errors
/// Those of `read`; 500 if it panicked.
pub(super) async fn apart<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let span = tracing::Span::current();
    let unread = |_| ApiError::new(Code::Internal, "the request could not be read");
    let reader = READERS.acquire().await.map_err(|_| ApiError::new(Code::Internal, "nothing is read any more"))?;
    let read = move || {
        // Held by the thread: a client that leaves does not stop it.
        let _reader = reader;
        span.in_scope(read)
    };
    tokio::task::spawn_blocking(read).await.map_err(unread)?
}

/// Reads a completion's body and makes its prompts and its grammar.
pub(super) async fn job(agent: &Arc<Agent>, wire: Wire, wishes: Wishes, body: Value) -> Result<Job, ApiError> {
    let agent = agent.clone();
    apart(move || {
        fields::check(wire, &body)?;
        let mut job = match wire {
            Wire::Chat => chat::read(&agent, body)?,
            Wire::Text => text::read(&agent, body)?,
        };
        check_places(&agent, &job)?;
        job.prompts.iter_mut().for_each(|prompt| prompt.deadline = wishes.deadline);
        if let Some(asked) = wishes.hidden {
            let [prompt] = job.prompts.as_mut_slice() else {
                let message = format!("{} goes with one prompt: send each by itself", headers::HIDDEN);
                return Err(ApiError::new(Code::InvalidRequest, message));
            };
            prompt.hidden = Some(asked.pooling());
        }
        (job.confidence, job.hidden) = (wishes.confidence, wishes.hidden);
        Ok(job)
    })
    .await
}

/// Whether this agent serves what is asked for.
///
/// # Errors
/// 404 with the name that it has.
pub(super) fn check_model(agent: &Agent, asked: &str) -> Result<(), ApiError> {
    if asked == agent.model.name || asked == AUTO_MODEL {
        return Ok(());
    }
    let message = format!("this agent serves only the model {:?}", agent.model.name);
    Err(ApiError::new(Code::ModelNotFound, message).at(&Pointer::root().key("model")))
}

/// Whether a text of so many bytes may fit the context: to cut up one that cannot would take seconds and a hundred times its size.
///
/// # Errors
/// 422 with its place and the tokens that it has at least.
pub(in crate::server) fn check_length(agent: &Agent, bytes: usize, at: &Pointer) -> Result<(), ApiError> {
    let (least, limit) = (agent.engine.tokenizer().tokens_at_least(bytes), agent.model.context_tokens as usize);
    if least <= limit {
        return Ok(());
    }
    let message = format!("the text has more than {least} tokens, the context is {limit}: shorten it");
    Err(ApiError::new(Code::ContextTooLong, message).at(at))
}

/// Whether all of a request's choices can ever be in the engine together.
///
/// # Errors
/// 400 with the field that asks for too many.
fn check_places(agent: &Agent, job: &Job) -> Result<(), ErrorBody> {
    let (prompts, limit) = (job.prompts.len() as u64, u64::from(agent.engine.places()));
    let asked = prompts * u64::from(job.choices);
    if asked <= limit {
        return Ok(());
    }
    let field = if u64::from(job.choices) > limit { "n" } else { "prompt" };
    let what = format!("{asked} answers were asked for, this device takes at most {limit} at once: ask for fewer");
    Err(ErrorBody::invalid(&Pointer::root().key(field), what))
}

/// A job of these prompts, which stand at these places, with what both requests have.
fn of(params: &Params, prompts: Vec<GenerateRequest>, places: Vec<Pointer>) -> Job {
    Job {
        stream: params.stream,
        include_usage: params.stream_options.is_some_and(|o| o.include_usage),
        confidence: false,
        hidden: None,
        prompts,
        choices: params.n.unwrap_or(1),
        logprobs: None,
        echo: None,
        calls: None,
        places,
        kept: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The caller was not told which of several prompts is too long, nor whose schema takes too much.
    #[test]
    fn what_the_engine_refuses_has_its_place() {
        let root = Pointer::root();
        let places = vec![root.key("prompt").index(0), root.key("prompt").index(1)];
        let schema = root.key("response_format").key("json_schema").key("schema");
        let job = Job { kept: Some(schema), ..of(&Params::default(), Vec::new(), places) };
        let said = |error: ApiError| (error.code, error.body.error.param);
        let long = Refused::ContextTooLong { tokens: 9, limit: 8 };
        assert_eq!(said(job.refused(1, long)), (Code::ContextTooLong, Some("/prompt/1".into())));
        assert_eq!(said(job.refused(0, Refused::EmptyPrompt)), (Code::InvalidRequest, Some("/prompt/0".into())));
        let full = Refused::QueueFull { limit: 1, retry_after: Duration::ZERO };
        assert_eq!(said(job.refused(0, full)), (Code::RateLimited, None));
        let (code, place) = said(job.failed(Failure::Grammar { position: 3 }));
        assert_eq!((code, place.as_deref()), (Code::UnsupportedFeature, Some("/response_format/json_schema/schema")));
        assert_eq!(said(job.failed(Failure::Stopped)), (Code::Draining, None));
    }
}
