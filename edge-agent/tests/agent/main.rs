//! The real program with the real model over real sockets, asked as routers, SDKs and probes ask.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod answers;
#[path = "../support/cached.rs"]
mod cached;
mod calls;
mod cut;
mod embeddings;
mod gateway;
mod hidden;
mod identity;
mod lifecycle;
mod load;
mod memory;
#[path = "../support/reference.rs"]
mod reference;
mod refusals;
mod sdk;
mod support;
#[path = "../support/tiny.rs"]
mod tiny;
