//! Reports of routers: taken by any replica, folded by the one that writes, read by the status of every kind.

mod fold;
mod serve;
mod window;

pub use fold::{Fold, MINUTE_US, RouterView, SILENT_AFTER_US, TierView, View};
pub use serve::{Reports, routes};
pub use window::{Fate, Latencies, Use, Window};
