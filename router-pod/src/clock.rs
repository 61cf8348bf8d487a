//! The one place that reads a clock for decisions and reports; everything that decides is handed the result.

pub use terrace_telemetry::time::micros;
use terrace_telemetry::time::now_us;
use tokio::time::Instant;

/// Wall time that never runs backwards: the wall clock at start plus what a monotonic clock measured since.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    started: Instant,
    started_us: u64,
}

impl Default for Clock {
    fn default() -> Self {
        Self::at(now_us())
    }
}

impl Clock {
    /// A clock that says `now_us`, microseconds since the Unix epoch, at this moment.
    pub fn at(now_us: u64) -> Self {
        Self { started: Instant::now(), started_us: now_us }
    }

    /// Microseconds since the Unix epoch.
    pub fn now_us(&self) -> u64 {
        self.started_us + micros(self.started.elapsed())
    }

    /// A moment as this clock tells it: microseconds since the Unix epoch.
    pub fn us_of(&self, moment: Instant) -> u64 {
        self.started_us + micros(moment.duration_since(self.started))
    }

    /// When this clock was made, microseconds since the Unix epoch.
    pub fn started_us(&self) -> u64 {
        self.started_us
    }
}

/// A figure as spans take it: OpenTelemetry has no unsigned integers and would write one as text.
pub fn figure(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
