//! Cumulative reports of many routers become sums over the last minutes. Pure: the time is passed in.
//!
//! A report says what a router did since it started. What it did since its last report is the difference; a router
//! that restarted begins at nothing. The first report that is ever seen of a router that has run for longer than the
//! window only sets the mark, since nobody knows when its counts were made.

use std::collections::{BTreeMap, HashMap, VecDeque};

use terrace_contract::report::{Ledger, Reachability, Report};
use terrace_contract::spent::{DAY_US, Spent};

use terrace_contract::sketch::Sketch;

use super::window::{Minute, Use, Window};

/// What status shows is folded over this many minutes.
pub const WINDOW_MINUTES: u64 = 60;
/// What burn rates need is kept for this many.
const KEPT_MINUTES: u64 = 360;
/// A router that has been silent for this long does not report any more.
pub const SILENT_AFTER_US: u64 = 30_000_000;
/// Rates are over this many minutes.
const RECENT_MINUTES: u64 = 5;
/// A minute in microseconds.
pub const MINUTE_US: u64 = 60_000_000;

/// The reports of all policies.
#[derive(Debug, Default)]
pub struct Fold {
    policies: HashMap<String, Policy>,
    /// When this replica began to take reports in.
    began_us: u64,
}

#[derive(Debug, Default)]
struct Policy {
    routers: BTreeMap<String, Router>,
    minutes: VecDeque<Minute>,
    spent: Spent,
}

#[derive(Debug, Clone)]
struct Router {
    last: Report,
    heard_us: u64,
}

/// One router as its last report shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouterView {
    /// UID of its pod.
    pub uid: String,
    /// Name of its pod.
    pub pod: String,
    /// Revision in use.
    pub revision: String,
    /// Why the newest snapshot was refused.
    pub refused: Option<String>,
    /// When it was last heard.
    pub heard_us: u64,
    /// Its reachability of tiers.
    pub reachability: Vec<Reachability>,
    /// Its egress ledger.
    pub ledger: Option<Ledger>,
}

/// What is known of one policy.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// Routers have not had the time to report here: what is not known says nothing.
    pub early: bool,
    /// Its routers that are not silent.
    pub routers: Vec<RouterView>,
    /// When any router was last heard; 0: never.
    pub heard_us: u64,
    /// The last hour.
    pub hour: Window,
    /// The last five minutes: rates.
    pub recent: Window,
    /// The last six hours, latencies left out: burn rates.
    pub six_hours: Window,
}

/// What all policies together report of one tier.
#[derive(Debug, Clone, Default)]
pub struct TierView {
    /// Routers have not had the time to report here: what is not known says nothing.
    pub early: bool,
    /// Routers that are not silent: name, and why they cannot reach the tier; empty: they can.
    pub reach: Vec<(String, String)>,
    /// Devices that are full, as the router says that sees most.
    pub saturated: u32,
    /// Use in the last hour.
    pub hour: Use,
    /// Use in the last minutes.
    pub recent: Use,
    /// How long those minutes are, in seconds.
    pub recent_seconds: f64,
    /// Time to the first token in the last hour.
    pub first_token: Sketch,
    /// When a router was last heard; 0: never.
    pub heard_us: u64,
}

impl Fold {
    /// Of a replica that begins to take reports in.
    pub fn beginning(now_us: u64) -> Self {
        Self { began_us: now_us, ..Self::default() }
    }

    /// Whether routers have not had the time to report here yet.
    pub fn early(&self, now_us: u64) -> bool {
        now_us.saturating_sub(self.began_us) < SILENT_AFTER_US
    }

    /// Takes one report in; whether it says something that should not wait: a router that is new, or what it runs.
    pub fn add(&mut self, report: Report, now_us: u64) -> bool {
        let policy = self.policies.entry(report.policy_uid.clone()).or_default();
        policy.spent.merge(&report.spent, now_us / DAY_US);
        let before = policy.routers.get(&report.router_uid).map(|r| &r.last);
        let grown = match before {
            Some(last) if last.started_at_us == report.started_at_us => {
                if report.sent_at_us < last.sent_at_us {
                    return false; // overtaken by a newer one on the way
                }
                Some(Window::between(Some(last), &report))
            }
            Some(_) => Some(Window::between(None, &report)),
            None => (now_us.saturating_sub(report.started_at_us) < WINDOW_MINUTES * MINUTE_US)
                .then(|| Window::between(None, &report)),
        };
        let news = before.is_none_or(|last| last.revision != report.revision || last.refused != report.refused);
        if let Some(grown) = grown.filter(|g| !g.is_empty()) {
            policy.minute(now_us / MINUTE_US).window.add(&grown);
        }
        policy.routers.insert(report.router_uid.clone(), Router { last: report, heard_us: now_us });
        policy.forget(now_us);
        news
    }

