//! The router: Terrace's data plane. A request's way through it:
//!
//! | room | what |
//! | --- | --- |
//! | [`server`] | the OpenAI wire: parse once, limits, authentication, events, errors |
//! | [`sense`] | what is this request? tokens, class, needs, feature and budget |
//! | [`fleet`] | what is out there now? snapshot, devices, endpoints, their load and speed |
//! | `terrace_decide` | signals, fleet and policy in, a plan out |
//! | [`dispatch`] | carries a plan out: cleared bodies only; attempts, deadlines, connections |
//! | [`ledger`] | what became of it: counts, latencies, cost; makes the report |
//!
//! [`queue`] is where requests wait that find every tier full, [`job`] is a request on its way, [`record`] what became of it,
//! [`refusal`] why it got no answer, [`trace`] its spans, [`decisions`] what was decided of the last ones. [`outside`] is what a
//! router has from outside: sockets, time, randomness; [`state`] how it writes to its own volume.

pub mod app;
pub mod args;
pub mod clock;
pub mod decisions;
pub mod dispatch;
pub mod egress;
pub mod fleet;
pub mod job;
pub mod ledger;
pub mod metrics;
pub mod outside;
pub mod queue;
pub mod random;
pub mod record;
pub mod refusal;
pub mod run;
pub mod sense;
pub mod server;
pub mod state;
pub mod trace;
