//! The OpenAI wire, for router and agent alike: strict JSON, requests, responses, server-sent events, error bodies.
//!
//! The router works on the parsed tree ([`json::parse`]) because it builds the upstream request anew, field by field;
//! the agent reads a typed request ([`chat::ChatRequest`]). Both write the same responses and errors. [`shape`] says
//! what either requires of a tree before it looks further.

pub mod answer;
pub mod chat;
pub mod completion;
pub mod embedding;
pub mod error;
pub mod format;
pub mod hidden;
pub mod json;
pub mod logprobs;
pub mod members;
pub mod message;
pub mod messages;
pub mod models;
pub mod params;
pub mod passing;
pub mod pointer;
pub mod responses;
pub mod shape;
pub mod sse;
pub mod stop;
pub mod tools;
pub mod translated;
pub mod turns;
pub mod vector;
