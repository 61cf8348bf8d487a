//! Messages of a conversation, as a chat request has them and as an answer makes one.

use serde::{Deserialize, Serialize};

use crate::tools::ToolCall;

/// Roles that a message may have.
pub const ROLES: [&str; 6] = ["system", "developer", "user", "assistant", "tool", "function"];

/// One message of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// One of [`ROLES`].
    pub role: String,
    /// Text or parts.
    #[serde(default)]
    pub content: Content,
    /// Who speaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Calls of an assistant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<Vec<ToolCall>>,
    /// The call that a tool answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// What an assistant said instead of an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// What an assistant thought before it answered. Not OpenAI's; templates of thinking models read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
}

/// Text or parts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// null.
    #[default]
    Null,
    /// Plain text.
    Text(String),
    /// Parts, each with a `type`.
    Parts(Vec<Part>),
}

/// One part of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// `text`, `image_url`, …
    pub r#type: String,
    /// Text of a `text` part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Text of a `refusal` part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
}

impl Part {
    /// Its text; none if it is something else.
    pub fn text(&self) -> Option<&str> {
        match self.r#type.as_str() {
            "text" => self.text.as_deref(),
            "refusal" => self.refusal.as_deref(),
            _ => None,
        }
    }
}

impl Content {
    /// The text, parts joined by nothing.
    ///
    /// # Errors
    /// The index of the first part that is not text.
    pub fn text(&self) -> Result<String, usize> {
        match self {
            Content::Null => Ok(String::new()),
            Content::Text(t) => Ok(t.clone()),
            Content::Parts(parts) => parts.iter().enumerate().map(|(i, p)| p.text().ok_or(i)).collect(),
        }
    }
}

/// What an answer says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// `assistant`.
    pub role: String,
    /// The text; null beside tool calls.
    pub content: Option<String>,
    /// Tool calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<Vec<ToolCall>>,
    /// A refusal.
    #[serde(default)]
    pub refusal: Option<String>,
}
