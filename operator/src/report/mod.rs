//! Reports of routers: taken by any replica, folded by the one that writes, read by the status of every kind.

mod fold;
mod serve;
mod window;

pub use fold::{Fold, RouterView, SILENT_AFTER_US, TierView, View};
pub use serve::{Reports, routes};
pub use window::{Fate, Latencies, Use, Window};

/// Now, in microseconds since the Unix epoch.
pub fn now_us() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |d| u64::try_from(d.as_micros()).unwrap_or(u64::MAX))
}
