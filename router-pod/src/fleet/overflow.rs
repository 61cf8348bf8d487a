//! How many requests of the last minute overflowed: what `overflow.maxPercent` caps.

use std::sync::{Mutex, PoisonError};

use terrace_decide::OverflowWindow;

const SECONDS: usize = 60;

/// A ring of one-second counts.
#[derive(Debug)]
pub struct Window(Mutex<[(u64, u32, u32); SECONDS]>);

impl Default for Window {
    fn default() -> Self {
        Self(Mutex::new([(0, 0, 0); SECONDS]))
    }
}

impl Window {
    /// Counts a request.
    pub fn request(&self, now_us: u64) {
        self.count(1, 0, now_us);
    }

    /// One of the requests counted overflows.
    pub fn overflowed(&self, now_us: u64) {
        self.count(0, 1, now_us);
    }

    fn count(&self, requests: u32, overflowed: u32, now_us: u64) {
        let second = now_us / 1_000_000;
        let mut ring = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = &mut ring[(second % SECONDS as u64) as usize];
        if slot.0 != second {
            *slot = (second, 0, 0);
        }
        slot.1 = slot.1.saturating_add(requests);
        slot.2 = slot.2.saturating_add(overflowed);
    }

    /// The last minute.
    pub fn now(&self, now_us: u64) -> OverflowWindow {
        let second = now_us / 1_000_000;
        let ring = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = ring.iter().filter(|(at, ..)| at + SECONDS as u64 > second && *at <= second);
        recent.fold(OverflowWindow::default(), |sum, (_, requests, overflowed)| OverflowWindow {
            requests: sum.requests.saturating_add(*requests),
            overflowed: sum.overflowed.saturating_add(*overflowed),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_older_than_a_minute_is_forgotten() {
        let window = Window::default();
        window.request(1_000_000);
        window.overflowed(1_000_000);
        window.request(30_000_000);
        assert_eq!(window.now(60_000_000), OverflowWindow { requests: 2, overflowed: 1 });
        assert_eq!(window.now(61_000_000), OverflowWindow { requests: 1, overflowed: 0 });
        assert_eq!(window.now(500_000_000), OverflowWindow::default());
    }
}
