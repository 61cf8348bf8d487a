//! Which device of a tier.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod common;

use common::{deadline, device, devices, policy, signals, view};
use terrace_contract::policy::{OnMiss, Policy, Strategy};
use terrace_contract::reason::Reason;
use terrace_decide::{DeviceView, FleetView, Plan, decide};

fn with(fleet: Vec<DeviceView>) -> FleetView {
    let mut view = view();
    *devices(&mut view) = fleet;
    view
}

fn by(strategy: Strategy) -> Policy {
    Policy { selection: strategy, ..policy() }
}

fn names(plan: &Plan) -> Vec<String> {
    let first = plan.attempts.first();
    first.map_or_else(Vec::new, |a| a.devices.iter().map(|d| d.node.trim_start_matches("node-").to_owned()).collect())
}

/// Slower by a factor.
fn slow(mut d: DeviceView, factor: f64) -> DeviceView {
    let load = &mut d.report.as_mut().unwrap().load;
    load.prefill_rate /= factor;
    load.step_base_us *= factor;
    load.step_per_sequence_us *= factor;
    d
}

fn aged(mut d: DeviceView, age_us: u64) -> DeviceView {
    d.report.as_mut().unwrap().age_us = age_us;
    d
}

#[test]
fn finish_first_takes_the_one_that_finishes_first_and_keeps_the_next_for_a_refusal() {
    let fleet = vec![slow(device("slow", 0, 0), 1.5), device("busy", 4, 3), device("fast", 1, 0)];
    let plan = decide(&signals(), &with(fleet), &by(Strategy::ShortestExpectedCompletion), 0.0);
    assert_eq!(names(&plan), ["fast", "slow"]);
}

#[test]
fn best_fit_keeps_the_fast_ones_free_as_long_as_the_budget_is_made() {
    let fleet = || vec![device("fast", 0, 0), slow(device("slow", 0, 0), 2.0)];
    let mut relaxed = signals();
    relaxed.deadline = deadline(5_000, 20_000, OnMiss::Overflow);
    assert_eq!(names(&decide(&relaxed, &with(fleet()), &by(Strategy::BestFit), 0.0)), ["slow", "fast"]);
    relaxed.deadline = deadline(500, 2_000, OnMiss::Overflow);
    assert_eq!(names(&decide(&relaxed, &with(fleet()), &by(Strategy::BestFit), 0.0))[0], "fast");
}

#[test]
fn round_robin_takes_turns() {
    let mut view = with(vec![device("a", 0, 0), device("b", 0, 0), device("c", 0, 0)]);
    let mut taken = Vec::new();
    for turn in 0..4 {
        view.tiers[0].turn = turn;
        taken.push(names(&decide(&signals(), &view, &by(Strategy::RoundRobin), 0.7)).remove(0));
    }
    assert_eq!(taken, ["a", "b", "c", "a"]);
}

#[test]
fn least_requests_counts_what_was_sent_since_the_report() {
    let mut busy = device("a", 1, 0);
    busy.own_since_report = 2;
    let fleet = vec![busy, device("b", 2, 0)];
    assert_eq!(names(&decide(&signals(), &with(fleet), &by(Strategy::LeastRequests), 0.0)), ["b", "a"]);
}

#[test]
fn power_of_two_compares_two_and_draws_every_pair() {
    let fleet: Vec<_> = (0..4).map(|i| device(&i.to_string(), i, 0)).collect();
    let view = with(fleet);
    let mut taken = [0i32; 4];
    for i in 0..1200 {
        let plan = decide(&signals(), &view, &by(Strategy::PowerOfTwo), f64::from(i) / 1200.0);
        taken[names(&plan)[0].parse::<usize>().unwrap()] += 1;
    }
    for (n, expected) in taken.into_iter().zip([600i32, 400, 200, 0]) {
        assert!((n - expected).abs() <= 3, "{taken:?}: of six pairs the idlest is in three, the busiest wins none");
    }
}

