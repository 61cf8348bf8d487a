//! The paged KV cache from the engine's side: which block belongs to whom, and which full ones can be found again.
//! The numbers themselves lie in the network.

mod key;
mod pool;
mod table;

pub use key::CacheDomain;
pub(super) use key::{Key, Salt};
pub(super) use pool::Pool;
pub(super) use table::Table;

#[cfg(test)]
mod tests;
