//! The answer as a client gets it: built new from what the tier said, member by member.
//!
//! Ids, model names, fingerprints and whatever else an upstream adds do not pass.

use serde::{Deserialize as _, Serialize, Serializer};
use serde_json::{Map, Value, json};
use terrace_contract::load::Load;
use terrace_wire::passing::{Choice, Part};

use super::body::Call;
use super::vectors::Vectors;

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
        let count = |pointer: &str| usage.pointer(pointer).and_then(Value::as_u64);
        Some(Self {
            input: count("/prompt_tokens")?,
            output: count("/completion_tokens")?,
            cached: count("/prompt_tokens_details/cached_tokens").unwrap_or(0),
        })
    }

    /// Reads the `usage` of embeddings, which have no output.
    pub fn of_vectors(usage: Option<&Value>) -> Option<Self> {
        let input = usage?.get("prompt_tokens").and_then(Value::as_u64)?;
        Some(Self { input, output: 0, cached: 0 })
    }

    /// As the client sees it.
    pub fn to_value(self, call: Call) -> Value {
        if call == Call::Embedding {
            return json!({"prompt_tokens": self.input, "total_tokens": self.input});
        }
        let mut usage = json!({
            "prompt_tokens": self.input,
            "completion_tokens": self.output,
            "total_tokens": self.input + self.output,
        });
        if self.cached > 0 {
            usage["prompt_tokens_details"] = json!({"cached_tokens": self.cached});
        }
        usage
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

    /// The head of an answer.
    fn head(&self, stream: bool) -> Map<String, Value> {
        let mut head = Map::new();
        head.insert("id".into(), Id(self).to_string().into());
        head.insert("object".into(), self.object(stream).into());
        head.insert("created".into(), self.created.into());
        head.insert("model".into(), self.model.clone().into());
        head
    }

    /// A whole answer without its usage; none if it is not one.
    pub fn whole(&self, answer: &Value) -> Option<Value> {
        if self.call == Call::Embedding {
            let data = self.vectors.of_answer(answer)?;
            return Some(json!({"object": "list", "data": data, "model": self.model}));
        }
        let choices = Vec::<Choice>::deserialize(answer.get("choices")?).ok().filter(|c| !c.is_empty())?;
        let choices: Option<Vec<Value>> = choices.into_iter().map(|c| Some(json!(self.choice(c, false)?))).collect();
        let mut whole = self.head(false);
        whole.insert("choices".into(), Value::Array(choices?));
        Some(Value::Object(whole))
    }

    /// One event of a stream with these choices, already rebuilt.
    pub fn chunk(&self, choices: &[Choice]) -> Value {
        let mut chunk = self.head(true);
        chunk.insert("choices".into(), json!(choices));
        Value::Object(chunk)
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

    #[test]
    fn only_listed_members_pass() {
        let upstream = json!({
            "id": "upstream-id", "model": "secret-model", "system_fingerprint": "fp", "service_tier": "x",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi", "audio": {"id": 1}},
                "finish_reason": "stop", "stop_reason": 128001}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 99, "cost": 5}});
        let tokens = Tokens::read(upstream.get("usage")).unwrap();
        let mut whole = names().whole(&upstream).unwrap();
        whole["usage"] = tokens.to_value(Call::Chat);
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
            assert_eq!(names().whole(&upstream), None, "{upstream}");
        }
    }
}