#[test]
fn equal_devices_share_by_the_draw_whichever_of_them_are_up() {
    for up in [&[0, 1, 2, 3][..], &[0, 5, 6, 7], &[2, 9]] {
        let ready = |i: usize| DeviceView { ready: up.contains(&i), ..device(&i.to_string(), 0, 0) };
        let view = with((0..10).map(ready).collect());
        let mut taken = [0usize; 10];
        for i in 0..4_000 {
            let plan = decide(&signals(), &view, &policy(), f64::from(i) / 4_000.0);
            taken[names(&plan)[0].parse::<usize>().unwrap()] += 1;
        }
        let share = 4_000 / up.len();
        assert!(up.iter().all(|&i| taken[i].abs_diff(share) < share / 8), "{up:?}: {taken:?}");
    }
}

#[test]
fn own_dispatches_since_the_report_count_at_once() {
    let mut a = device("a", 0, 0);
    (a.own_since_report, a.own_prompt_tokens_since_report) = (3, 900);
    assert_eq!(names(&decide(&signals(), &with(vec![a, device("b", 1, 0)]), &policy(), 0.0)), ["b", "a"]);
}

#[test]
fn a_fresh_report_goes_before_a_stale_one_and_a_silent_device_is_out() {
    let fleet =
        vec![aged(device("stale", 0, 0), 2_000_001), device("fresh", 3, 0), aged(device("silent", 0, 0), 10_000_001)];
    let plan = decide(&signals(), &with(fleet), &policy(), 0.0);
    assert_eq!(names(&plan), ["fresh", "stale"]);
    assert!(plan.ruled_out.iter().any(|r| r.device == Some(2) && r.reason == Reason::StaleLoad));
}

#[test]
fn among_stale_ones_own_requests_in_flight_decide() {
    let mut a = aged(device("a", 0, 0), 5_000_000);
    a.own_in_flight = 3;
    let b = aged(device("b", 4, 3), 5_000_000);
    for draw in [0.0, 0.4, 0.9] {
        assert_eq!(names(&decide(&signals(), &with(vec![a.clone(), b.clone()]), &policy(), draw))[0], "b");
    }
}

#[test]
fn a_cold_device_is_neither_idle_nor_loaded() {
    let mut cold = device("cold", 0, 0);
    cold.report = None;
    let of = |others: [u32; 2]| {
        let fleet = vec![device("a", others[0], 0), cold.clone(), device("b", others[1], 0)];
        names(&decide(&signals(), &with(fleet), &policy(), 0.0)).remove(0)
    };
    assert_eq!(of([0, 2]), "a", "an idle device is better than an unknown one");
    assert_eq!(of([2, 2]), "a", "an unknown one is no better than the mean");
}

#[test]
fn a_prefix_in_the_cache_counts_among_nearly_equals_only() {
    let mut warm = device("warm", 1, 0);
    warm.cached_tokens = 30;
    let first = |warm: &DeviceView, other| {
        names(&decide(&signals(), &with(vec![device("other", other, 0), warm.clone()]), &policy(), 0.0)).remove(0)
    };
    assert_eq!(first(&warm, 0), "warm");
    warm.report.as_mut().unwrap().load = common::load(4, 3);
    assert_eq!(first(&warm, 0), "other", "affinity yields to imbalance");
}

#[test]
fn corrections_stretch_forecasts() {
    let mut a = device("a", 0, 0);
    (a.correction, a.pace) = (3.0, 3.0);
    assert_eq!(names(&decide(&signals(), &with(vec![a, device("b", 2, 0)]), &policy(), 0.0)), ["b", "a"]);
}

#[test]
fn the_forecast_is_the_formula() {
    let plan = decide(&signals(), &with(vec![device("a", 1, 0)]), &policy(), 0.0);
    // rtt 500 us; 30 tokens at 0.8 x 500 a second; 64 steps of 20 ms + 1 ms x 2 sequences.
    let first = 500.0 + 30.0 / 400.0 * 1e6;
    let forecast = plan.attempts[0].forecast;
    assert!((forecast.first_token_us - first).abs() < 1e-6, "{forecast:?}");
    assert!((forecast.finish_us - first - 64.0 * 22_000.0).abs() < 1e-6, "{forecast:?}");
}
