//! One sequence's place in the batch: its tokens, its blocks of the cache, how far it is. What it says of them is
//! [`Sequence`]'s business.

use std::time::Instant;

use super::cache::{Key, Pool, Table};
use super::event::{Event, HiddenStates};
use super::handle::{Choice, Submission};
use super::plan::Prompt;
use super::rates::Work;
use super::sequence::Sequence;
use super::shared::Place;
use crate::model::{BLOCK_TOKENS, Hidden, Pooling, Rows, Wanted};

/// A sequence that runs, or that waits to go on.
pub(super) struct Lane {
    /// Admissions are numbered: the largest number is the youngest.
    pub(super) order: u64,
    /// Where its blocks' names begin.
    pub(super) root: Key,
    /// The prompt, then what was sampled.
    pub(super) tokens: Vec<u32>,
    /// Of those, how many are in the cache. Less than all of them while it runs.
    pub(super) position: usize,
    pub(super) table: Table,
    /// The step that last took some of its prompt.
    pub(super) served: u64,
    /// Tokens that the answer is expected to have.
    pub(super) expected: u64,
    /// Whether it had to give its blocks back.
    pub(super) preempted: bool,
    pub(super) sequence: Sequence,
    /// Logits to sample from as soon as its grammar says what may come; it has nothing to compute until then.
    pub(super) unheard: Option<Vec<f32>>,
    /// Choices of the same prompt that begin once it is computed.
    pub(super) siblings: Vec<(Sequence, Place)>,
    /// Dropped last: the place is free only when all else is done.
    pub(super) place: Place,
    hidden: Option<Pooling>,
    /// Sum of the hidden states so far.
    sum: Vec<f64>,
}

impl Lane {
    /// Of a request that leaves the queue. Its table is empty.
    pub(super) fn begin(order: u64, root: Key, submission: Submission, now: Instant) -> Option<Lane> {
        let Submission { id, request, choices, at, expected } = submission;
        let (hidden, seed) = (request.hidden, request.sampling.seed);
        let tokens = request.prompt.clone();
        let begin = |choice: Choice| {
            let Choice { index, events, mut place } = choice;
            place.start();
            let mut request = request.clone();
            request.sampling.seed = seed.map(|seed| seed.wrapping_add(u64::from(index)));
            (Sequence::begin(id, request, events, now.duration_since(at), now), place)
        };
        let mut sequences: Vec<(Sequence, Place)> = choices.into_iter().map(begin).collect();
        let (sequence, place) = if sequences.is_empty() { return None } else { sequences.remove(0) };
        Some(Lane {
            order,
            root,
            tokens,
            position: 0,
            table: Table::new(root),
            served: 0,
            expected,
            preempted: false,
            sequence,
            unheard: None,
            siblings: sequences,
            place,
            hidden,
            sum: Vec::new(),
        })
    }

    /// A sibling at the same point: of the same blocks, or of none yet if there is no pool to share them in.
    pub(super) fn fork(&self, pool: Option<&mut Pool>, order: u64, sequence: Sequence, place: Place) -> Lane {
        let (table, position) = match pool {
            Some(pool) => (self.table.fork(pool), self.position),
            None => (Table::new(self.root), 0),
        };
        let mut twin = Lane {
            order,
            root: self.root,
            tokens: self.tokens.clone(),
            position,
            table,
            served: self.served,
            expected: self.expected,
            preempted: false,
            sequence,
            unheard: None,
            siblings: Vec::new(),
            place,
            hidden: None,
            sum: Vec::new(),
        };
        twin.sequence.cached = position as u32;
        twin
    }

    /// Tokens that are not in the cache.
    pub(super) fn left(&self) -> usize {
        self.tokens.len() - self.position
    }

    /// Whether all that is left is the token sampled last.
    pub(super) fn decodes(&self) -> bool {
        self.left() == 1 && self.sequence.completion() > 0
    }

    /// Where its prompt ends, and its answer begins.
    pub(super) fn border(&self) -> usize {
        self.sequence.request.prompt.len()
    }

