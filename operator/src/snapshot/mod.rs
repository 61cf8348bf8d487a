//! Snapshots: the compiled policy joined with the live devices of its tiers, signed, published to whoever follows.
//!
//! Every replica makes them by itself from what its watches see. The revision is a digest of the compiled kinds, so
//! replicas agree on it.

mod devices;
mod hub;
mod publish;
mod serve;

pub use devices::{of as devices_of, ready};
pub use hub::{Hub, Key, Published};
pub use publish::{Publisher, mounted};
pub use serve::routes;
