//! Downloads over real sockets: whole, cut, wrong, missing, too big, killed, and several at once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod agent;
mod disk;
mod killed;
mod lies;
mod node;
mod resume;
mod server;
mod sources;
#[path = "../support/tiny.rs"]
mod tiny;
