//! What happened, in order, at which simulated moment. The same seed gives the same log, line by line.

use std::sync::{Arc, Mutex};

use crate::sea::now;

/// The log of one seed. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    /// From a simulated host.
    pub fn note(&self, what: impl std::fmt::Display) {
        self.at(now(), what);
    }

    pub fn at(&self, at: std::time::Duration, what: impl std::fmt::Display) {
        self.0.lock().unwrap().push(format!("{:>9.3} {what}", at.as_secs_f64()));
    }

    pub fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}
