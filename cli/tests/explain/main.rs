//! `terrace explain` as a program: from manifests, and against a router.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod manifests;
mod running;

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A file or folder of the examples.
pub fn example(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name).display().to_string()
}

/// `terrace explain` with these arguments and this on its standard input.
pub fn explain(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_terrace"))
        .arg("explain")
        .args(arguments)
        // Whoever runs the tests may have a router of his own.
        .env_remove("TERRACE_URL")
        .env_remove("TERRACE_API_KEY")
        .env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // One that ends before it reads has closed its end.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

/// What it printed; it must have gone well.
pub fn explained(arguments: &[&str], input: &str) -> String {
    let output = explain(arguments, input);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Why it failed: one line.
pub fn refused(arguments: &[&str], input: &str) -> String {
    let output = explain(arguments, input);
    assert!(!output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stdout));
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

/// A chat request with one question.
pub fn question(text: &str) -> String {
    serde_json::json!({"model": "auto", "messages": [{"role": "user", "content": text}]}).to_string()
}
