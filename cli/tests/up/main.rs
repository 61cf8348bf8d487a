//! `terrace up` as a program.

mod support;
mod traces;
