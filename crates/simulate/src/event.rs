//! What happens, in order of time; of two things at one instant, the one that was foreseen first.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use terrace_contract::load::Load;

use crate::request::Site;

/// One thing that happens.
#[derive(Debug, Clone)]
pub enum Event {
    /// A request comes to its router.
    Arrive(usize),
    /// A request's body reaches a place.
    Reach {
        /// Which request.
        request: usize,
        /// Which of its attempts.
        attempt: u32,
    },
    /// A device's batch may have changed; older calls than its version are passed over.
    Wake {
        /// Which device.
        device: usize,
        /// Version of its batch when this was foreseen.
        version: u64,
    },
    /// A place refuses: full, or it could not make the deadline.
    Refused {
        /// Which request.
        request: usize,
        /// Which of its attempts.
        attempt: u32,
        /// The load line that came with it.
        load: Option<Load>,
    },
    /// An attempt broke: no connection, or cut.
    Broke {
        /// Which request.
        request: usize,
        /// Which of its attempts.
        attempt: u32,
    },
    /// A first token reaches the router.
    FirstToken {
        /// Which request.
        request: usize,
        /// Which of its attempts.
        attempt: u32,
        /// The load line that came with it.
        load: Option<Load>,
    },
    /// The last token reaches the router.
    Ended {
        /// Which request.
        request: usize,
        /// Which of its attempts.
        attempt: u32,
        /// The load line that came with it.
        load: Option<Load>,
    },
    /// An attempt without a first token is given up for the next.
    Patience {
        /// Which request.
        request: usize,
        /// Which of its attempts.
        attempt: u32,
    },
    /// A request's time is up.
    Deadline(usize),
    /// Quiet devices are asked for their load.
    Poll,
    /// A question for its load reaches a device.
    Asked {
        /// Which router asks.
        router: usize,
        /// Where.
        site: Site,
        /// When it was asked.
        asked_us: u64,
    },
    /// The answer to it reaches the router.
    Report {
        /// Which router asked.
        router: usize,
        /// Where.
        site: Site,
        /// When it was asked.
        asked_us: u64,
        /// What it said.
        load: Load,
    },
    /// Devices' speeds are drawn anew.
    Drift,
    /// A fault begins.
    FaultBegins(usize),
    /// A fault ends.
    FaultEnds(usize),
}

/// What is still to happen.
#[derive(Debug, Default)]
pub struct Agenda {
    heap: BinaryHeap<Entry>,
    number: u64,
}

#[derive(Debug)]
struct Entry {
    at_us: u64,
    number: u64,
    event: Event,
}

impl Agenda {
    /// Something will happen.
    pub fn add(&mut self, at_us: u64, event: Event) {
        self.number += 1;
        self.heap.push(Entry { at_us, number: self.number, event });
    }

    /// The next thing to happen.
    pub fn next(&mut self) -> Option<(u64, Event)> {
        self.heap.pop().map(|entry| (entry.at_us, entry.event))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at_us, other.number).cmp(&(self.at_us, self.number))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}
