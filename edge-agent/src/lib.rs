//! The engine on each device: a small quantized model behind the OpenAI wire.

pub mod args;
pub mod device;
pub mod engine;
pub mod gguf;
pub mod grammar;
pub mod kernels;
pub mod model;
pub mod pull;
pub mod server;

mod failure;
mod least;
mod run;

pub use failure::Failure;
pub use run::run;
