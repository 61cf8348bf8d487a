//! Faults by name: what one of them costs, in simulated time where the real one would take half a minute.

use std::time::Duration;

use terrace_contract::policy::HedgeMode;
use terrace_contract::trust::Class;

use crate::client::End;
use crate::fleet::Change;
use crate::plan::{Ask, Fault, Plan};
use crate::sea::{EDGE, NODE, OPERATOR, ROUTER};
use crate::tier::Act;
use crate::world::{Left, run_plan};

const MS: fn(u64) -> Duration = Duration::from_millis;
const ALL: [&str; 4] = ["edge-0", "edge-1", "node-0", "cloud"];

fn ask(n: usize, at: Duration, stream: bool, model: &'static str) -> Ask {
    Ask {
        at,
        nonce: format!("n{n}"),
        stream,
        usage: false,
        label: None,
        card: false,
        feature: "unheard-of",
        prefer: "",
        model,
        session: None,
        hang_up: None,
    }
}

/// Many requests, one each 40 ms.
fn many(n: usize, from: Duration, stream: bool) -> Vec<Ask> {
    (0..n).map(|i| ask(i, from + MS(40) * u32::try_from(i).unwrap(), stream, "auto")).collect()
}

/// Runs a scenario in which tiers answer but for those named, and holds it to what holds of every seed.
fn run(plan: Plan, but: &[(&str, Act)]) -> Left {
    let always: Vec<(&str, Act)> = ALL
        .iter()
        .map(|name| but.iter().find(|(other, _)| other == name).copied().unwrap_or((name, Act::Answer)))
        .collect();
    let left = run_plan(7, plan, &always);
    let wrong = crate::check::all(&left);
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), left.log.lines().join("\n"));
    left
}

fn all_answered(left: &Left) {
    for fate in &left.fates {
        assert!(matches!(fate.end, End::Answered { .. }), "{fate:?}\n{}", left.log.lines().join("\n"));
    }
}

#[test]
fn a_stream_that_falls_silent_is_ended_after_thirty_seconds() {
    // Sooner if its budget is: that of every other feature is six seconds.
    for (feature, at) in [("patient", MS(30_000)), ("unheard-of", MS(6_000))] {
        let plan = Plan::scenario(vec![Ask { feature, ..ask(0, MS(500), true, "medium") }], vec![]);
        let left = run(plan, &[("node-0", Act::StallMidway)]);
        let fate = &left.fates[0];
        assert!(matches!(&fate.end, End::Broke { words } if !words.is_empty()), "{fate:?}");
        let silent = fate.ended - fate.sent;
        assert!((at..at + MS(1_000)).contains(&silent), "{feature}: {silent:?}");
    }
}

#[test]
fn a_node_that_vanishes_in_the_middle_of_a_stream_is_noticed_in_two_seconds() {
    let plan = Plan::scenario(
        vec![ask(0, MS(500), true, "medium")],
        vec![(MS(1_500), Fault::Partition(NODE)), (MS(9_000), Fault::Repair(NODE))],
    );
    let left = run(plan, &[("node-0", Act::StallMidway)]);
    let fate = &left.fates[0];
    assert!(matches!(fate.end, End::Broke { .. }), "{fate:?}");
    assert!((MS(1_500)..MS(4_000)).contains(&fate.ended), "{fate:?}");
}

#[test]
fn devices_that_are_replaced_one_by_one_under_load_fail_no_request() {
    let faults = [(EDGE[0], 1_000), (EDGE[1], 3_000), (NODE, 5_000)];
    let faults =
        faults.iter().flat_map(|(host, at)| [(MS(*at), Fault::Crash(*host)), (MS(at + 700), Fault::Bounce(*host))]);
    let mut faults: Vec<_> = faults.collect();
    faults.sort_by_key(|(at, _)| *at);
    let left = run(Plan::scenario(many(150, MS(500), false), faults), &[]);
    all_answered(&left);
}

#[test]
fn told_to_stop_under_load_it_fails_no_request_that_it_has() {
    for stream in [false, true] {
        let asks = many(12, MS(1_000), stream);
        let left = run(Plan::scenario(asks, vec![(MS(1_500), Fault::Drain(MS(100)))]), &[]);
        all_answered(&left);
        let after = left.fates.iter().filter(|fate| fate.ended > MS(1_500)).count();
        assert!(after > 0, "some were in flight");
        assert!(left.lives[0].ended.is_some_and(|end| end < MS(9_000)), "and then it ends");
    }
}

#[test]
fn without_the_operator_a_router_starts_anew_and_answers() {
    let plan = Plan::scenario(
        many(20, MS(2_000), true),
        vec![(MS(500), Fault::Crash(OPERATOR)), (MS(1_000), Fault::Crash(ROUTER)), (MS(1_500), Fault::Bounce(ROUTER))],
    );
    let left = run(plan, &[]);
    all_answered(&left);
    assert_eq!(left.lives.len(), 2);
    assert!(!left.lives[1].policies.is_empty(), "it has the snapshot that the first one kept");
}

