//! The fuzz targets, and the writer of GGUF files that they and the agent's tests use.

pub mod targets;
#[path = "../../edge-agent/tests/support/tiny.rs"]
pub mod tiny;
