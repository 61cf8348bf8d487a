//! What the commands print. Standard output that was closed (`| head -1`) ends a command quietly; on standard error
//! nothing fails.

use std::io::{ErrorKind, Write as _};

use anyhow::{Context, Result};

/// Whoever read standard output wants no more.
#[derive(Debug)]
pub struct Closed;

impl std::fmt::Display for Closed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the output was closed")
    }
}

impl std::error::Error for Closed {}

/// Prints, at once.
///
/// # Errors
/// [`Closed`], or what the system says of the output.
pub fn text(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(Closed.into()),
        written => written.context("cannot write to standard output"),
    }
}

/// Prints a line.
///
/// # Errors
/// As [`text`].
pub fn line(line: impl std::fmt::Display) -> Result<()> {
    text(&format!("{line}\n"))
}

/// Says something on standard error, if someone still listens.
pub fn note(line: impl std::fmt::Display) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}
