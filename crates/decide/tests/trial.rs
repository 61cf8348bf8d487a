//! Devices that have not shown yet how fast they are, budgets by the answer's likely length, and what others lose.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod common;

use common::{deadline, device, devices, policy, signals, view};
use terrace_contract::policy::{OnMiss, Policy, Strategy};
use terrace_decide::{DeviceView, FleetView, Plan, decide};

fn with(fleet: Vec<DeviceView>) -> FleetView {
    let mut view = view();
    *devices(&mut view) = fleet;
    view
}

fn first(plan: &Plan) -> &str {
    plan.attempts[0].devices.first().map_or("", |d| d.node.trim_start_matches("node-"))
}

/// Has said that it is there, and has measured nothing.
fn unmeasured(name: &str) -> DeviceView {
    let mut d = device(name, 0, 0);
    let load = &mut d.report.as_mut().unwrap().load;
    (load.prefill_rate, load.step_base_us, load.step_per_sequence_us) = (0.0, 0.0, 0.0);
    d
}

/// How many of a thousand draws choose a device.
fn chosen(view: &FleetView, policy: &Policy, name: &str) -> usize {
    (0..1000).filter(|i| first(&decide(&signals(), view, policy, f64::from(*i) / 1000.0)) == name).count()
}

#[test]
fn an_unmeasured_device_gets_its_share_one_request_at_a_time() {
    for strategy in [Strategy::ShortestExpectedCompletion, Strategy::BestFit] {
        let policy = Policy { selection: strategy, ..policy() };
        let mut fleet: Vec<DeviceView> = (0..9).map(|i| device(&i.to_string(), 0, 0)).collect();
        // Farther away, so that by forecast alone it would never be chosen.
        fleet.push(DeviceView { rtt_us: Some(5_000), ..unmeasured("new") });
        let n = chosen(&with(fleet.clone()), &policy, "new");
        assert!((90..=110).contains(&n), "{strategy:?}: {n} of 1000 with ten devices");
        fleet[9].own_in_flight = 1;
        fleet[9].own_since_report = 1;
        let n = chosen(&with(fleet), &policy, "new");
        assert!(n < 20, "{strategy:?}: {n}: nothing more until the first answer has shown how fast it is");
    }
}

#[test]
fn when_none_is_measured_all_are_tried() {
    let view = with((0..4).map(|i| unmeasured(&i.to_string())).collect());
    for name in ["0", "1", "2", "3"] {
        let n = chosen(&view, &policy(), name);
        assert!((200..=300).contains(&n), "{name}: {n}");
    }
}

#[test]
fn a_budget_is_kept_by_the_likely_length_not_the_expected_one() {
    let mut signals = signals();
    signals.deadline = deadline(2_000, 4_000, OnMiss::Overflow);
    let of = |signals: &_| decide(signals, &with(vec![device("a", 0, 0)]), &policy(), 0.0);
    assert!(!of(&signals).attempts[0].overflow, "64 tokens of 21 ms after 75 ms");
    signals.likely_output_tokens = 200;
    assert!(of(&signals).attempts[0].overflow, "200 of them do not fit into 3.6 s");
}

#[test]
fn a_prompt_goes_where_it_makes_no_answer_late_that_has_begun() {
    let mut pressed = device("pressed", 0, 0);
    pressed.own_slack_us = Some(10_000);
    let mut signals = signals();
    signals.deadline = deadline(2_000, 10_000, OnMiss::Overflow);
    let fleet = vec![pressed.clone(), device("calm", 2, 0)];
    assert_eq!(first(&decide(&signals, &with(fleet), &policy(), 0.0)), "calm");
    pressed.own_slack_us = Some(1_000_000);
    let fleet = vec![pressed, device("calm", 2, 0)];
    assert_eq!(first(&decide(&signals, &with(fleet), &policy(), 0.0)), "pressed");
}

#[test]
fn what_the_others_lose_counts() {
    // Three others would wait for this prompt; the idle device is slower by less than that.
    let mut slow = device("slow", 0, 0);
    slow.report.as_mut().unwrap().load.prefill_rate = 400.0;
    let mut signals = signals();
    signals.prompt_tokens = 300;
    let fleet = vec![device("shared", 3, 0), slow];
    assert_eq!(first(&decide(&signals, &with(fleet), &policy(), 0.0)), "slow");
}
