//! GGUF files: weights by memory map, metadata, and what the metadata makes: tokenizer and chat template.
//!
//! A file comes from outside, so nothing in it is believed: each length is held against what is left of the file
//! before anything is allocated, each tensor's place and size against the file's end. What does not fit is refused with
//! the name of the key or tensor; no input makes the reader panic.

mod byte_pairs;
mod control;
mod dequant;
mod detokenize;
mod error;
mod file;
mod finder;
mod ggml_type;
mod pretokenize;
mod prompt;
mod reader;
mod sentence;
mod template;
mod tokenizer;
mod value;
mod vocabulary;

pub use dequant::dequantize;
pub use detokenize::Detokenizer;
pub use error::GgufError;
pub use file::{Gguf, Tensor};
pub use ggml_type::GgmlType;
pub use prompt::Prompt;
pub use template::{ChatTemplate, TemplateError};
pub use tokenizer::{EncodeError, Tokenizer};
pub use value::{Array, Metadata, Value};
