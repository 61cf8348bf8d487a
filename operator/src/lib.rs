//! The operator: watches the kinds, applies children, serves snapshots, folds reports into status.
//!
//! | room | what |
//! | --- | --- |
//! | [`run`], [`settings`] | start, wiring, end |
//! | [`wiring`], [`watch`], [`kinds`], [`world`], [`triggers`] | what is known of the cluster, and what a change concerns |
//! | [`controller`], [`context`], [`outcome`] | one pass over one object |
//! | [`tier`], [`policy`], [`budget`] | dereference, validate, build, apply, status of each kind |
//! | [`apply`], [`children`], [`labels`] | server-side apply; what children have in common |
//! | [`snapshot`] | compiled kinds joined with live devices, signed and streamed to routers |
//! | [`report`], [`agents`] | what routers and agents say, folded |
//! | [`pki`], [`credentials`] | the fleet's authority and leaves; which Secret may go to which host |
//! | [`lease`] | who writes |
//! | [`status`], [`conditions`], [`figures`], [`events`], [`problem`] | how things are said |

pub mod agents;
pub mod apply;
pub mod budget;
pub mod children;
pub mod conditions;
pub mod context;
pub mod controller;
pub mod credentials;
pub mod events;
pub mod figures;
pub mod kinds;
pub mod labels;
pub mod lease;
pub mod metrics;
pub mod outcome;
pub mod pki;
pub mod policy;
pub mod probe;
pub mod problem;
pub mod report;
pub mod run;
pub mod settings;
pub mod snapshot;
pub mod status;
pub mod tier;
pub mod triggers;
pub mod watch;
pub mod wiring;
pub mod world;