#[test]
fn a_stream_cut_after_its_reason_to_finish_is_a_whole_answer() {
    let plan = Plan::scenario(vec![ask(0, MS(500), true, "medium")], vec![]);
    all_answered(&run(plan, &[("node-0", Act::CutAtTheEnd)]));
}

#[test]
fn a_client_that_goes_away_in_the_middle_of_a_stream_ends_it_at_its_tier() {
    let asks = vec![Ask { hang_up: Some(MS(1_000)), ..ask(0, MS(500), true, "medium") }];
    // That nothing runs at a tier any more is what holds of every seed; here it would run for half a minute.
    let left = run(Plan::scenario(asks, vec![]), &[("node-0", Act::StallMidway)]);
    assert_eq!(left.fates[0].end, End::HungUp);
    assert!(left.took < MS(4_000), "{:?}", left.took);
}

/// Many requests, and a device that becomes slow once its tier has shown how soon its first tokens come.
fn one_becomes_slow(hedge: HedgeMode, more: Vec<(Duration, Fault)>, asks: usize) -> Left {
    let mut faults = more;
    faults.push((MS(500) + MS(40) * 60, Fault::Latency(EDGE[0], MS(400))));
    faults.sort_by_key(|(at, _)| *at);
    // Those of a batch are never hedged.
    let asks = many(asks, MS(500), true).into_iter().map(|ask| Ask { feature: "slow", ..ask }).collect();
    let left = run(Plan { hedge, ..Plan::scenario(asks, faults) }, &[]);
    all_answered(&left);
    left
}

fn hedged(left: &Left) -> Vec<&crate::client::Fate> {
    left.fates.iter().filter(|fate| fate.reasons.split(',').any(|reason| reason == "hedged")).collect()
}

#[test]
fn a_late_first_token_is_overtaken_by_a_second_attempt_within_the_retry_budget() {
    let left = one_becomes_slow(HedgeMode::Free, vec![], 120);
    let hedged = hedged(&left);
    assert!(!hedged.is_empty(), "{}", left.log.lines().join("\n"));
    // Each has two bodies somewhere, and one answer; the simulation's own checks hold that. A second one stays away where the
    // first answer comes while a connection to the slow device is still being made.
    let received: usize = left.tiers.iter().map(|tier| tier.received.lock().unwrap().len()).sum();
    assert!(received > 120 + hedged.len() / 2 && hedged.len() <= 10 + 120 / 5, "{received} {}", hedged.len());
    let soon = hedged.iter().filter(|fate| fate.head.unwrap() - fate.sent < MS(800)).count();
    assert!(soon > 0, "sooner than the slow device could have: {hedged:?}");
    // The control: without hedging each of them waits for the slow device.
    let without = one_becomes_slow(HedgeMode::Disabled, vec![], 120);
    assert!(self::hedged(&without).is_empty());
    assert!(without.fates.iter().any(|fate| fate.head.unwrap() - fate.sent > MS(800)), "{:?}", without.fates);
}

/// A request to the private tier, whose link is so slow that the snapshot changes while a connection is made.
fn changed_while_connecting(label: Class, change: Change) -> Left {
    let asks = vec![Ask { label: Some(label), ..ask(0, MS(500), true, "medium") }];
    let faults = vec![(MS(0), Fault::Latency(NODE, MS(400))), (MS(1_000), Fault::Snapshot(change))];
    run(Plan::scenario(asks, faults), &[])
}

#[test]
fn a_tier_that_leaves_while_a_connection_is_made_receives_nothing() {
    let left = changed_while_connecting(Class::Public, Change::Remove("node"));
    let fate = &left.fates[0];
    assert!(matches!(&fate.end, End::Refused { code, .. } if code == "permitted_tiers_unavailable"), "{fate:?}");
    assert!(fate.reasons.contains("stale_policy"), "{fate:?}");
    assert!(left.tiers.iter().all(|tier| tier.received.lock().unwrap().is_empty()));
    // The control: with a change that is none of its business it is answered there.
    all_answered(&changed_while_connecting(Class::Public, Change::Remove("cloud")));
}

#[test]
fn a_boundary_that_narrows_while_a_connection_is_made_holds_for_what_was_admitted_before() {
    let left = changed_while_connecting(Class::Internal, Change::Narrow);
    let fate = &left.fates[0];
    assert!(matches!(fate.end, End::Refused { .. }), "{fate:?}");
    assert!(left.tiers.iter().all(|tier| tier.received.lock().unwrap().is_empty()));
    all_answered(&changed_while_connecting(Class::Public, Change::Narrow));
}
