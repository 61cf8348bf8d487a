//! The engine: a loop on its own thread that owns the model. Requests come in over a bounded queue, each answer goes
//! out over a channel of its own; nothing else is shared but a few counters, so no caller ever waits for a lock that
//! the loop holds.
//!
//! ```text
//! EngineHandle::submit ──bounded queue──> run: admit, one step of all (chunks of prompts beside the next tokens of
//!                                         running answers), sample ──Event──> caller
//! ```
//!
//! A caller that drops its receiver has cancelled: the loop notices within one step, whose time is bounded. A loop that
//! no longer moves shows in [`EngineHandle::alive`], which is what liveness asks.
//!
//! Memory is a fixed number of blocks of 16 tokens ([`cache`]). Full blocks stay findable after their sequence has
//! ended, until the room is needed; a prompt that begins like an earlier one of the same [`CacheDomain`] takes them over.
//! When no block is left, the youngest sequence gives its own back and is computed again later: nothing is lost, and
//! since a row's numbers do not depend on what else is in a step, it says the same as if nothing had happened.

mod admit;
mod cache;
mod clock;
mod confidence;
mod event;
mod forecast;
mod handle;
mod lane;
mod plan;
mod queue;
mod rates;
mod request;
mod run;
mod sample;
mod sequence;
mod shared;
mod step;
mod stop;

pub use cache::CacheDomain;
pub use clock::Clock;
pub use event::{Done, Event, Failure, FinishReason, HiddenStates, Piece, Timings, TokenLogprob, Usage};
pub use handle::{EngineHandle, RequestId, StartError};
pub use request::{EngineConfig, GenerateRequest, Refused, Sampling};
pub use run::Engine;
pub use shared::EngineStats;
