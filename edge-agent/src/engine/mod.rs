//! The engine: a loop on its own thread that owns the model. Requests come in over a bounded queue, each answer goes
//! out over a channel of its own; nothing else is shared but a few counters, so no caller ever waits for a lock that
//! the loop holds.
//!
//! ```text
//! EngineHandle::submit ──bounded queue──> run: admit, prefill in chunks, decode as a batch, sample ──Event──> caller
//! ```
//!
//! A caller that drops its receiver has cancelled: the loop notices within one step (a prefill chunk or one decoded
//! token). A loop that no longer moves shows in [`EngineHandle::stalled_for`], which is what liveness asks.

mod confidence;
mod event;
mod handle;
mod request;
mod run;
mod sample;
mod sequence;
mod shared;
mod stop;

pub use event::{Done, Event, Failure, FinishReason, Piece, Timings, TokenLogprob, Usage};
pub use handle::{EngineHandle, RequestId, StartError};
pub use request::{EngineConfig, GenerateRequest, Refused, Sampling};
pub use run::Engine;
