//! The APIs that clients speak. Whatever a client speaks, its request becomes one of the calls that a tier answers, and
//! only that is sensed, cleared, decided on and sent; the answer is told in the client's language again.

use serde::Serialize;
use serde_json::Value;
use terrace_wire::error::ErrorBody;
use terrace_wire::pointer::Pointer;
use terrace_wire::responses::Echo;
use terrace_wire::translated::Translated;
use terrace_wire::{messages, responses, shape};

use crate::dispatch::body::Call;

/// What a client may ask, by its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    /// `/v1/chat/completions`
    Chat,
    /// `/v1/completions`
    Completion,
    /// `/v1/embeddings`
    Embedding,
    /// `/v1/messages`: Anthropic's.
    Messages,
    /// `/v1/responses`: OpenAI's newer one, without its memory.
    Responses,
}

/// A request as it was asked.
pub struct Asked {
    /// The call that answers it.
    pub call: Call,
    /// That call's tree, its shape checked.
    pub request: Value,
    /// In which language.
    pub language: Language,
}

/// The language of a request, with what of it the answer needs.
pub enum Language {
    /// That of the call itself.
    OpenAi,
    /// Anthropic's Messages, translated.
    Messages {
        /// Where each message of the call comes from.
        origins: Vec<Pointer>,
    },
    /// OpenAI's Responses, translated.
    Responses {
        /// Where each message of the call comes from.
        origins: Vec<Pointer>,
        /// What of the request comes back in the answer.
        echo: Box<Echo>,
    },
}

impl Api {
    /// Every one.
    pub const ALL: [Api; 5] = [Api::Chat, Api::Completion, Api::Embedding, Api::Messages, Api::Responses];

    /// Its name where it is asked for by name.
    pub fn name(self) -> &'static str {
        match self {
            Api::Chat => "chat",
            Api::Completion => "completions",
            Api::Embedding => "embeddings",
            Api::Messages => "messages",
            Api::Responses => "responses",
        }
    }

    /// What a request is by its members, where no path says it. Several APIs have `messages` or `input`: then a member
    /// that only the translated one has decides.
    pub fn of(tree: &Value) -> Api {
        let has = |names: &[&str]| names.iter().any(|name| tree.get(name).is_some());
        match (tree.get("messages"), tree.get("prompt"), tree.get("input")) {
            (Some(_), _, _) if has(&["system", "stop_sequences", "thinking"]) => Api::Messages,
            (None, Some(_), _) => Api::Completion,
            (None, None, Some(input)) => {
                let items = input.as_array().is_some_and(|items| items.iter().any(Value::is_object));
                let own = ["instructions", "max_output_tokens", "reasoning", "stream", "temperature", "text", "tools"];
                if items || has(&own) { Api::Responses } else { Api::Embedding }
            }
            _ => Api::Chat,
        }
    }

    /// The call that answers it.
    pub fn call(self) -> Call {
        match self {
            Api::Chat | Api::Messages | Api::Responses => Call::Chat,
            Api::Completion => Call::Completion,
            Api::Embedding => Call::Embedding,
        }
    }

    /// Reads a parsed body.
    ///
    /// # Errors
    /// 400 with the place in the client's own request.
    pub fn read(self, tree: Value) -> Result<Asked, ErrorBody> {
        let (request, language) = match self {
            Api::Messages => {
                let Translated { chat, origins } = messages::to_chat(&tree)?;
                (chat, Language::Messages { origins })
            }
            Api::Responses => {
                let (Translated { chat, origins }, echo) = responses::to_chat(&tree)?;
                (chat, Language::Responses { origins, echo: Box::new(echo) })
            }
            Api::Chat | Api::Completion | Api::Embedding => (tree, Language::OpenAi),
        };
        let call = self.call();
        match call {
            Call::Chat => shape::check_chat(&request),
            Call::Completion => shape::check_completion(&request),
            Call::Embedding => shape::check_embedding(&request),
        }?;
        Ok(Asked { call, request, language })
    }
}

impl Language {
    /// Where in the client's own request a place of the call comes from.
    pub fn origin(&self, place: &Pointer) -> Pointer {
        match self {
            Language::OpenAi => place.clone(),
            Language::Messages { origins } | Language::Responses { origins, .. } => Translated::origin(origins, place),
        }
    }

    /// A whole answer in the client's language, as JSON; none if it cannot be told in it.
    pub fn whole(&self, answer: &impl Serialize, id: &str) -> Option<Vec<u8>> {
        let told = match self {
            Language::OpenAi => return serde_json::to_vec(answer).ok(),
            Language::Messages { .. } => messages::answer(&serde_json::to_value(answer).ok()?, id)?,
            Language::Responses { echo, .. } => responses::answer(&serde_json::to_value(answer).ok()?, id, echo)?,
        };
        serde_json::to_vec(&told).ok()
    }
}
