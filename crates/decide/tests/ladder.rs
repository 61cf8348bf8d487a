//! Ladders of any length, and tiers that are good at one thing.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod common;

use std::sync::Arc;

use common::{device, endpoint, fleet, policy, signals, view};
use terrace_contract::policy::Weights;
use terrace_contract::reason::Reason;
use terrace_contract::tier::TaskQuality;
use terrace_contract::trust::{Boundary, Class};
use terrace_decide::complexity::Verdict;
use terrace_decide::{FleetView, ModelChoice, Plan, Prefer, Signals, decide};

fn tiers(plan: &Plan) -> Vec<&str> {
    plan.attempts.iter().map(|attempt| attempt.tier.name.as_str()).collect()
}

/// Sixteen rungs, as many as a policy may have: four of devices, six private, six public, each dearer than the one before.
fn sixteen() -> FleetView {
    let mut view = view();
    view.tiers = (0..16u8)
        .map(|i| {
            let name = format!("t{i}");
            match i {
                0..4 => fleet(&name, 55, vec![device(&name, 0, 0)]),
                4..10 => endpoint(&name, Boundary::Private, &name, 55, 100_000 * u64::from(i)),
                _ => endpoint(&name, Boundary::Public, &name, 55, 100_000 * u64::from(i)),
            }
        })
        .collect();
    view
}

/// A general tier, one that is good at mathematics alone, and a cloud that is good at everything.
fn with_specialist() -> FleetView {
    let mut view = view();
    let mut specialist = endpoint("mathematician", Boundary::Private, "math-model", 40, 200_000);
    let capability = &mut Arc::make_mut(&mut specialist.tier).capability;
    capability.tasks = vec![TaskQuality { task: "math".into(), score: 91 }];
    view.tiers[1] = specialist;
    view
}

fn hard(task: Option<&str>) -> Signals {
    Signals { complexity: Verdict { task: task.map(str::to_owned), ..Verdict::complex() }, ..signals() }
}

#[test]
fn presets_are_the_published_ones() {
    let of = |w: Weights| [w.quality, w.latency, w.cost, w.privacy, w.availability];
    let presets = [
        (Prefer::Privacy, [25, 10, 10, 45, 10]),
        (Prefer::Latency, [20, 50, 10, 5, 15]),
        (Prefer::Cost, [20, 15, 50, 5, 10]),
        (Prefer::Quality, [60, 15, 5, 10, 10]),
    ];
    for (prefer, weights) in presets {
        assert_eq!(of(prefer.weights()), weights, "{prefer:?}");
        assert_eq!(weights.iter().sum::<u8>(), 100);
    }
}

#[test]
fn a_ladder_of_sixteen_is_walked_to_where_the_class_ends() {
    for (class, last) in [(Class::Public, 16), (Class::Internal, 10), (Class::Restricted, 10)] {
        let asked = Signals { class, ..signals() };
        let mut view = sixteen();
        // Whatever is down, the next of what is left and permitted answers, and nothing else is tried.
        for down in 0..16 {
            let plan = decide(&asked, &view, &policy(), 0.0);
            let mut tried: Vec<usize> = plan.attempts.iter().map(|attempt| attempt.tier.index).collect();
            assert_eq!(tried.first().copied(), (down < last).then_some(down), "{class}: {:?}", tiers(&plan));
            tried.sort_unstable();
            assert_eq!(tried, (down..last).collect::<Vec<_>>(), "{class}");
            match &mut view.tiers[down].serving {
                terrace_decide::Serving::Devices(devices) => devices.clear(),
                terrace_decide::Serving::Endpoint(endpoint) => endpoint.credential = false,
            }
        }
    }
}

#[test]
fn a_hard_task_goes_to_the_tier_that_is_good_at_it() {
    let (view, policy) = (with_specialist(), policy());
    let of = |signals: &Signals| decide(signals, &view, &policy, 0.0);
    let mathematics = of(&hard(Some("math")));
    assert_eq!(tiers(&mathematics)[0], "mathematician");
    assert_eq!(mathematics.attempts[0].reasons, [Reason::Complex, Reason::BestScore]);
    let law = of(&hard(Some("legal")));
    assert_eq!(tiers(&law)[0], "cloud", "it is no better at that than at anything else");
    assert!(law.attempts.iter().all(|attempt| attempt.tier.name == "cloud" || attempt.degraded));
    let easy = Signals { complexity: Verdict { task: Some("math".into()), ..Verdict::simple() }, ..signals() };
    assert_eq!(tiers(&of(&easy))[0], "edge", "an easy sum needs no mathematician");
}

#[test]
fn a_specialist_is_chosen_by_its_models_name() {
    let named = Signals { model: ModelChoice::parse("math-model"), ..signals() };
    let plan = decide(&named, &with_specialist(), &policy(), 0.0);
    assert_eq!(tiers(&plan), ["mathematician"]);
    assert_eq!(plan.attempts[0].reasons[0], Reason::ModelRequested);
}
