//! What must never happen, whatever the fleet, the policy and the request are.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod common;

use common::{device, endpoint, fleet, policy, signals};
use proptest::prelude::*;
use terrace_contract::policy::{Degrade, OnMiss, OverflowMode, Policy, Priority, Strategy as Selection, Weights};
use terrace_contract::reason::Reason;
use terrace_contract::trust::{Boundaries, Boundary, Class};
use terrace_decide::complexity::Verdict;
use terrace_decide::view::Report;
use terrace_decide::{
    BreakerState, Deadline, DeviceView, FleetView, ModelChoice, Outcome, OverflowWindow, Prefer, RuledOut, Serving,
    Signals, TierView, decide,
};

fn one_of<T: Clone + std::fmt::Debug + 'static>(values: &[T]) -> impl Strategy<Value = T> + use<T> {
    prop::sample::select(values.to_vec())
}

fn breaker() -> impl Strategy<Value = BreakerState> {
    one_of(&[BreakerState::Closed, BreakerState::Closed, BreakerState::HalfOpen, BreakerState::Open])
}

prop_compose! {
    fn any_device()(
        running in 0..6u32, queued in 0..6u32, ready in prop::bool::weighted(0.9), breaker in breaker(),
        age_us in one_of(&[None, Some(0u64), Some(1_999_999), Some(5_000_000), Some(60_000_000)]),
        own in 0..9u32, cached_tokens in 0..200u32, rate in one_of(&[0.0, 1.0, 500.0, 1e9]), correction in 0.1..10.0f64,
        own_slack_us in one_of(&[None, Some(0u64), Some(1_000_000)]),
    ) -> DeviceView {
        let mut d = device("d", running, queued);
        d.report = age_us.map(|age_us| {
            let mut report = Report { age_us, ..d.report.unwrap() };
            report.load.prefill_rate = rate;
            report
        });
        DeviceView {
            ready, breaker, own_in_flight: own, own_since_report: own, own_slack_us, cached_tokens, correction,
            pace: 1.0 / correction, ..d
        }
    }
}

prop_compose! {
    fn any_rung()(
        boundary in one_of(&[Boundary::Device, Boundary::Private, Boundary::Public]), quality in 0..=100u8,
        price in one_of(&[0u64, 1_000_000]), devices in prop::collection::vec(any_device(), 0..5), breaker in breaker(),
        credential in prop::bool::weighted(0.9), left in one_of(&[None, Some(0u32), Some(9)]),
    ) -> TierView {
        if boundary == Boundary::Device {
            return fleet("f", quality, devices);
        }
        let mut tier = endpoint("e", boundary, "model", quality, price);
        if let Serving::Endpoint(e) = &mut tier.serving {
            (e.breaker, e.credential, e.concurrency_left) = (breaker, credential, left);
        }
        tier
    }
}

prop_compose! {
    fn any_view()(
        mut tiers in prop::collection::vec(any_rung(), 0..5), snapshot_age_us in one_of(&[0u64, 7_200_000_000]),
        requests in 0..200u32, overflowed in 0..200u32, spend_left_micros in one_of(&[None, Some(0u64)]),
    ) -> FleetView {
        tiers.sort_by_key(|t| t.tier.boundary);
        FleetView {
            tiers, now_us: 1, snapshot_age_us, domain: String::new(),
            overflow: OverflowWindow { requests, overflowed }, spend_left_micros,
        }
    }
}

