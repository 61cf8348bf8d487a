//! `terrace up` as a program.

mod hangup;
mod missing;
mod restarts;
mod support;
mod traces;
