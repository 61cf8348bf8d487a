//! One simulated request: what it is, and how far it has come.

use terrace_contract::trust::Class;
use terrace_decide::plan::{Attempt, Forecast};
use terrace_decide::track::{Dispatch, Ticket};

use crate::trace::Arrival;

/// What a request is, drawn once a run: the same for every strategy that is compared.
#[derive(Debug, Clone)]
pub struct Request {
    /// Its lengths and prefixes.
    pub arrival: Arrival,
    /// When it comes, at this run's load.
    pub at_us: u64,
    /// Its feature.
    pub feature: String,
    /// Its class.
    pub class: Class,
    /// Whether it is judged complex.
    pub complex: bool,
    /// The router that it comes to.
    pub router: usize,
}

/// Where one attempt goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Site {
    /// Rung.
    pub rung: usize,
    /// Device of a fleet; none: the endpoint.
    pub device: Option<usize>,
}

/// One thing to try: a site of a plan's attempt.
#[derive(Debug, Clone)]
pub struct Step {
    /// Where.
    pub site: Site,
    /// Index of the attempt that it belongs to.
    pub attempt: usize,
}

/// An attempt that is under way.
#[derive(Debug, Clone, Copy)]
pub struct Current {
    /// Where.
    pub site: Site,
    /// Number of the attempt within the request, from 0.
    pub number: u32,
    /// What the router counted for it.
    pub ticket: Ticket,
    /// When it was sent.
    pub sent_us: u64,
    /// What was forecast.
    pub forecast: Forecast,
    /// Whether the place was told on.
    pub told: bool,
    /// When its first token arrived.
    pub first_us: Option<u64>,
    /// Whether it is an overflow.
    pub overflow: bool,
    /// Whether it is nearer than decided.
    pub degraded: bool,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// All of the answer came.
    Answered,
    /// Refused at once, or nothing could be tried any more.
    Refused,
    /// Its time was up.
    OutOfTime,
    /// The answer broke off.
    Broken,
}

/// How far a request has come.
#[derive(Debug, Default)]
pub struct Progress {
    /// The plan's attempts.
    pub attempts: Vec<Attempt>,
    /// What is counted of it wherever it is sent.
    pub dispatch: Option<Dispatch>,
    /// What to try, in order.
    pub steps: Vec<Step>,
    /// The next of them.
    pub next: usize,
    /// Attempts made.
    pub made: u32,
    /// What is under way.
    pub current: Option<Current>,
    /// Whether an attempt failed by the other side's fault.
    pub faulty: bool,
    /// Whether any attempt was an overflow, so that it is counted once.
    pub overflowed: bool,
    /// Rungs that its body was sent to.
    pub reached: Vec<usize>,
    /// How it ended.
    pub end: Option<End>,
    /// When it ended.
    pub ended_us: u64,
    /// When its first token arrived.
    pub first_us: Option<u64>,
    /// Where it was answered.
    pub answered_at: Option<Site>,
    /// Whether that was an overflow.
    pub answered_overflow: bool,
    /// Whether it was a nearer tier than decided.
    pub answered_degraded: bool,
    /// Price of the answer.
    pub cost_micros: u64,
}