    /// What the routers of a policy have spent on the last day that one reported of.
    pub fn spent(&self, policy_uid: &str) -> Spent {
        self.policies.get(policy_uid).map(|policy| policy.spent.clone()).unwrap_or_default()
    }

    /// What is known of a policy.
    pub fn view(&self, policy_uid: &str, now_us: u64) -> View {
        let early = self.early(now_us);
        let Some(policy) = self.policies.get(policy_uid) else { return View { early, ..View::default() } };
        let sum = |minutes: u64| {
            let from = (now_us / MINUTE_US).saturating_sub(minutes - 1);
            let mut sum = Window::default();
            policy.minutes.iter().filter(|m| m.index >= from).for_each(|m| sum.add(&m.window));
            sum
        };
        View {
            early,
            routers: policy
                .routers
                .iter()
                .filter(|(_, r)| now_us.saturating_sub(r.heard_us) < SILENT_AFTER_US)
                .map(|(uid, r)| r.view(uid))
                .collect(),
            heard_us: policy.routers.values().map(|r| r.heard_us).max().unwrap_or(0),
            hour: sum(WINDOW_MINUTES),
            recent: sum(RECENT_MINUTES),
            six_hours: sum(KEPT_MINUTES),
        }
    }

    /// What all policies together report of one tier.
    pub fn tier(&self, tier_uid: &str, now_us: u64) -> TierView {
        let this_minute = (now_us % MINUTE_US) as f64 / 1e6;
        let mut sum = TierView {
            early: self.early(now_us),
            recent_seconds: this_minute + 60.0 * (RECENT_MINUTES - 1) as f64,
            ..TierView::default()
        };
        let now = now_us / MINUTE_US;
        for policy in self.policies.values() {
            for minute in policy.minutes.iter().filter(|m| m.index + WINDOW_MINUTES > now) {
                if let Some(used) = minute.window.usage.get(tier_uid) {
                    sum.hour.add(used);
                    if minute.index + RECENT_MINUTES > now {
                        sum.recent.add(used);
                    }
                }
                sum.first_token.merge(&minute.window.latencies(|tier, _| tier == tier_uid).first_token);
            }
            for router in policy.routers.values().filter(|r| now_us.saturating_sub(r.heard_us) < SILENT_AFTER_US) {
                for seen in router.last.reachability.iter().filter(|r| r.tier == tier_uid) {
                    sum.reach.push((router.last.router.clone(), seen.reason.clone()));
                    sum.saturated = sum.saturated.max(seen.saturated);
                    sum.heard_us = sum.heard_us.max(router.heard_us);
                }
            }
        }
        sum
    }

    /// Policies that have reported.
    pub fn policies(&self) -> Vec<String> {
        self.policies.keys().cloned().collect()
    }

    /// Forgets policies that are gone.
    pub fn retain(&mut self, exists: impl Fn(&str) -> bool) {
        self.policies.retain(|uid, _| exists(uid));
    }
}

impl Policy {
    fn minute(&mut self, index: u64) -> &mut Minute {
        let at = self.minutes.partition_point(|m| m.index < index);
        if self.minutes.get(at).is_none_or(|m| m.index != index) {
            self.minutes.insert(at, Minute { index, window: Window::default() });
        }
        &mut self.minutes[at]
    }

    fn forget(&mut self, now_us: u64) {
        let now = now_us / MINUTE_US;
        self.minutes.retain(|m| m.index + KEPT_MINUTES > now);
        let old = |m: &&mut Minute| m.index + WINDOW_MINUTES <= now;
        self.minutes.iter_mut().filter(old).for_each(|m| m.window.drop_sketches());
        self.routers.retain(|_, r| now_us.saturating_sub(r.heard_us) < WINDOW_MINUTES * MINUTE_US);
    }
}

