//! The engine on each device: a small quantized model behind the OpenAI wire.
