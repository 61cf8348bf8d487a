//! Chains of calls: how many calls an agent's session has made under one budget, and since when.
//!
//! Kept per replica and bounded, and carried back and forth in the session's signed token ([`super::token`]): of what a
//! replica remembers and what the token says, the further one counts. So a client that sends the token back has one chain
//! whichever replica it meets; one that sends the same id each time has one for each replica that it meets.
//!
//! A chain's time runs from its first call on. It is forgotten once nobody has called for that time and a minute more:
//! then the session may begin another.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use terrace_contract::policy::{Budget, Chain};
use terrace_decide::Hop;

use super::session::Session;

/// Chains remembered.
const MOST: usize = 16_384;
/// What a chain that nobody continues is remembered beyond its own time.
const QUIET_US: u64 = 60_000_000;

/// Which chain: a session's, under a budget of this UID.
pub type Key = (Session, String);

/// What is known of a chain, as it travels too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// UID of the budget.
    #[serde(rename = "b")]
    pub budget: String,
    /// Calls made.
    #[serde(rename = "h")]
    pub hops: u32,
    /// When the first one came, microseconds since the Unix epoch.
    #[serde(rename = "s")]
    pub since_us: u64,
    /// When the last one came.
    #[serde(rename = "l")]
    pub last_us: u64,
    /// Name resolution, connecting and TLS of all of them, microseconds.
    #[serde(rename = "t")]
    pub transport_us: u64,
}

impl Known {
    fn is_over(&self, chain: &Chain, now_us: u64) -> bool {
        self.is_quiet(chain.total_us, now_us)
    }

    fn is_quiet(&self, total_us: u64, now_us: u64) -> bool {
        now_us.saturating_sub(self.last_us) > total_us.saturating_add(QUIET_US)
    }

    /// Of two tellings of the same chain, what both together say.
    fn and(&self, other: &Self) -> Self {
        Self {
            budget: self.budget.clone(),
            hops: self.hops.max(other.hops),
            since_us: self.since_us.min(other.since_us),
            last_us: self.last_us.max(other.last_us),
            transport_us: self.transport_us.max(other.transport_us),
        }
    }
}

/// The chains of this replica.
#[derive(Default)]
pub struct Chains(Mutex<HashMap<Key, (Known, u64)>>);

impl Chains {
    /// Counts a call of a session. `told` is what its token says of its chains; none: the budget has no chain.
    pub fn call(&self, session: Session, budget: &Budget, told: &[Known], now_us: u64) -> Option<Hop> {
        let chain = budget.chain.as_ref()?;
        let mut chains = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (session, budget.uid.clone());
        let before = before(chains.get(&key), budget, chain, told, now_us);
        if chains.len() >= MOST && !chains.contains_key(&key) {
            make_room(&mut chains, now_us);
        }
        let hop = hop(chain, before.as_ref(), now_us);
        let began = || Known { budget: key.1.clone(), hops: 0, since_us: now_us, last_us: now_us, transport_us: 0 };
        let before = before.unwrap_or_else(began);
        // One that is refused is not counted, but the chain is not forgotten while someone asks.
        let hops = before.hops + u32::from(hop.spent().is_none());
        chains.insert(key, (Known { hops, last_us: now_us, ..before }, chain.total_us));
        Some(hop)
    }

    /// The call that would come next, of which nothing is kept.
    pub fn next(&self, session: Session, budget: &Budget, told: &[Known], now_us: u64) -> Option<Hop> {
        let chain = budget.chain.as_ref()?;
        let chains = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = before(chains.get(&(session, budget.uid.clone())), budget, chain, told, now_us);
        Some(hop(chain, before.as_ref(), now_us))
    }

    /// A call that was counted came to nothing: it was refused before any tier began to answer.
    pub fn give_back(&self, key: &Key) {
        self.change(key, |known| known.hops = known.hops.saturating_sub(1));
    }

    /// What a call took to reach its tier.
    pub fn transport(&self, key: &Key, us: u64) {
        self.change(key, |known| known.transport_us = known.transport_us.saturating_add(us));
    }

    fn change(&self, key: &Key, change: impl FnOnce(&mut Known)) {
        let mut chains = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, _)) = chains.get_mut(key) {
            change(known);
        }
    }

    /// What is known of a chain.
    pub fn known(&self, key: &Key) -> Option<Known> {
        let chains = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        chains.get(key).map(|(known, _)| known.clone())
    }

    /// How many are remembered.
    pub fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether none is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What is known of a chain from here and from the token; none: it begins now.
fn before(here: Option<&(Known, u64)>, budget: &Budget, chain: &Chain, told: &[Known], now_us: u64) -> Option<Known> {
    let here = here.map(|(known, _)| known).into_iter();
    let told = told.iter().filter(|known| known.budget == budget.uid);
    let goes_on = here.chain(told).filter(|known| !known.is_over(chain, now_us)).cloned();
    goes_on.reduce(|known, other| known.and(&other))
}

fn hop(chain: &Chain, before: Option<&Known>, now_us: u64) -> Hop {
    let Some(known) = before else { return Hop::of(chain, 1, 0, 0) };
    Hop::of(chain, known.hops.saturating_add(1), now_us.saturating_sub(known.since_us), known.transport_us)
}

