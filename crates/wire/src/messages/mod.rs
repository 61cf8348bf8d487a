//! Anthropic's Messages API, `POST /v1/messages`, translated into a chat completion and its answer back.
//!
//! All of it is pure: trees in, trees and events out. What has no counterpart is 400 with its place, and nothing that
//! would change an answer is dropped.

mod answer;
mod content;
mod error;
mod request;
mod stream;

pub use answer::answer;
pub use error::error;
pub use request::to_chat;
pub use stream::{Stream, UNORDERED};
