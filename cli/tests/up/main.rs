//! `terrace up` as a program.

mod missing;
mod restarts;
mod support;
mod traces;
