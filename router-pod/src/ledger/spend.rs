//! What this policy's routers spent today, and what this one may still spend of the day's limit.
//!
//! Each router takes its part of what was left when the operator last said what all of them spent, every 5 s. While it says
//! nothing the part is used up and does not grow: what others spend meanwhile cannot be known. What is known outlasts a
//! restart in a file, and a pod that is replaced hears from the operator what those before it spent.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use terrace_contract::spent::{DAY_US, Spent};

use crate::state;

/// Name of the file in the state folder.
pub const FILE_NAME: &str = "spend.json";

/// The day's spend as this router knows it.
pub struct Spend {
    own: String,
    file: Option<PathBuf>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    spent: Spent,
    /// What all had spent when parts were last taken, and what this router had.
    shared: (u64, u64),
    /// Not in the file yet.
    changed: bool,
}

/// What a decision needs to know of a day's spend, micro-units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Day {
    /// What all routers had spent when parts were last taken.
    pub shared: u64,
    /// What this router spent since.
    pub since: u64,
}

impl Day {
    /// What one of so many routers may still spend: its part of what was left, less what it spent since.
    pub fn left(self, limit: u64, routers: u32) -> u64 {
        (limit.saturating_sub(self.shared) / u64::from(routers.max(1))).saturating_sub(self.since)
    }

    /// What is known to be spent.
    pub fn spent(self) -> u64 {
        self.shared.saturating_add(self.since)
    }
}

impl Spend {
    /// Of the router with this pod's UID, continued from the file in `state_dir`. One that cannot be read is begun anew, which
    /// is said: the operator knows the figures too.
    pub fn open(own: &str, state_dir: Option<&Path>, now_us: u64) -> Self {
        let spend =
            Self { own: own.to_owned(), file: state_dir.map(|dir| dir.join(FILE_NAME)), state: Mutex::default() };
        if let Some(file) = &spend.file
            && let Ok(bytes) = std::fs::read(file)
        {
            match serde_json::from_slice(&bytes) {
                Ok(kept) => spend.learn(&kept, now_us),
                Err(error) => {
                    tracing::warn!(file = %file.display(), %error, "what was spent today cannot be read: it begins anew");
                }
            }
        }
        spend
    }

    /// An answer cost so much.
    pub fn add(&self, micros: u64, now_us: u64) {
        if micros == 0 {
            return;
        }
        let mut state = self.on(now_us);
        let own = state.spent.by_router.entry(self.own.clone()).or_default();
        *own = own.saturating_add(micros);
        state.changed = true;
    }

    /// Takes in what another knows, and with it this router's part of what is left.
    pub fn learn(&self, known: &Spent, now_us: u64) {
        let mut state = self.on(now_us);
        let before = state.spent.clone();
        state.spent.merge(known, now_us / DAY_US);
        state.changed |= state.spent != before;
        state.shared = (state.spent.total(), state.own(&self.own));
    }

    /// What is known of the day, for a report.
    pub fn known(&self, now_us: u64) -> Spent {
        self.on(now_us).spent.clone()
    }

    /// The day so far.
    pub fn day(&self, now_us: u64) -> Day {
        let state = self.on(now_us);
        Day { shared: state.shared.0, since: state.own(&self.own).saturating_sub(state.shared.1) }
    }

    /// Writes what changed to the file.
    pub fn keep(&self) {
        let Some(file) = &self.file else { return };
        let spent = {
            let mut state = self.state();
            if !std::mem::take(&mut state.changed) {
                return;
            }
            state.spent.clone()
        };
        let written = serde_json::to_vec(&spent).map_err(std::io::Error::other).and_then(|b| state::keep(file, &b));
        if let Err(error) = written {
            tracing::warn!(file = %file.display(), %error, "what was spent today cannot be kept for a restart");
        }
    }

    /// The state, of the day that it is.
    fn on(&self, now_us: u64) -> MutexGuard<'_, State> {
        let mut state = self.state();
        let today = now_us / DAY_US;
        if state.spent.day != today {
            *state = State { spent: Spent { day: today, ..Spent::default() }, ..State::default() };
        }
        state
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn own(&self, uid: &str) -> u64 {
        self.spent.by_router.get(uid).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(day: u64, of: &[(&str, u64)]) -> Spent {
        Spent { day, by_router: of.iter().map(|(router, micros)| ((*router).to_owned(), *micros)).collect() }
    }

    #[test]
    fn spend_begins_anew_each_day() {
        let spend = Spend::open("a", None, DAY_US);
        spend.add(7, DAY_US);
        spend.add(7, DAY_US + 1);
        assert_eq!((spend.day(DAY_US + 2).spent(), spend.day(2 * DAY_US).spent()), (14, 0));
        spend.add(7, 2 * DAY_US);
        assert_eq!(spend.day(2 * DAY_US).spent(), 7);
    }

    #[test]
    fn each_takes_its_part_of_what_is_left_and_what_others_spent_is_no_longer_there() {
        let spend = Spend::open("a", None, DAY_US);
        let left = || spend.day(DAY_US).left(100, 2);
        assert_eq!(left(), 50, "nobody has said anything yet");
        spend.add(30, DAY_US);
        assert_eq!(left(), 20);
        // The other one spends nothing: half of what is left is ours again.
        spend.learn(&known(1, &[("a", 30)]), DAY_US);
        assert_eq!(left(), 35);
        spend.learn(&known(1, &[("a", 30), ("gone", 60)]), DAY_US);
        assert_eq!(left(), 5);
        spend.learn(&known(1, &[("b", 40)]), DAY_US);
        assert_eq!(left(), 0, "more was spent than there was");
    }

    #[test]
    fn a_restart_knows_the_day_and_a_damaged_file_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        let opened = || Spend::open("a", Some(folder.path()), DAY_US);
        let spend = opened();
        spend.learn(&known(1, &[("b", 4)]), DAY_US);
        spend.add(3, DAY_US);
        spend.keep();
        assert_eq!(opened().known(DAY_US), known(1, &[("a", 3), ("b", 4)]));
        assert_eq!(Spend::open("a", Some(folder.path()), 2 * DAY_US).day(2 * DAY_US).spent(), 0, "another day");
        std::fs::write(folder.path().join(FILE_NAME), "{").unwrap();
        assert_eq!(opened().day(DAY_US).spent(), 0);
    }
}
