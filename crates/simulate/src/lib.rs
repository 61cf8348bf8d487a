//! A fleet in a discrete-event simulation, decided by [`terrace_decide::decide`] itself: what `terrace simulate` runs.
//!
//! What is true of a device (its speed, its queue, its prefix cache) is in [`engine`], and the routers ([`router`])
//! never see it: they know what load reports say, how old those are, and what they sent themselves. Plans are carried
//! out ([`attempts`]) as `router-pod/src/dispatch` does: refusals, retries, patience, deadlines.
//!
//! Pure: the seed is the only randomness, the agenda the only clock. One seed, one world and one trace give one result.
#![deny(clippy::disallowed_types)]

mod attempts;
pub mod engine;
mod event;
pub mod fleet;
pub mod outcome;
mod prefix;
pub mod random;
pub mod report;
mod request;
mod router;
mod run;
pub mod trace;
pub mod world;

pub use outcome::Outcome;
pub use run::{Options, run};
pub use world::World;
