//! The router over real sockets. One program for all of them: it links once.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod beside;
mod budgets;
mod canary;
mod chains;
mod closed;
mod cost;
mod embeddings;
mod errors;
mod explain;
mod failover;
mod fields;
mod hedge;
mod messages;
mod operator;
mod process;
mod queue;
mod responses;
mod scars;
mod sdk;
mod serving;
mod snapshots;
mod spending;
mod streams;
mod support;
mod traces;
mod traffic;