    /// Of so many of its next tokens, how many are computed as a prompt's. Those of its last two blocks are not: after a
    /// cached beginning they are often all that is left, and where unpacking weights for many rows takes as long as
    /// multiplying for 32, the answer would begin later. Of a text whose states are wanted all are.
    pub(super) fn as_prompt(&self, tokens: usize) -> usize {
        let border = self.border();
        let blocks = (border.saturating_sub(1) / BLOCK_TOKENS).saturating_sub(1);
        let end = if self.sequence.request.hidden.is_some() { border } else { blocks * BLOCK_TOKENS };
        end.saturating_sub(self.position).min(tokens)
    }

    /// As the plan sees it. After a preemption the answer is computed again too, in steps of its own.
    pub(super) fn prompt(&self) -> Prompt {
        let end = if self.position < self.border() { self.border() } else { self.tokens.len() };
        Prompt { position: self.position, left: end - self.position }
    }

    /// Tokens of the answer that are still to be expected: at least one while it runs. One that has outlived what was
    /// expected goes on for half of what it has, as far as it may.
    pub(super) fn expected_left(&self) -> u64 {
        let (made, most) = (u64::from(self.sequence.completion()), u64::from(self.sequence.request.max_tokens));
        let more = if made < self.expected { self.expected - made } else { made / 2 };
        let one = more.min(most.saturating_sub(made)).max(1);
        one + self.siblings.len() as u64 * self.expected
    }

    /// Whether it may take computed blocks over: not while a mean over all of its prompt is wanted.
    pub(super) fn adopts(&self) -> bool {
        self.hidden != Some(Pooling::MeanAndLast)
    }

    /// Whether its blocks are made findable: not those of a text that is only pooled and takes none over itself. A
    /// corpus that is embedded must not drive the beginnings of chats out of the cache.
    pub(super) fn publishes(&self) -> bool {
        self.sequence.request.max_tokens > 0 || self.sequence.request.adopts()
    }

    /// Takes over what is computed of its tokens.
    pub(super) fn adopt(&mut self, pool: &mut Pool) {
        if !self.adopts() {
            return;
        }
        let before = self.position;
        self.position = self.table.adopt(pool, &self.tokens, before);
        if !self.preempted {
            self.sequence.cached += (self.position - before) as u32;
        }
    }

    /// Goes on as its next sibling, when its own client has gone; false if there is none.
    pub(super) fn promote(&mut self) -> bool {
        if self.siblings.is_empty() {
            return false;
        }
        (self.sequence, self.place) = self.siblings.remove(0);
        true
    }

    /// What a step of so many of its tokens has to do.
    pub(super) fn work(&self, tokens: usize) -> Work {
        if self.decodes() {
            return Work::decode(self.position);
        }
        Work { unpacking: self.as_prompt(tokens) > 0, ..Work::prefill(self.position, tokens) }
    }

    /// What is wanted of a step of so many of its tokens.
    pub(super) fn wanted(&self, tokens: usize) -> Wanted {
        let last = self.position + tokens == self.tokens.len();
        let logits = if last && self.sequence.request.max_tokens > 0 { Rows::Last } else { Rows::None };
        let hidden = match self.hidden {
            Some(Pooling::Last) if !last => None,
            other => other,
        };
        Wanted { logits, hidden }
    }

    /// Takes in what a step gave; after the last of the prompt, tells it.
    pub(super) fn pooled(&mut self, hidden: Option<Hidden>) {
        let Some(Hidden { sum, last }) = hidden else { return };
        if self.sum.is_empty() {
            self.sum = sum;
        } else {
            self.sum.iter_mut().zip(sum).for_each(|(sum, x)| *sum += x);
        }
        if self.left() == 0 {
            let count = self.tokens.len() as f64;
            let mean = (!self.sum.is_empty()).then(|| self.sum.iter().map(|x| (x / count) as f32).collect());
            // Fails only if the caller is gone, which the next sweep sees.
            let _ = self.sequence.events.try_send(Event::Hidden(HiddenStates { mean, last }));
            (self.hidden, self.sum) = (None, Vec::new());
        }
    }

    /// Its blocks went back: what is in the cache no more has to be computed again.
    pub(super) fn forget(&mut self) {
        (self.position, self.preempted, self.unheard) = (0, true, None);
        self.sum.clear();
    }
}
