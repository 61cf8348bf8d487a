//! What a router has from outside: sockets and names, time, randomness. A router that runs has its machine's; the
//! simulation of `tests/simulation` hands in its own, and everything else of the router is the same code.

use std::sync::Arc;

use terrace_identity::net::{Network, System};

use crate::clock::Clock;
use crate::random::Random;

/// What a router has from outside.
#[derive(Clone)]
pub struct Outside {
    /// Sockets and names.
    pub network: Arc<dyn Network>,
    /// Time.
    pub clock: Clock,
    /// Randomness.
    pub random: Arc<Random>,
}

impl Default for Outside {
    fn default() -> Self {
        Self { network: Arc::new(System), clock: Clock::default(), random: Arc::default() }
    }
}
