//! The answer as a client gets it: built new from what the tier said, member by member.
//!
//! Ids, model names, fingerprints and whatever else an upstream adds do not pass.

use serde::{Deserialize as _, Serialize, Serializer};
use serde_json::{Value, json};
use terrace_contract::load::Load;
use terrace_wire::json::member;
use terrace_wire::passing::{self, Choice, Part};

use super::body::Call;
use super::vectors::Vectors;
use crate::sense::tokens;

/// Who answers, as the client sees it.
#[derive(Debug, Clone)]
pub struct Names {
    /// `chatcmpl-…`, made from the request's id.
    pub id: String,
    /// Seconds since the Unix epoch.
    pub created: u64,
    /// The tier's model.
    pub model: String,
    /// The call.
    pub call: Call,
    /// What was asked of embeddings.
    pub vectors: Vectors,
}

/// Tokens that an upstream counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Prompt tokens.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Prompt tokens that were cached.
    pub cached: u64,
}

impl Tokens {
    /// Reads a `usage` member; none if it is not one.
    pub fn read(usage: Option<&Value>) -> Option<Self> {
        let usage = usage?;
        let count = |name: &str| member(usage, name).and_then(Value::as_u64);
        let cached =
            member(usage, "prompt_tokens_details").and_then(|details| member(details, "cached_tokens")?.as_u64());
        Some(Self { input: count("prompt_tokens")?, output: count("completion_tokens")?, cached: cached.unwrap_or(0) })
    }

    /// Reads the `usage` of embeddings, which have no output.
    pub fn of_vectors(usage: Option<&Value>) -> Option<Self> {
        let input = member(usage?, "prompt_tokens").and_then(Value::as_u64)?;
        Some(Self { input, output: 0, cached: 0 })
    }

    /// As the client sees it.
    pub fn usage(self, call: Call) -> Usage {
        let cached = (self.cached > 0).then_some(Cached { cached_tokens: self.cached });
        match call {
            Call::Embedding => Usage {
                prompt_tokens: self.input,
                completion_tokens: None,
                total_tokens: self.input,
                prompt_tokens_details: None,
            },
            Call::Chat | Call::Completion => Usage {
                prompt_tokens: self.input,
                completion_tokens: Some(self.output),
                total_tokens: self.input.saturating_add(self.output),
                prompt_tokens_details: cached,
            },
        }
    }
}

/// The `usage` member of an answer.
#[derive(Debug, Serialize)]
#[allow(missing_docs, reason = "their names are OpenAI's")]
pub struct Usage {
    pub prompt_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_tokens: Option<u64>,
    pub total_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_tokens_details: Option<Cached>,
}

/// Of the prompt's tokens.
#[derive(Debug, Serialize)]
pub struct Cached {
    /// Those that need not be computed.
    pub cached_tokens: u64,
}

/// What a whole answer says, rebuilt.
pub enum Content {
    /// Of chat and text completions.
    Choices(Vec<Choice>),
    /// Of embeddings.
    Vectors(Vec<Value>),
}

impl Content {
    /// Its tokens, where a tier did not count them: an estimate.
    pub fn tokens(&self) -> u64 {
        match self {
            Content::Choices(choices) => choices.iter().flat_map(Choice::texts).map(tokens::of_text).sum(),
            Content::Vectors(_) => 0,
        }
    }
}

