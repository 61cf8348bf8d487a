//! The last minute's requests and overflows, shared by all requests.

use std::sync::{Mutex, PoisonError};

use terrace_decide::OverflowWindow;
use terrace_decide::minute::Minute;

/// [`Minute`] behind a lock.
#[derive(Debug, Default)]
pub struct Window(Mutex<Minute>);

impl Window {
    /// Counts a request.
    pub fn request(&self, now_us: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).request(now_us);
    }

    /// One of the requests counted overflows.
    pub fn overflowed(&self, now_us: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).overflowed(now_us);
    }

    /// The last minute.
    pub fn now(&self, now_us: u64) -> OverflowWindow {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).window(now_us)
    }
}
