//! The decision core: one pure function, [`decide`], with four callers: the router, `terrace explain`,
//! `terrace simulate` and the tests.
//!
//! Pure: no clock, no randomness, no I/O, no async runtime. Time comes in with the [`FleetView`], randomness as a
//! number. The order is always the same, a module a step:
//!
//! | step | module | |
//! | --- | --- | --- |
//! | constrain | [`constrain`] | what the class, the model's name, the request's needs and the tier's state rule out |
//! | ability | [`ability`] | who can do it at all: first among preferences, since a wrong answer is not cheap |
//! | predict | [`predict`], [`select`] | first token and finish per tier: its best device's forecast, or the endpoint's |
//! | score | [`score`] | weighted quality, latency, cost, privacy, availability over what is left |
//! | plan | [`planner`] | ordered attempts with reasons |
//! | (explain) | [`explain`] | the same in words, for who asks why |
//!
//! Constraints are never weighed against preferences: a tier that [`constrain`] ruled out is not in what the later
//! steps are given.
#![deny(clippy::disallowed_types)]

pub mod ability;
pub mod affinity;
pub mod breaker;
pub mod bucket;
pub mod chain;
pub mod complexity;
pub mod constrain;
pub mod correction;
pub mod endpoint;
pub mod explain;
pub mod fit;
pub mod hedge;
pub mod minute;
pub mod output;
pub mod plan;
pub mod planner;
pub mod predict;
pub mod queue;
pub mod retry;
pub mod room;
mod rung;
pub mod score;
pub mod select;
pub mod signals;
pub mod track;
pub mod view;

pub use chain::Hop;
pub use plan::{Attempt, DeviceRef, Forecast, Outcome, Plan, Refusal, Room, RuledOut, Scored, TierRef};
pub use planner::{decide, decide_by};
pub use signals::{Deadline, ModelChoice, Prefer, Signals};
pub use view::{
    BreakerState, DeviceFacts, DeviceView, EndpointView, FleetView, Freshness, OverflowWindow, Rates, Serving, TierView,
};
