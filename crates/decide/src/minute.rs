//! How many requests of the last minute overflowed: what `overflow.maxPercent` caps.

use crate::view::OverflowWindow;

const SECONDS: usize = 60;

/// A ring of one-second counts. A plain value that is told the time: its owner keeps it behind its own lock.
#[derive(Debug, Clone)]
pub struct Minute([(u64, u32, u32); SECONDS]);

impl Default for Minute {
    fn default() -> Self {
        Self([(0, 0, 0); SECONDS])
    }
}

impl Minute {
    /// Counts a request.
    pub fn request(&mut self, now_us: u64) {
        self.count(1, 0, now_us);
    }

    /// One of the requests counted overflows.
    pub fn overflowed(&mut self, now_us: u64) {
        self.count(0, 1, now_us);
    }

    fn count(&mut self, requests: u32, overflowed: u32, now_us: u64) {
        let second = now_us / 1_000_000;
        let slot = &mut self.0[(second % SECONDS as u64) as usize];
        if slot.0 != second {
            *slot = (second, 0, 0);
        }
        slot.1 = slot.1.saturating_add(requests);
        slot.2 = slot.2.saturating_add(overflowed);
    }

    /// The last minute.
    pub fn window(&self, now_us: u64) -> OverflowWindow {
        let second = now_us / 1_000_000;
        let recent = self.0.iter().filter(|(at, ..)| at + SECONDS as u64 > second && *at <= second);
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
        let mut minute = Minute::default();
        minute.request(1_000_000);
        minute.overflowed(1_000_000);
        minute.request(30_000_000);
        assert_eq!(minute.window(60_000_000), OverflowWindow { requests: 2, overflowed: 1 });
        assert_eq!(minute.window(61_000_000), OverflowWindow { requests: 1, overflowed: 0 });
        assert_eq!(minute.window(500_000_000), OverflowWindow::default());
    }
}
