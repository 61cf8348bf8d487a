//! A router in this process, over real sockets, with tiers that follow a script.
#![allow(dead_code, unused_imports, reason = "each test file uses its own part")]

pub mod client;
pub mod fleet;
pub mod play;
pub mod process;
pub mod tier;

pub use client::{Reply, get, post, stream};
pub use fleet::World;
pub use tier::{Act, Scripted};

use std::time::{Duration, Instant};

/// Waits until something is so.
pub async fn until(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !so() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A chat request with one question.
pub fn question(text: &str) -> serde_json::Value {
    serde_json::json!({"model": "auto", "messages": [{"role": "user", "content": text}]})
}

/// The same, streamed.
pub fn streamed(text: &str) -> serde_json::Value {
    let mut body = question(text);
    body["stream"] = true.into();
    body
}
