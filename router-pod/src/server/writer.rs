//! Writes a streamed answer in the client's language, event by event.

use std::collections::VecDeque;

use bytes::Bytes;
use serde_json::json;
use terrace_wire::error::{Code, ErrorBody};
use terrace_wire::passing::Choice;
use terrace_wire::{messages, responses, sse};

use super::language::Language;
use crate::dispatch::body::Call;
use crate::dispatch::rebuild::{Names, Tokens};

/// Writes the events of one answer.
pub enum Writer {
    /// Chunks as OpenAI has them.
    OpenAi {
        /// Whether the client asked for the usage chunk.
        wants_usage: bool,
    },
    /// Anthropic's events.
    Messages(Box<messages::Stream>),
    /// Those of OpenAI's Responses.
    Responses(Box<responses::Stream>),
}

impl Writer {
    /// For an answer to a request in this language. `prompt_tokens` is an estimate.
    pub fn new(language: &Language, names: &Names, wants_usage: bool, prompt_tokens: u64) -> Self {
        match language {
            Language::OpenAi => Writer::OpenAi { wants_usage },
            Language::Messages { .. } => {
                Writer::Messages(Box::new(messages::Stream::new(&names.id, &names.model, prompt_tokens)))
            }
            Language::Responses { echo, .. } => {
                Writer::Responses(Box::new(responses::Stream::new(&names.id, names.created, &names.model, echo)))
            }
        }
    }

    /// The events of these choices.
    ///
    /// # Errors
    /// What about them cannot be told.
    pub fn chunk(&mut self, names: &Names, choices: &[Choice], out: &mut VecDeque<Bytes>) -> Result<(), &'static str> {
        match self {
            Writer::OpenAi { .. } => out.push_back(sse::json_event(&names.event(choices))),
            Writer::Messages(stream) => stream.chunk(choices, out)?,
            Writer::Responses(stream) => stream.chunk(choices, out)?,
        }
        Ok(())
    }

    /// The last choices of an answer that ended well, and what follows them.
    ///
    /// # Errors
    /// What about them cannot be told.
    pub fn end(
        &mut self,
        names: &Names,
        last: &[Choice],
        (tokens, cost): (Tokens, u64),
        out: &mut VecDeque<Bytes>,
    ) -> Result<(), &'static str> {
        match self {
            Writer::OpenAi { wants_usage } => {
                let mut chunk = names.chunk(last);
                chunk["terrace"] = json!({"costMicros": cost});
                out.push_back(sse::json_event(&chunk));
                if *wants_usage {
                    let mut usage = names.chunk(&[]);
                    usage["usage"] = json!(tokens.usage(names.call));
                    out.push_back(sse::json_event(&usage));
                }
                out.push_back(sse::done_event());
            }
            Writer::Messages(stream) => {
                stream.chunk(last, out)?;
                stream.end(&json!(tokens.usage(Call::Chat)), cost, out);
            }
            Writer::Responses(stream) => {
                stream.chunk(last, out)?;
                stream.end(&json!(tokens.usage(Call::Chat)), cost, out);
            }
        }
        Ok(())
    }

    /// What ends an answer that broke off while these choices were open.
    pub fn broken(&mut self, names: &Names, open: &[u64], (code, why): (Code, String), out: &mut VecDeque<Bytes>) {
        let error = ErrorBody::new(code, why);
        match self {
            Writer::OpenAi { .. } => {
                if !open.is_empty() {
                    let choices: Vec<Choice> = open.iter().map(|index| names.broken_choice(*index)).collect();
                    out.push_back(sse::json_event(&names.chunk(&choices)));
                }
                out.push_back(sse::json_event(&error));
            }
            Writer::Messages(stream) => stream.broken(code, &error, out),
            Writer::Responses(stream) => stream.broken(&error.error.message, out),
        }
    }
}
