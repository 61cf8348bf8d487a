//! `terrace up` as a program.

mod missing;
mod support;
mod traces;
