//! Who runs: what arrives is weighed against its deadline, the most urgent goes first, and nobody begins for whom there
//! is no room.

use std::time::Duration;

use super::Failure;
use super::cache::{Key, Table};
use super::handle::{Submission, again};
use super::lane::Lane;
use super::queue::Waiting;
use super::run::{Engine, Verdict};
use crate::model::BLOCK_TOKENS;

impl Engine {
    /// Queues what came, or refuses what cannot be made in time: here it is known how much of the prompt is in the cache
    /// and who goes first.
    pub(super) fn take_in(&mut self, submission: Submission) {
        let Submission { ref request, expected, .. } = submission;
        self.shared.arrived(request.prompt.len());
        let root = self.salt.root(&request.cache);
        let found = if request.adopts() { Table::forecast(root, &self.pool, &request.prompt).1 } else { 0 };
        let waiting = Waiting { root, uncached: request.prompt.len() - found, submission };
        if let Some(deadline) = waiting.submission.request.deadline {
            let ahead = self.waiting.iter().filter(|other| other.urgency() <= waiting.urgency());
            let (tokens, prompts): (Vec<u64>, Vec<usize>) =
                ahead.map(|other| (other.expected(), other.uncached)).unzip();
            let forecast = self.outlook().forecast(&tokens, prompts.iter().sum(), waiting.uncached, expected);
            let now = self.clock.now();
            if now + forecast.wait + forecast.own > deadline {
                let again = again(forecast.wait, now + forecast.own > deadline);
                return self.refuse(&waiting.submission, forecast.wait + forecast.own, again);
            }
        }
        self.waiting.push(waiting);
        self.publish();
    }

    /// Fills the batch: first those that had to pause, then the queue.
    pub(super) fn admit(&mut self) {
        while self.lanes.len() < self.shared.slots as usize {
            let lane = if let Some(paused) = self.paused.first() {
                if !self.has_room(paused.root, &paused.tokens, paused.adopts()) {
                    return;
                }
                self.paused.remove(0)
            } else {
                let Some(first) = self.waiting.first() else { return };
                if let Some(late) = self.late(first) {
                    if let Some(waiting) = self.waiting.pop() {
                        self.refuse(&waiting.submission, late, again(Duration::ZERO, true));
                    }
                    continue;
                }
                let request = &first.submission.request;
                if !self.has_room(first.root, &request.prompt, request.adopts()) {
                    return;
                }
                let Some(waiting) = self.waiting.pop() else { return };
                self.admitted += 1;
                let Some(lane) = Lane::begin(self.admitted, waiting.root, waiting.submission, self.clock.now()) else {
                    continue;
                };
                lane
            };
            if !self.enter(lane) {
                return;
            }
        }
    }

    /// Whether a sequence of these tokens can begin without taking from those that run, who may each need a block soon.
    fn has_room(&self, root: Key, tokens: &[u32], adopts: bool) -> bool {
        let need =
            if adopts { Table::forecast(root, &self.pool, tokens).0 } else { tokens.len().div_ceil(BLOCK_TOKENS) };
        // Alone it always fits: the context is no longer than the cache.
        self.lanes.is_empty() || need + self.lanes.len() <= self.pool.available()
    }

    /// Gives a lane its blocks and makes it part of the steps; false if it has to wait after all.
    fn enter(&mut self, mut lane: Lane) -> bool {
        lane.adopt(&mut self.pool);
        if lane.table.reserve(&mut self.pool, lane.tokens.len()).is_err() {
            // There was room a moment ago; whatever took it, it waits for more.
            tracing::warn!(order = lane.order, "no room for a sequence that was just admitted");
            lane.table.release(&mut self.pool);
            lane.forget();
            self.pause(lane);
            return false;
        }
        let at = self.lanes.partition_point(|other| other.order < lane.order);
        self.lanes.insert(at, lane);
        true
    }

    /// Out of the steps until there is room.
    pub(super) fn pause(&mut self, lane: Lane) {
        let at = self.paused.partition_point(|other| other.order < lane.order);
        self.paused.insert(at, lane);
    }

    /// Takes the blocks of the youngest sequence. False if none runs.
    pub(super) fn preempt_youngest(&mut self) -> bool {
        let Some(mut lane) = self.lanes.pop() else { return false };
        tracing::debug!(order = lane.order, tokens = lane.tokens.len(), "preempted");
        lane.table.release(&mut self.pool);
        lane.forget();
        self.shared.preempted();
        self.pause(lane);
        true
    }

    /// How long it would take even if it began now, if that is too long.
    fn late(&self, waiting: &Waiting) -> Option<Duration> {
        let deadline = waiting.submission.request.deadline?;
        let own = self.outlook().forecast(&[], 0, waiting.uncached, waiting.submission.expected).own;
        (self.clock.now() + own > deadline).then_some(own)
    }

    /// Tells every choice that it would be late.
    fn refuse(&self, submission: &Submission, predicted: Duration, retry_after: Duration) {
        let refused = self.shared.late(predicted, retry_after);
        for choice in &submission.choices {
            Verdict::Failed(Failure::Refused(refused.clone())).goes_on(&choice.events);
        }
    }
}
