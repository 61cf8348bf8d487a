//! Questions through the openai Python package (`e2e/clients/ask.py`), as users ask them.

use std::collections::BTreeMap;

use anyhow::Context;
use serde::Deserialize;

/// What the SDK made of an answer.
#[derive(Debug, Clone, Deserialize)]
#[serde(default)]
#[derive(Default)]
pub struct Answer {
    /// Whether the SDK gave an answer.
    pub ok: bool,
    /// Its text.
    pub text: String,
    /// Pieces of text that came one by one.
    pub chunks: u32,
    /// Why it ended.
    pub finish: Option<String>,
    /// The model that it names.
    pub model: Option<String>,
    /// Tokens.
    pub usage: Option<Usage>,
    /// Status of an error.
    pub status: u16,
    /// Code of an error.
    pub code: Option<String>,
    /// Message of an error.
    pub message: Option<String>,
    /// Terrace's headers.
    pub headers: BTreeMap<String, String>,
}

/// Tokens of an answer.
#[derive(Debug, Clone, Deserialize)]
pub struct Usage {
    /// Of the prompt.
    pub prompt_tokens: u32,
    /// Of the answer.
    pub completion_tokens: u32,
}

impl Answer {
    /// One of Terrace's headers.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// The tier that answered.
    pub fn tier(&self) -> &str {
        self.header(terrace_contract::headers::TIER)
    }

    /// The trace's id.
    pub fn trace(&self) -> anyhow::Result<&str> {
        self.header("traceparent")
            .split('-')
            .nth(1)
            .filter(|id| id.len() == 32)
            .context("the answer has no traceparent")
    }

    /// An error unless it is an answer of `tier` with some text.
    pub fn from(&self, tier: &str) -> anyhow::Result<&Self> {
        anyhow::ensure!(
            self.ok && !self.text.trim().is_empty() && self.tier() == tier,
            "wanted an answer of tier {tier}, got {self:?}"
        );
        Ok(self)
    }

    /// An error unless it is a refusal with this status and code.
    pub fn refused(&self, status: u16, code: &str) -> anyhow::Result<&Self> {
        anyhow::ensure!(
            !self.ok && self.status == status && self.code.as_deref() == Some(code),
            "wanted {status} {code}, got {self:?}"
        );
        Ok(self)
    }
}

/// A question, as arguments of `ask.py`.
#[derive(Clone, Default)]
pub struct Question {
    arguments: Vec<String>,
    prompt: String,
}

impl Question {
    /// This prompt, at an OpenAI base URL.
    pub fn new(base_url: &str, prompt: &str) -> Question {
        Question { arguments: vec!["--base-url".into(), base_url.into()], prompt: prompt.into() }
    }

    /// With an option of `ask.py`.
    pub fn with(mut self, option: &str, value: &str) -> Question {
        self.arguments.extend([option.to_owned(), value.to_owned()]);
        self
    }

    /// With a header.
    pub fn header(self, name: &str, value: &str) -> Question {
        self.with("--header", &format!("{name}={value}"))
    }

    /// As a stream.
    pub fn streamed(mut self) -> Question {
        self.arguments.push("--stream".into());
        self
    }

    /// The words of its command line, after the interpreter.
    pub fn words(&self, script: &str) -> Vec<String> {
        let mut words = vec![script.to_owned()];
        words.extend(self.arguments.iter().cloned());
        words.push(self.prompt.clone());
        words
    }
}

/// Reads what `ask.py` printed.
pub fn answers(printed: &str) -> anyhow::Result<Vec<Answer>> {
    printed.lines().map(|line| serde_json::from_str(line).with_context(|| format!("ask.py printed {line}"))).collect()
}

/// Text that no other request carries.
pub fn nonce() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_nanos());
    format!("n{now:x}")
}