prop_compose! {
    fn any_policy()(
        parts in prop::array::uniform4(0..=25u8),
        boundaries in prop::array::uniform4(one_of(&[Boundary::Device, Boundary::Private, Boundary::Public])),
        selection in one_of(&[Selection::ShortestExpectedCompletion, Selection::BestFit, Selection::RoundRobin,
            Selection::LeastRequests, Selection::PowerOfTwo]),
        mode in one_of(&[OverflowMode::Disabled, OverflowMode::Saturated, OverflowMode::Predicted]),
        max_percent in 0..=100u8, degrade in one_of(&[Degrade::Mark, Degrade::Fail]),
    ) -> Policy {
        let [quality, latency, cost, privacy] = parts;
        let availability = 100 - parts.iter().sum::<u8>();
        let mut policy = policy();
        policy.weights = Weights { quality, latency, cost, privacy, availability };
        // Not necessarily sound: an unsound one must be read narrowly.
        let [public, internal, confidential, restricted] = boundaries;
        policy.sensitivity.boundaries = Boundaries { public, internal, confidential, restricted };
        policy.selection = selection;
        policy.overflow.mode = mode;
        policy.overflow.max_percent = max_percent;
        policy.degrade = degrade;
        policy
    }
}

prop_compose! {
    fn any_signals()(
        class in one_of(&Class::ALL), complex in any::<bool>(), prompt_tokens in 0..5000u32,
        expected_output_tokens in 1..500u32,
        prefer in one_of(&[None, Some(Prefer::Privacy), Some(Prefer::Latency), Some(Prefer::Cost), Some(Prefer::Quality)]),
        model in one_of(&["auto", "auto", "auto", "model", "none"]), escalate_from in one_of(&[None, None, Some(0usize)]),
        on_miss in one_of(&[OnMiss::Overflow, OnMiss::Degrade, OnMiss::Reject]),
        priority in one_of(&[Priority::Interactive, Priority::Batch]),
        budget in one_of(&[None, Some(0u64), Some(50_000), Some(10_000_000)]),
    ) -> Signals {
        let complexity = if complex { Verdict::complex() } else { Verdict::simple() };
        let deadline =
            budget.map(|first| Deadline { first_token_us: first, total_us: first * 4, on_miss, priority });
        let model = ModelChoice::parse(model);
        Signals {
            class, complexity, prompt_tokens, expected_output_tokens, likely_output_tokens: 2 * expected_output_tokens,
            prefer, model, escalate_from, deadline, ..signals()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// No weight, preference, load, staleness or outage widens a boundary.
    #[test]
    fn no_attempt_goes_beyond_the_class(s in any_signals(), v in any_view(), p in any_policy(), draw in 0.0..1.0f64) {
        let plan = decide(&s, &v, &p, draw);
        for attempt in &plan.attempts {
            let tier = &v.tiers[attempt.tier.index].tier;
            prop_assert_eq!(p.sensitivity.permits(s.class, tier, v.snapshot_age_us), Ok(()));
            prop_assert!(s.class < Class::Restricted || tier.boundary < Boundary::Public);
            prop_assert!(s.class == Class::Public || tier.boundary < Boundary::Public || v.snapshot_age_us == 0);
        }
    }

    /// What was ruled out as a constraint is never tried, and is never scored if it is not permitted.
    #[test]
    fn constraints_come_before_preferences(s in any_signals(), v in any_view(), p in any_policy(), draw in 0.0..1.0f64) {
        let plan = decide(&s, &v, &p, draw);
        for out in plan.ruled_out.iter().filter(|o| o.reason != Reason::PredictedLate) {
            for attempt in plan.attempts.iter().filter(|a| a.tier.index == out.tier) {
                // What is only believed of a place is found out where nothing else is left, and nowhere else.
                let is_belief = matches!(out.reason, Reason::BreakerOpen | Reason::StaleLoad);
                if attempt.insists && (is_belief || out.device.is_none()) {
                    prop_assert!(attempt.reasons.iter().any(|r| matches!(r, Reason::BreakerOpen | Reason::StaleLoad)));
                    prop_assert!(plan.attempts.iter().all(|other| other.insists));
                    continue;
                }
                match out.device {
                    None => prop_assert!(false, "{:?} tried though {:?}", attempt.tier, out.reason),
                    Some(device) => prop_assert!(attempt.devices.iter().all(|d| d.index != device)),
                }
            }
            let permanent = matches!(out.reason, Reason::Boundary | Reason::StalePolicy | Reason::Residency
                | Reason::Model | Reason::Capability | Reason::ContextLength);
            prop_assert!(!permanent || plan.scores.iter().all(|scored| scored.tier != out.tier));
        }
    }

    /// The relation between what the fleet can do and whether there is a plan.
    #[test]
    fn there_is_a_plan_exactly_when_something_may_be_tried(
        s in any_signals(), v in any_view(), p in any_policy(), draw in 0.0..1.0f64,
    ) {
        let plan = decide(&s, &v, &p, draw);
        prop_assert_eq!(plan.outcome == Outcome::Go, !plan.attempts.is_empty());
        // Without caps, degrading forbidden or rejecting, a permitted tier that is up and able is always tried.
        let free = p.overflow.max_percent == 100 && v.overflow.overflowed <= v.overflow.requests
            && p.overflow.mode != OverflowMode::Disabled
            && s.deadline.is_none_or(|d| d.on_miss == OnMiss::Overflow);
        let from = plan.decided.as_ref().map_or(0, |d| d.index);
        let up = |tier: usize| !plan.ruled_out.iter().any(|o| {
            o.tier == tier && o.device.is_none() && o.reason != Reason::PredictedLate && o.reason != Reason::OverflowCapped
        });
        let possible = plan.scores.iter().any(|scored| {
            up(scored.tier) && ((scored.able && scored.tier >= from) || (scored.tier < from && p.degrade == Degrade::Mark))
        });
        // With nothing else left, what is only believed to be down is tried.
        let insists = plan.attempts.iter().any(|a| a.insists);
        let believed = |o: &RuledOut| matches!(o.reason, Reason::BreakerOpen | Reason::StaleLoad);
        prop_assert!(!insists || plan.ruled_out.iter().any(believed), "{:?}", plan);
        if free {
            prop_assert!(!(insists && possible), "{:?}", plan);
            prop_assert_eq!(!plan.attempts.is_empty(), possible || insists, "{:?}", plan);
        }
    }

    /// A plan is sound in itself.
    #[test]
    fn no_tier_or_device_is_tried_twice_and_marks_are_true(
        s in any_signals(), v in any_view(), p in any_policy(), draw in 0.0..1.0f64,
    ) {
        let plan = decide(&s, &v, &p, draw);
        let mut tiers: Vec<usize> = plan.attempts.iter().map(|a| a.tier.index).collect();
        tiers.sort_unstable();
        tiers.dedup();
        prop_assert_eq!(tiers.len(), plan.attempts.len());
        for a in &plan.attempts {
            let decided = plan.decided.as_ref().map(|d| d.index).unwrap();
            prop_assert_eq!(a.overflow, a.tier.index > decided);
            prop_assert_eq!(a.degraded, a.tier.index < decided);
            prop_assert!(!a.degraded || p.degrade == Degrade::Mark);
            prop_assert!(s.escalate_from.is_none_or(|from| a.tier.index > from));
            prop_assert!(a.devices.len() <= 2);
            prop_assert!(a.devices.len() < 2 || a.devices[0].index != a.devices[1].index);
            let is_fleet = matches!(v.tiers[a.tier.index].serving, Serving::Devices(_));
            prop_assert_eq!(is_fleet, !a.devices.is_empty());
            prop_assert!(a.forecast.finish_us.is_finite() && a.forecast.finish_us >= a.forecast.first_token_us);
            prop_assert!(!a.reasons.is_empty());
            let able = plan.scores.iter().any(|scored| scored.tier == a.tier.index && scored.able);
            prop_assert!(able || a.degraded, "a tier that cannot do it is tried unmarked");
        }
    }

    /// The same inputs give the same plan.
    #[test]
    fn decisions_repeat(s in any_signals(), v in any_view(), p in any_policy(), draw in 0.0..1.0f64) {
        prop_assert_eq!(decide(&s, &v, &p, draw), decide(&s, &v, &p, draw));
    }
}
