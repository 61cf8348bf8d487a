//! The engine on each device: a small quantized model behind the OpenAI wire.

pub mod device;
pub mod engine;
pub mod gguf;
pub mod kernels;
pub mod model;
