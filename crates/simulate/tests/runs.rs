//! What must hold of every run, whatever the strategy.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod common;

use common::{by, device, of_class, share, trace, world};
use terrace_contract::trust::Class;
use terrace_decide::select::Selection;
use terrace_simulate::world::{Fault, FaultKind, Places};
use terrace_simulate::{Options, run};

#[test]
fn every_request_ends_once_and_every_count_is_taken_back() {
    let trace = trace(1_500, 3.0);
    for selection in Selection::ALL {
        for routers in [1, 3] {
            let mut world = world();
            world.routers = routers;
            let outcome = by(&world, &trace, selection);
            assert_eq!(outcome.left_in_flight, 0, "{selection:?}");
            let answered: f64 = outcome.share_by_tier.iter().map(|(_, share)| share).sum();
            assert!(answered > 95.0, "{selection:?}: {outcome:?}");
        }
    }
}

#[test]
fn a_seed_repeats_and_another_differs() {
    let (trace, world) = (trace(400, 3.0), world());
    let of = |seed: u64| run(&world, &trace, &Options { selection: Selection::BestFit, load: 1.0, seed });
    assert_eq!(of(1), of(1));
    assert_ne!(of(1).total_ms, of(2).total_ms);
}

#[test]
fn more_load_overflows_more_and_without_load_nothing_does() {
    let (trace, world) = (trace(1_000, 1.0), world());
    let of =
        |load: f64| run(&world, &trace, &Options { selection: Selection::ShortestExpectedCompletion, load, seed: 1 });
    let (calm, busy) = (of(0.05), of(6.0));
    assert!(calm.overflow_percent < 1.0, "{calm:?}");
    assert!(busy.overflow_percent > 20.0, "{busy:?}");
    assert!(busy.cost > calm.cost);
    // It was measured against the time in which requests came, which is nothing for a single one.
    let (flood, one) = (of(50.0), by(&world, &self::trace(1, 1.0), Selection::BestFit));
    for outcome in [&calm, &busy, &flood, &one] {
        assert!(outcome.busy_percent > 0.0 && outcome.busy_percent <= 100.0, "{outcome:?}");
    }
}

#[test]
fn what_may_not_leave_is_sent_nowhere_else_even_when_everything_fails() {
    let mut world = of_class(world(), Class::Confidential);
    let down = |device, from_us, until_us| Fault { rung: 0, device, kind: FaultKind::Down, from_us, until_us };
    world.faults = vec![down(None, 50_000_000, 100_000_000), down(Some(0), 150_000_000, 300_000_000)];
    for selection in Selection::ALL {
        let outcome = by(&world, &trace(1_000, 4.0), selection);
        assert_eq!(share(&outcome.sent_by_tier, "cloud"), 0.0, "{selection:?}");
        assert!(outcome.refused_percent > 1.0, "{outcome:?}");
        assert_eq!(outcome.left_in_flight, 0);
    }
    let public = by(&of_class(world, Class::Public), &trace(1_000, 4.0), Selection::BestFit);
    assert!(share(&public.sent_by_tier, "cloud") > 10.0, "the positive control: {public:?}");
}

#[test]
fn a_device_that_dies_costs_its_own_answers_and_no_more() {
    let mut world = world();
    world.faults =
        vec![Fault { rung: 0, device: Some(0), kind: FaultKind::Down, from_us: 100_000_000, until_us: 250_000_000 }];
    let outcome = by(&world, &trace(600, 1.5), Selection::ShortestExpectedCompletion);
    assert!(outcome.broken_percent < 1.0, "{outcome:?}");
    assert!(outcome.refused_percent < 1.0, "{outcome:?}");
}

