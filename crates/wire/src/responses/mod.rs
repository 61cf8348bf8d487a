//! OpenAI's Responses API, `POST /v1/responses`, without its memory: translated into a chat completion and its answer
//! back.
//!
//! Nothing is kept between requests, so whatever names an earlier answer is 400 and says to send the conversation. All of
//! it is pure: trees in, trees and events out.

mod answer;
mod items;
mod request;
mod stream;

pub use answer::answer;
pub use request::{Echo, to_chat};
pub use stream::Stream;
