//! A text completion.

use serde_json::Value;
use terrace_wire::completion::{CompletionRequest, OnePrompt};
use terrace_wire::error::{Code, ErrorBody};
use terrace_wire::pointer::Pointer;

use super::{Job, check_length, check_model, of, sampling};
use crate::engine::GenerateRequest;
use crate::server::Agent;
use crate::server::error::ApiError;

/// Tokens of an answer where the caller says nothing, as OpenAI's.
const DEFAULT_TOKENS: u32 = 16;

pub(super) fn read(agent: &Agent, body: Value) -> Result<Job, ApiError> {
    let root = Pointer::root();
    sampling::check_bias(&body, agent.engine.model().vocabulary)?;
    let request = CompletionRequest::from_value(body)?;
    check_model(agent, &request.params.model)?;
    let choices = request.params.n.unwrap_or(1);
    if request.best_of.is_some_and(|best| best != choices) {
        return Err(ErrorBody::unsupported(&root.key("best_of"), "every answer made is returned: make it n").into());
    }
    if request.echo && request.logprobs.is_some() {
        let what = "log-probabilities of an echoed prompt are not computed: leave one of the two out";
        return Err(ErrorBody::unsupported(&root.key("logprobs"), what).into());
    }
    let tokenizer = agent.engine.tokenizer();
    let (several, at) = (request.prompt.is_list(), root.key("prompt"));
    let (mut prompts, mut places) = (Vec::new(), Vec::new());
    let mut echo = request.echo.then(Vec::new);
    for (i, prompt) in request.prompt.each().into_iter().enumerate() {
        let at = if several { at.index(i) } else { at.clone() };
        places.push(at.clone());
        let tokens = match &prompt {
            OnePrompt::Text(text) => {
                check_length(agent, text.len(), &at)?;
                tokenizer.encode(text).map_err(|e| ErrorBody::about(Code::InvalidRequest, &at, e))?
            }
            OnePrompt::Tokens(ids) => {
                check_ids(ids, agent.engine.model().vocabulary, &at)?;
                ids.clone()
            }
        };
        if tokens.is_empty() {
            return Err(ErrorBody::invalid(&at, "is empty: give it some text to go on from").into());
        }
        if let Some(echo) = &mut echo {
            echo.push(match prompt {
                OnePrompt::Text(text) => text,
                OnePrompt::Tokens(ids) => tokenizer.decode(&ids),
            });
        }
        prompts.push(GenerateRequest {
            sampling: sampling::read(&request.params),
            stop: request.params.stop.strings(),
            top_logprobs: request.logprobs.map_or(0, |n| n as u8),
            ..GenerateRequest::new(tokens, request.params.max_tokens.unwrap_or(DEFAULT_TOKENS))
        });
    }
    Ok(Job { echo, logprobs: request.logprobs.map(|n| n as u8), ..of(&request.params, prompts, places) })
}

/// Whether a caller's token ids are in the vocabulary.
///
/// # Errors
/// 400 with the place.
fn check_ids(ids: &[u32], vocabulary: usize, at: &Pointer) -> Result<(), ErrorBody> {
    match ids.iter().position(|id| *id as usize >= vocabulary) {
        None => Ok(()),
        Some(i) => {
            Err(ErrorBody::invalid(&at.index(i), format!("the model's vocabulary has {vocabulary} tokens, from 0 on")))
        }
    }
}
