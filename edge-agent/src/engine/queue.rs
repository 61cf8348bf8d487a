//! Requests that wait, the one with the earliest deadline first.

use std::time::{Duration, Instant};

use super::cache::Key;
use super::handle::Submission;

/// A request without a deadline is taken as if it had one this far away: it goes behind what is urgent, but not
/// behind everything that ever comes.
const PATIENCE: Duration = Duration::from_secs(30);

/// A request that waits.
pub(super) struct Waiting {
    pub(super) submission: Submission,
    /// Where its blocks' names begin.
    pub(super) root: Key,
    /// Prompt tokens that were not in the cache when it came.
    pub(super) uncached: usize,
}

impl Waiting {
    /// Tokens that its answers are expected to have.
    pub(super) fn expected(&self) -> u64 {
        self.submission.expected * self.submission.choices.len() as u64
    }

    pub(super) fn urgency(&self) -> Instant {
        self.submission.request.deadline.unwrap_or(self.submission.at + PATIENCE)
    }
}

/// The queue. How many may wait is up to whoever claims places.
#[derive(Default)]
pub(super) struct Queue {
    /// The most urgent last.
    sorted: Vec<Waiting>,
}

impl Queue {
    /// Behind those that are as urgent.
    pub(super) fn push(&mut self, waiting: Waiting) {
        let at = self.sorted.partition_point(|other| other.urgency() > waiting.urgency());
        self.sorted.insert(at, waiting);
    }

    /// The most urgent.
    pub(super) fn first(&self) -> Option<&Waiting> {
        self.sorted.last()
    }

    /// Takes it out.
    pub(super) fn pop(&mut self) -> Option<Waiting> {
        self.sorted.pop()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Waiting> {
        self.sorted.iter()
    }

    /// Keeps those that `keep` says; it may change them.
    pub(super) fn retain(&mut self, keep: impl FnMut(&mut Waiting) -> bool) {
        self.sorted.retain_mut(keep);
    }
}

#[cfg(test)]
mod tests {
    use super::super::cache::{CacheDomain, Salt};
    use super::super::{GenerateRequest, RequestId};
    use super::*;

    #[test]
    fn the_earliest_deadline_goes_first_and_the_patient_are_not_forgotten() {
        let (now, root) = (Instant::now(), Salt::fresh().unwrap().root(&CacheDomain::default()));
        let waiting = |id: u64, arrived: u64, deadline: Option<u64>| {
            let at = now + Duration::from_secs(arrived);
            let deadline = deadline.map(|s| now + Duration::from_secs(s));
            let request = GenerateRequest { deadline, ..GenerateRequest::new(vec![1], 1) };
            let submission = Submission { id: RequestId(id), request, choices: Vec::new(), at, expected: 1 };
            Waiting { submission, root, uncached: 1 }
        };
        let mut queue = Queue::default();
        let all = [(1, 0, None), (2, 1, Some(20)), (3, 2, Some(5)), (4, 2, None), (5, 3, Some(40)), (6, 4, Some(5))];
        for (id, arrived, deadline) in all {
            queue.push(waiting(id, arrived, deadline));
        }
        let order: Vec<u64> = std::iter::from_fn(|| queue.pop()).map(|w| w.submission.id.0).collect();
        assert_eq!(order, [3, 6, 2, 1, 4, 5]);
    }
}