/// Forgets chains that are over, else the sixteenth of all that was quiet the longest: at once, so that it is seldom done.
fn make_room(chains: &mut HashMap<Key, (Known, u64)>, now_us: u64) {
    chains.retain(|_, (known, total_us)| !known.is_quiet(*total_us, now_us));
    if chains.len() >= MOST {
        let mut last: Vec<u64> = chains.values().map(|(known, _)| known.last_us).collect();
        let (_, limit, _) = last.select_nth_unstable(MOST / 16);
        let limit = *limit;
        let mut most = MOST / 16;
        chains.retain(|_, (known, _)| {
            let goes = known.last_us <= limit && most > 0;
            most -= usize::from(goes);
            !goes
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sense::session::Sessions;
    use terrace_contract::policy::{OnMiss, Priority};
    use terrace_decide::chain::Spent;

    fn budget(uid: &str) -> Budget {
        Budget {
            uid: uid.into(),
            name: uid.into(),
            features: vec![],
            first_token_us: 1_000_000,
            total_us: 2_000_000,
            objective_basis_points: 9900,
            window_us: 1,
            on_miss: OnMiss::Overflow,
            priority: Priority::Interactive,
            chain: Some(Chain { max_hops: 3, total_us: 5_000_000 }),
        }
    }

    fn session(id: &str) -> Session {
        Sessions::new(b"secret").session("ci", id)
    }

    #[test]
    fn calls_of_a_session_are_counted_under_each_budget_and_its_time_runs_from_the_first() {
        let (chains, s) = (Chains::default(), session("s"));
        let call = |of: &str, now| chains.call(s, &budget(of), &[], now).unwrap();
        assert_eq!((call("b", 1_000_000).number, call("b", 2_000_000).left_us), (1, 4_000_000));
        assert_eq!(call("other", 2_000_000).number, 1, "another budget's chain");
        assert_eq!(chains.next(s, &budget("b"), &[], 2_000_000).unwrap().number, 3, "asked, not counted");
        assert_eq!(call("b", 2_000_000).spent(), None);
        assert_eq!((call("b", 2_000_000).spent(), call("b", 2_000_000).number), (Some(Spent::Hops), 4));
        assert_eq!(chains.call(session("t"), &budget("b"), &[], 0).unwrap().number, 1);
        assert_eq!(chains.call(s, &Budget { chain: None, ..budget("c") }, &[], 0), None);
    }

    #[test]
    fn a_call_that_came_to_nothing_is_given_back() {
        let (chains, s) = (Chains::default(), session("s"));
        let key = (s, "b".to_owned());
        for _ in 0..5 {
            assert_eq!(chains.call(s, &budget("b"), &[], 7).unwrap().number, 1);
            chains.give_back(&key);
        }
        chains.transport(&key, 300);
        assert_eq!(chains.next(s, &budget("b"), &[], 7).unwrap().transport_us, 300);
    }

    #[test]
    fn an_expired_chain_is_forgotten_and_one_that_is_asked_for_is_not() {
        let (chains, s) = (Chains::default(), session("s"));
        let call = |now| chains.call(s, &budget("b"), &[], now).unwrap();
        call(0);
        assert_eq!(call(6_000_000).spent(), Some(Spent::Time));
        assert_eq!(call(70_000_000).spent(), Some(Spent::Time), "64 s after it was last asked for");
        let next = call(70_000_000 + 5_000_000 + QUIET_US + 1);
        assert_eq!((next.number, next.left_us), (1, 5_000_000));
    }

    #[test]
    fn memory_is_bounded() {
        let chains = Chains::default();
        let sessions = Sessions::new(b"secret");
        for n in 0..=MOST {
            chains.call(sessions.session("ci", &n.to_string()), &budget("b"), &[], n as u64).unwrap();
        }
        assert_eq!(chains.len(), MOST - MOST / 16 + 1, "the oldest went");
        let last = sessions.session("ci", &MOST.to_string());
        assert_eq!(chains.next(last, &budget("b"), &[], MOST as u64).unwrap().number, 2);
        // All of them are over by now.
        chains.call(session("new"), &budget("b"), &[], 1 << 40).unwrap();
        for n in 0..MOST {
            chains.call(sessions.session("web", &n.to_string()), &budget("b"), &[], 1 << 40).unwrap();
        }
        assert!(chains.len() <= MOST);
    }

    #[test]
    fn of_two_tellings_the_further_one_counts() {
        let (here, there, s) = (Chains::default(), Chains::default(), session("s"));
        here.call(s, &budget("b"), &[], 1_000_000).unwrap();
        here.call(s, &budget("b"), &[], 2_000_000).unwrap();
        let told = [here.known(&(s, "b".to_owned())).unwrap()];
        let next = there.call(s, &budget("b"), &told, 3_000_000).unwrap();
        assert_eq!((next.number, next.left_us), (3, 3_000_000));
        // What it heard stays with it, and an older token takes nothing away.
        assert_eq!(there.call(s, &budget("b"), &[], 3_000_000).unwrap().number, 4);
        assert_eq!(here.call(s, &budget("b"), &[Known { hops: 0, ..told[0].clone() }], 3_000_000).unwrap().number, 3);
    }
}
