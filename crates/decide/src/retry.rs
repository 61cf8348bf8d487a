//! A budget for retries: they may be a fifth of the requests, so that a failing tier is not buried under them.

/// Hundredths of a retry that each request earns.
const EARNED: u32 = 20;
/// What one retry takes.
const SPENT: u32 = 100;
/// The most that can be saved, and what a router starts with: ten retries.
const MOST: u32 = 10 * SPENT;

/// Retries that may still be spent. A plain value: its owner keeps it behind its own lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryBudget {
    hundredths: u32,
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self { hundredths: MOST }
    }
}

impl RetryBudget {
    /// A new request came: it earns a fifth of a retry.
    pub fn request(&mut self) {
        self.hundredths = (self.hundredths + EARNED).min(MOST);
    }

    /// Takes one retry if there is one.
    pub fn take(&mut self) -> bool {
        match self.hundredths.checked_sub(SPENT) {
            Some(left) => {
                self.hundredths = left;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_the_long_run_one_retry_in_five_requests() {
        let mut budget = RetryBudget::default();
        let spent = (0..1000)
            .filter(|_| {
                budget.request();
                budget.take()
            })
            .count();
        assert!((200..=210).contains(&spent), "{spent}");
    }
}
