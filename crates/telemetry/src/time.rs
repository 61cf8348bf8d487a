//! The wall clock as documents and spans write it.

use std::time::{Duration, SystemTime};

/// Microseconds since the Unix epoch, now. A clock before the epoch says 0.
pub fn now_us() -> u64 {
    since_epoch_us(SystemTime::now())
}

/// Seconds since the Unix epoch, now: what OpenAI's wire calls `created`.
pub fn now_s() -> u64 {
    now_us() / 1_000_000
}

/// Microseconds since the Unix epoch; 0 before it.
pub fn since_epoch_us(at: SystemTime) -> u64 {
    micros(at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
}

/// A duration in whole microseconds; what is too long is the longest there is.
pub fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
