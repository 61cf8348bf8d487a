//! The router over real sockets. One program for all of them: it links once.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod beside;
mod canary;
mod closed;
mod errors;
mod failover;
mod fields;
mod operator;
mod process;
mod scars;
mod serving;
mod snapshots;
mod support;