impl Router {
    fn view(&self, uid: &str) -> RouterView {
        RouterView {
            uid: uid.to_owned(),
            pod: self.last.router.clone(),
            revision: self.last.revision.clone(),
            refused: self.last.refused.clone(),
            heard_us: self.heard_us,
            reachability: self.last.reachability.clone(),
            ledger: self.last.ledger.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_contract::report::{Count, Outcome, Usage};
    use terrace_contract::trust::Class;

    const HOUR: u64 = 60 * MINUTE_US;
    const NOW: u64 = 1_000 * HOUR;

    fn report(router: &str, started: u64, sent: u64, requests: u64) -> Report {
        Report {
            schema_version: 1,
            policy_uid: "p".into(),
            router_uid: router.into(),
            router: router.into(),
            revision: "r1".into(),
            refused: None,
            started_at_us: started,
            sent_at_us: sent,
            counts: vec![Count {
                tier: "edge".into(),
                feature: "other".into(),
                class: Class::Internal,
                outcome: Outcome::Served,
                reason: "nearest".into(),
                forced: String::new(),
                requests,
            }],
            latency: Vec::new(),
            usage: vec![Usage {
                tier: "edge".into(),
                input_tokens: requests * 10,
                output_tokens: requests,
                cost_micros: requests * 3,
                failed_attempts: 0,
                attempts: requests,
            }],
            reachability: Vec::new(),
            ledger: None,
            spent: Spent::default(),
        }
    }

    fn served(fold: &Fold, now: u64) -> u64 {
        fold.view("p", now).hour.requests()
    }

    #[test]
    fn replicas_add_up_and_a_repeated_report_adds_nothing() {
        let mut fold = Fold::default();
        for (router, requests) in [("a", 4), ("b", 6), ("a", 4), ("a", 5)] {
            fold.add(report(router, NOW - 1, NOW, requests), NOW);
        }
        assert_eq!(served(&fold, NOW), 11);
        assert_eq!(fold.view("p", NOW).hour.usage["edge"].cost_micros, 33);
    }

    #[test]
    fn what_a_gone_router_spent_is_told_to_the_next_and_an_operator_that_starts_anew_hears_it_from_it() {
        let today = NOW / DAY_US;
        let of = |router: &str, micros: u64, mut known: Spent| {
            known.merge(&Spent { day: today, by_router: [(router.to_owned(), micros)].into() }, today);
            Report { spent: known, ..report(router, NOW - 1, NOW, 1) }
        };
        let mut fold = Fold::default();
        fold.add(of("gone", 60, Spent::default()), NOW);
        fold.add(of("new", 0, Spent::default()), NOW + HOUR);
        let told = fold.spent("p");
        assert_eq!(told.total(), 60);
        let mut anew = Fold::beginning(NOW + HOUR);
        anew.add(of("new", 5, told), NOW + HOUR);
        assert_eq!(anew.spent("p").total(), 65);
        assert_eq!(anew.spent("another policy").total(), 0);
    }

    #[test]
    fn a_restart_counts_from_nothing_and_an_overtaken_report_is_dropped() {
        let mut fold = Fold::default();
        fold.add(report("a", NOW - 9, NOW, 100), NOW);
        fold.add(report("a", NOW - 9, NOW - 1, 50), NOW);
        fold.add(report("a", NOW + 5, NOW + 6, 3), NOW + 6);
        assert_eq!(served(&fold, NOW + 6), 103);
    }

    #[test]
    fn what_an_old_router_did_before_it_was_first_heard_is_not_this_hours() {
        let mut fold = Fold::default();
        fold.add(report("a", NOW - 48 * HOUR, NOW, 1_000_000), NOW);
        assert_eq!(served(&fold, NOW), 0);
        fold.add(report("a", NOW - 48 * HOUR, NOW + 5, 1_000_007), NOW + 5);
        assert_eq!(served(&fold, NOW + 5), 7);
    }

    #[test]
    fn a_replica_that_began_just_now_does_not_take_silence_for_news() {
        let mut fold = Fold::beginning(NOW);
        fold.add(report("a", NOW - 1, NOW, 4), NOW);
        let early =
            |now| (fold.view("p", now).early, fold.view("never heard", now).early, fold.tier("edge", now).early);
        assert_eq!(early(NOW + SILENT_AFTER_US - 1), (true, true, true));
        assert_eq!(early(NOW + SILENT_AFTER_US), (false, false, false));
    }

    #[test]
    fn the_hour_passes_and_a_silent_router_leaves_the_view() {
        let mut fold = Fold::default();
        fold.add(report("a", NOW - 1, NOW, 4), NOW);
        assert_eq!(fold.view("p", NOW + SILENT_AFTER_US - 1).routers.len(), 1);
        assert_eq!(fold.view("p", NOW + SILENT_AFTER_US).routers.len(), 0);
        assert_eq!(served(&fold, NOW + HOUR - MINUTE_US), 4);
        assert_eq!(served(&fold, NOW + HOUR), 0);
    }
}