impl Names {
    fn object(&self, stream: bool) -> &'static str {
        match (self.call, stream) {
            (Call::Chat, true) => "chat.completion.chunk",
            (Call::Chat, false) => "chat.completion",
            (Call::Completion, _) => "text_completion",
            (Call::Embedding, _) => "list",
        }
    }

    /// What a whole answer says, taken out of it; none if it is not one.
    pub fn whole(&self, said: &mut passing::Event) -> Option<Content> {
        if self.call == Call::Embedding {
            return self.vectors.of_answer(said.data.take()?).map(Content::Vectors);
        }
        let choices = said.choices.take().filter(|choices| !choices.is_empty())?;
        choices.into_iter().map(|c| self.choice(c, false)).collect::<Option<_>>().map(Content::Choices)
    }

    /// A whole answer, to be written as it is.
    pub fn answer<'a>(&'a self, content: &'a Content, tokens: Tokens) -> impl Serialize + use<'a> {
        #[derive(Serialize)]
        struct Whole<'a> {
            #[serde(skip_serializing_if = "Option::is_none")]
            id: Option<Id<'a>>,
            object: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            created: Option<u64>,
            model: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            choices: Option<&'a [Choice]>,
            #[serde(skip_serializing_if = "Option::is_none")]
            data: Option<&'a [Value]>,
            usage: Usage,
        }
        let (choices, data) = match content {
            Content::Choices(choices) => (Some(choices.as_slice()), None),
            Content::Vectors(vectors) => (None, Some(vectors.as_slice())),
        };
        Whole {
            id: choices.map(|_| Id(self)),
            object: self.object(false),
            created: choices.map(|_| self.created),
            model: &self.model,
            choices,
            data,
            usage: tokens.usage(self.call),
        }
    }

    /// One event of a stream with these choices, already rebuilt.
    pub fn chunk(&self, choices: &[Choice]) -> Value {
        json!(self.event(choices))
    }

    /// The same, to be written as it is.
    pub fn event<'a>(&'a self, choices: &'a [Choice]) -> impl Serialize + use<'a> {
        #[derive(Serialize)]
        struct Event<'a> {
            id: Id<'a>,
            object: &'static str,
            created: u64,
            model: &'a str,
            choices: &'a [Choice],
        }
        let (object, created, model) = (self.object(true), self.created, self.model.as_str());
        Event { id: Id(self), object, created, model, choices }
    }

    /// The choices of one upstream event; none if they are not those of this call.
    pub fn choices(&self, choices: Option<Vec<Choice>>) -> Option<Vec<Choice>> {
        choices?.into_iter().map(|c| self.choice(c, true)).collect()
    }

    /// What of a choice belongs to this call.
    fn choice(&self, choice: Choice, stream: bool) -> Option<Choice> {
        let (mut delta, mut message, mut text) = (None, None, None);
        match (self.call, stream) {
            (Call::Chat, true) => delta = Some(choice.delta?),
            (Call::Chat, false) => message = Some(choice.message?),
            (Call::Completion, _) => text = Some(choice.text?),
            (Call::Embedding, _) => return None,
        }
        Some(Choice { delta, message, text, ..choice })
    }

    /// What ends a choice of an answer that broke off.
    pub fn broken_choice(&self, index: u64) -> Choice {
        let broken = Choice::broken(index);
        match self.call {
            Call::Chat => Choice { delta: Some(Part::default()), ..broken },
            Call::Completion | Call::Embedding => Choice { text: Some(String::new()), ..broken },
        }
    }
}

/// Roles that a tier told in events of their own: clients wait for them in the first one that they get.
pub fn with_roles(first: &mut Vec<Choice>, earlier: Vec<Choice>) {
    for told in earlier {
        let Some(role) = told.delta.and_then(|part| part.role) else { continue };
        match first.iter_mut().find(|choice| choice.index == told.index) {
            Some(choice) => {
                choice.delta.get_or_insert_default().role.get_or_insert(role);
            }
            None => {
                let delta = Some(Part { role: Some(role), ..Part::default() });
                first.push(Choice { index: told.index, delta, ..Choice::default() });
            }
        }
    }
}

/// An answer's id.
struct Id<'a>(&'a Names);

impl std::fmt::Display for Id<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let prefix = if self.0.call == Call::Chat { "chatcmpl" } else { "cmpl" };
        write!(f, "{prefix}-{}", self.0.id)
    }
}

impl Serialize for Id<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The load line in what an agent says beside an answer, or beside an event of one.
pub fn load_of(terrace: Option<&Value>) -> Option<Load> {
    terrace?.get("load").and_then(|load| Load::deserialize(load).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        Names { id: "r1".into(), created: 7, model: "small".into(), call: Call::Chat, vectors: Vectors::default() }
    }

    fn read(upstream: &Value) -> Option<passing::Event> {
        passing::Event::deserialize(upstream).ok()
    }

    #[test]
    fn only_listed_members_pass() {
        let upstream = json!({
            "id": "upstream-id", "model": "secret-model", "system_fingerprint": "fp", "service_tier": "x",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi", "audio": {"id": 1}},
                "finish_reason": "stop", "stop_reason": 128001}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 99, "cost": 5}});
        let mut said = read(&upstream).unwrap();
        let tokens = Tokens::read(said.usage.as_ref()).unwrap();
        let content = names().whole(&mut said).unwrap();
        let whole = json!(names().answer(&content, tokens));
        let want = json!({
            "id": "chatcmpl-r1", "object": "chat.completion", "created": 7, "model": "small",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "logprobs": null,
                "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}});
        assert_eq!(whole, want);
    }

    #[test]
    fn what_is_no_answer_is_none() {
        for upstream in
            [json!({}), json!({"choices": []}), json!({"choices": [{}]}), json!({"choices": [{"message": 7}]})]
        {
            assert!(read(&upstream).is_none_or(|mut said| names().whole(&mut said).is_none()), "{upstream}");
        }
    }
}