#[test]
fn silent_devices_are_left_after_a_while_and_taken_back() {
    let (mut world, trace) = (world(), trace(900, 1.5));
    let of = |world: &_| by(world, &trace, Selection::ShortestExpectedCompletion);
    // At this rate the devices cannot answer everything even when all is well: what counts is the part that is lost.
    let usual = share(&of(&world).share_by_tier, "edge");
    let (from_us, until_us) = (100_000_000, 200_000_000);
    world.faults = vec![Fault { rung: 0, device: None, kind: FaultKind::Silent, from_us, until_us }];
    let outcome = of(&world);
    let silent = (until_us - from_us) as f64 / trace.last().unwrap().at_us as f64;
    let near = share(&outcome.share_by_tier, "edge");
    assert!(near > usual * (1.0 - silent - 0.05), "taken back at once: {near} of {usual}, {outcome:?}");
    assert!(near < usual * (1.0 - silent / 2.0), "left while they are silent: {near} of {usual}");
    assert_eq!(outcome.left_in_flight, 0);
    assert!(outcome.late_percent < 5.0, "{outcome:?}");
}

#[test]
fn a_cold_device_neither_starves_nor_drowns() {
    // Twelve alike, all cold at first. Each has its own corrections, and who was unlucky early gets less until they are
    // forgotten (a half-life of five minutes, `correction`): after eight minutes shares differ still, by far less than
    // a factor after half an hour, and none is ever left out or sent everything.
    let mut world = world();
    let Places::Devices(devices) = &mut world.rungs[0].places else { panic!() };
    *devices = (0..12).map(|i| device(&format!("d-{i}"), 40.0)).collect();
    let alike = |outcome: &terrace_simulate::Outcome| {
        let answers = &outcome.answers_by_device[0].1;
        let mean = answers.iter().sum::<u64>() as f64 / answers.len() as f64;
        let (least, most) = (answers.iter().min().unwrap(), answers.iter().max().unwrap());
        (*least as f64 / mean, *most as f64 / mean)
    };
    let (short, long) = (trace(1_500, 3.0), trace(6_000, 3.0));
    for selection in [Selection::ShortestExpectedCompletion, Selection::BestFit] {
        // Over twelve seeds of either: 0.25 to 1.94 times the mean and 2.4 % late at most, then 0.67 to 1.45 and 0.6 %.
        for seed in 1..=4 {
            let of = |trace: &[_]| run(&world, trace, &Options { selection, load: 1.0, seed });
            let short = of(&short);
            let (least, most) = alike(&short);
            assert!(least > 0.2 && most < 2.2, "{selection:?}, {seed}: {:?}", short.answers_by_device);
            // Beside answers a step has a fifth of its time for prompts here: until that is learned, forecasts fall short.
            assert!(short.late_percent < 3.0, "{seed}: {short:?}");
            let long = of(&long);
            let (least, most) = alike(&long);
            assert!(least > 0.6 && most < 1.6, "{selection:?}, {seed}: {:?}", long.answers_by_device);
            assert!(long.late_percent < 1.0, "{seed}: {long:?}");
        }
    }
}

#[test]
fn prompts_that_begin_alike_find_each_other_on_a_device() {
    let mut world = world();
    let Places::Devices(devices) = &mut world.rungs[0].places else { panic!() };
    devices.iter_mut().for_each(|d| d.prefix_cache_tokens = 4_096);
    let trace = trace(800, 1.0);
    let ours = by(&world, &trace, Selection::ShortestExpectedCompletion);
    let blind = by(&world, &trace, Selection::LeastRequests);
    assert!(ours.cached_percent > 1.15 * blind.cached_percent, "{} {}", ours.cached_percent, blind.cached_percent);
}

#[test]
fn forecasts_are_honest() {
    let outcome = by(&world(), &trace(2_000, 2.0), Selection::ShortestExpectedCompletion);
    assert!((70.0..95.0).contains(&outcome.honest_first_token_percent), "{outcome:?}");
}

#[test]
fn old_reports_are_made_good_by_counting_own_dispatches() {
    let trace = trace(1_500, 4.0);
    let of = |own_dispatches: bool| {
        let mut world = world();
        (world.reports_every_us, world.own_dispatches) = (1_500_000, own_dispatches);
        by(&world, &trace, Selection::BestFit)
    };
    let (with, without) = (of(true), of(false));
    let bad = |o: &terrace_simulate::Outcome| o.overflow_percent + o.late_percent;
    assert!(bad(&with) < bad(&without), "{with:?}\n{without:?}");
}
