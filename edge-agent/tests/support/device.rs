//! The small model on a device whose speed and time are the test's: each step takes what it would on a slow machine, by a
//! clock that nobody has to wait for, and may be held up.
#![allow(dead_code, reason = "each test takes what it needs")]

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use terrace_agent::engine::Clock;
use terrace_agent::model::{Feed, LoadedModel, Network, Output};

/// What the device did in one step.
#[derive(Debug, Clone)]
pub struct Step {
    /// Where each feed stood, and how many tokens it had.
    pub feeds: Vec<(usize, usize)>,
    /// When it ended, since the device was made.
    pub end: Duration,
}

/// A device with 5 ms a step, 1 ms a sequence that decodes and 10 ms a token of a prompt.
#[derive(Clone)]
pub struct Device {
    born: Instant,
    micros: Arc<AtomicU64>,
    steps: Arc<Mutex<Vec<Step>>>,
    permits: Arc<(Mutex<u64>, Condvar)>,
    /// How many times slower than it is: others have the machine.
    starved: Arc<AtomicU64>,
}

/// Steps without end.
const OPEN: u64 = u64::MAX;

impl Device {
    pub const STEP: Duration = Duration::from_millis(5);
    pub const SEQUENCE: Duration = Duration::from_millis(1);
    pub const TOKEN: Duration = Duration::from_millis(10);

    pub fn new() -> Self {
        Device {
            born: Instant::now(),
            micros: Arc::default(),
            steps: Arc::default(),
            permits: Arc::new((Mutex::new(OPEN), Condvar::new())),
            starved: Arc::new(AtomicU64::new(1)),
        }
    }

    /// Puts the model on it.
    pub fn carry(&self, model: LoadedModel) -> LoadedModel {
        let network = Box::new(Carried { network: model.network, device: self.clone() });
        LoadedModel { network, ..model }
    }

    pub fn clock(&self) -> Clock {
        let device = self.clone();
        Clock::of(move || device.now())
    }

    pub fn now(&self) -> Instant {
        self.born + Duration::from_micros(self.micros.load(SeqCst))
    }

    /// Time goes by without the device doing anything.
    pub fn pass(&self, time: Duration) {
        self.micros.fetch_add(time.as_micros() as u64, SeqCst);
    }

    /// From now on it is so many times slower than it is.
    pub fn starve(&self, times: u64) {
        self.starved.store(times, SeqCst);
    }

    /// So many steps more, then none.
    pub fn permit(&self, steps: u64) {
        *self.permits.0.lock().unwrap() = steps;
        self.permits.1.notify_all();
    }

    /// As many steps as it likes.
    pub fn open(&self) {
        self.permit(OPEN);
    }

    /// Whether it stands at the gate with no step left.
    pub fn used_up(&self) -> bool {
        *self.permits.0.lock().unwrap() == 0
    }

    /// Steps so far.
    pub fn steps(&self) -> Vec<Step> {
        self.steps.lock().unwrap().clone()
    }
}

struct Carried {
    network: Box<dyn Network>,
    device: Device,
}

impl Network for Carried {
    fn step(&mut self, feeds: &[Feed<'_>]) -> Vec<Output> {
        {
            let (permits, changed) = &*self.device.permits;
            let mut permits = changed.wait_while(permits.lock().unwrap(), |permits| *permits == 0).unwrap();
            if *permits != OPEN {
                *permits -= 1;
            }
        }
        let outputs = self.network.step(feeds);
        let decodes = |f: &&Feed<'_>| f.tokens.len() == 1;
        let decoding = feeds.iter().filter(decodes).count() as u32;
        let tokens: usize = feeds.iter().map(|f| f.tokens.len()).sum::<usize>() - decoding as usize;
        let alone = Device::STEP + Device::SEQUENCE * decoding + Device::TOKEN * tokens as u32;
        let took = alone * self.device.starved.load(SeqCst) as u32;
        let end = self.device.micros.fetch_add(took.as_micros() as u64, SeqCst) + took.as_micros() as u64;
        let feeds = feeds.iter().map(|f| (f.position, f.tokens.len())).collect();
        self.device.steps.lock().unwrap().push(Step { feeds, end: Duration::from_micros(end) });
        outputs
    }

    fn copy_block(&mut self, from: u32, to: u32) {
        self.network.copy_block(from, to);
    }

    fn blocks(&self) -> usize {
        self.network.blocks()
    }
}
