//! `POST /v1/completions`: text in, text out.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::answer::Answer;
use crate::error::ErrorBody;
use crate::logprobs::TextLogprobs;
use crate::params::{Params, null_is_default};

/// A text completion request.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct CompletionRequest {
    /// What both requests have.
    #[serde(skip)]
    pub params: Params,
    /// What to go on from.
    pub prompt: Prompt,
    /// Whether each choice begins with its prompt.
    #[serde(default, deserialize_with = "null_is_default")]
    pub echo: bool,
    /// Log-probabilities, with this many alternatives at each place.
    #[serde(default)]
    pub logprobs: Option<u32>,
    /// Answers computed at the server, of which the best `n` are returned.
    #[serde(default)]
    pub best_of: Option<u32>,
    /// What comes after the answer.
    #[serde(default)]
    pub suffix: Option<String>,
}

/// One text or several, or their tokens.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Prompt {
    /// One.
    Text(String),
    /// One in tokens.
    Tokens(Vec<u32>),
    /// Several.
    Texts(Vec<String>),
    /// Several in tokens.
    TokenLists(Vec<Vec<u32>>),
}

/// One of a request's prompts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OnePrompt {
    /// As text.
    Text(String),
    /// As tokens.
    Tokens(Vec<u32>),
}

impl Prompt {
    /// The prompts one by one.
    pub fn each(self) -> Vec<OnePrompt> {
        match self {
            Prompt::Text(text) => vec![OnePrompt::Text(text)],
            Prompt::Tokens(ids) => vec![OnePrompt::Tokens(ids)],
            Prompt::Texts(texts) => texts.into_iter().map(OnePrompt::Text).collect(),
            Prompt::TokenLists(lists) => lists.into_iter().map(OnePrompt::Tokens).collect(),
        }
    }

    /// Whether there are several, however many.
    pub fn is_list(&self) -> bool {
        matches!(self, Prompt::Texts(_) | Prompt::TokenLists(_))
    }
}

impl CompletionRequest {
    /// Reads a parsed body.
    ///
    /// # Errors
    /// The error body to send: 400 with the field by JSON pointer.
    pub fn from_value(value: Value) -> Result<Self, ErrorBody> {
        crate::shape::check_completion(&value)?;
        let unreadable = |_| crate::shape::unreadable("completions");
        let params = Params::deserialize(&value).map_err(unreadable)?;
        let request: Self = serde_json::from_value(value).map_err(unreadable)?;
        Ok(Self { params, ..request })
    }
}

/// A whole answer, or one event of a stream.
pub type Completion = Answer<CompletionChoice>;

/// One answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CompletionChoice {
    /// Its index.
    pub index: u32,
    /// The text, or its new part.
    pub text: String,
    /// Log-probabilities, if asked for.
    #[serde(default)]
    pub logprobs: Option<TextLogprobs>,
    /// `stop` or `length`.
    pub finish_reason: Option<String>,
}
