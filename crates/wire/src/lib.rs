//! The OpenAI wire, for router and agent alike: strict JSON, requests, responses, server-sent events, error bodies.
//!
//! The router works on the parsed tree ([`json::parse`]) because it builds the upstream request anew, field by field;
//! the agent reads a typed request ([`chat::ChatRequest`]). Both write the same responses and errors.

pub mod chat;
pub mod completion;
pub mod embedding;
pub mod error;
pub mod hidden;
pub mod json;
pub mod models;
pub mod pointer;
pub mod sse;
pub mod stop;
pub mod vector;
