//! `terrace up` as a program.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod hangup;
mod missing;
mod restarts;
mod support;
mod traces;
