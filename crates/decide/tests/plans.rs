//! What is decided, case by case.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod common;

use common::{deadline, device, devices, far, policy, signals, view};
use terrace_contract::policy::{Degrade, OnMiss, OverflowMode, Policy, Priority, Residency};
use terrace_contract::reason::Reason;
use terrace_contract::tier::Feature;
use terrace_contract::trust::{Boundary, Class};
use terrace_decide::complexity::Verdict;
use terrace_decide::{
    BreakerState, FleetView, ModelChoice, Outcome, OverflowWindow, Plan, Prefer, Refusal, Signals, decide,
};

fn plan(signals: &Signals, view: &FleetView, policy: &Policy) -> Plan {
    decide(signals, view, policy, 0.0)
}

/// The order of a plan as one word: `edge(a,b) cloud+` (`+` overflow, `-` degraded, `?` only after a failure).
fn order(plan: &Plan) -> String {
    let attempt = |a: &terrace_decide::Attempt| {
        let devices: Vec<&str> = a.devices.iter().map(|d| d.node.trim_start_matches("node-")).collect();
        let devices = if devices.is_empty() { String::new() } else { format!("({})", devices.join(",")) };
        let mark = |on: bool, mark: &'static str| if on { mark } else { "" };
        let marks = [mark(a.overflow, "+"), mark(a.degraded, "-"), mark(a.only_after_failure, "?")].concat();
        format!("{}{devices}{marks}", a.tier.name)
    };
    plan.attempts.iter().map(attempt).collect::<Vec<_>>().join(" ")
}

fn refusal(plan: Plan) -> Refusal {
    assert!(plan.attempts.is_empty(), "{plan:?}");
    match plan.outcome {
        Outcome::Refuse(refusal) => refusal,
        Outcome::Go => panic!("not refused"),
    }
}

fn full(view: &mut FleetView) {
    *devices(view) = vec![device("a", 4, 4), device("b", 4, 4)];
}

fn down(view: &mut FleetView) {
    devices(view).iter_mut().for_each(|d| d.breaker = BreakerState::Open);
}

#[test]
fn a_simple_request_goes_to_the_nearest_and_the_rest_stand_by() {
    let plan = plan(&signals(), &view(), &policy());
    assert_eq!(order(&plan), "edge(a,b) private+ cloud+");
    assert_eq!(plan.attempts[0].reasons, [Reason::Nearest]);
    assert_eq!(plan.attempts[1].reasons, [Reason::OverflowDown]);
}

#[test]
fn a_complex_request_goes_to_a_tier_that_can_do_it() {
    let complex = Signals { complexity: Verdict::complex(), ..signals() };
    let decided = plan(&complex, &view(), &policy());
    assert_eq!(order(&decided), "private cloud+ edge(a,b)-");
    assert_eq!(decided.attempts[0].reasons, [Reason::Complex, Reason::BestScore]);
    let mut quality = policy();
    quality.weights = terrace_contract::policy::Weights::QUALITY_FIRST;
    assert_eq!(order(&plan(&complex, &view(), &quality)), "cloud private- edge(a,b)-");
}

#[test]
fn a_device_that_is_paid_by_the_hour_costs_what_an_answer_takes_of_it() {
    let cheap = Signals { prefer: Some(Prefer::Cost), ..signals() };
    assert!(order(&plan(&cheap, &view(), &policy())).starts_with("edge"));
    let mut rented = view();
    std::sync::Arc::make_mut(&mut rented.tiers[0].tier).cost.per_device_hour_micros = 100_000_000;
    let decided = plan(&cheap, &rented, &policy());
    assert!(order(&decided).starts_with("private"), "{}", order(&decided));
    assert_eq!(decided.attempts[0].reasons, [Reason::BestScore]);
    // A second and a half of it, in millionths; half an hour at no price costs nothing.
    let tier = &rented.tiers[0].tier;
    assert_eq!(terrace_decide::score::device_micros(tier, 1_500_000), 41_666);
    assert_eq!(terrace_decide::score::device_micros(&view().tiers[0].tier, 1_800_000_000), 0);
}

#[test]
fn a_sensitive_request_stays_inside_whatever_is_preferred() {
    for prefer in [None, Some(Prefer::Quality), Some(Prefer::Latency), Some(Prefer::Cost), Some(Prefer::Privacy)] {
        let sensitive = Signals { class: Class::Restricted, prefer, complexity: Verdict::complex(), ..signals() };
        let plan = plan(&sensitive, &view(), &policy());
        assert!(plan.attempts.iter().all(|a| a.tier.boundary <= Boundary::Private));
        assert!(plan.ruled_out.iter().any(|r| r.tier == 2 && r.reason == Reason::Boundary));
    }
}

#[test]
fn a_caller_may_prefer() {
    let of = |prefer| order(&plan(&Signals { prefer: Some(prefer), ..signals() }, &view(), &policy()));
    assert!(of(Prefer::Quality).starts_with("cloud"));
    assert!(of(Prefer::Cost).starts_with("edge"));
    assert!(of(Prefer::Privacy).starts_with("edge"));
}

#[test]
fn on_weak_hardware_a_long_answer_is_faster_from_far_away() {
    let mut slow = view();
    for d in devices(&mut slow) {
        let load = &mut d.report.as_mut().unwrap().load;
        (load.prefill_rate, load.step_base_us) = (10.0, 400_000.0);
    }
    let long = Signals { expected_output_tokens: 1000, ..signals() };
    let mut fast = policy();
    fast.weights = terrace_contract::policy::Weights::LATENCY_FIRST;
    assert!(!order(&plan(&long, &slow, &fast)).starts_with("edge"));
    assert!(order(&plan(&signals(), &view(), &fast)).starts_with("edge"));
}

#[test]
fn a_full_tier_overflows_unless_that_is_disabled() {
    let mut busy = view();
    full(&mut busy);
    let overflowed = plan(&signals(), &busy, &policy());
    assert_eq!(order(&overflowed), "private+ cloud+");
    assert_eq!(overflowed.attempts[0].reasons, [Reason::OverflowSaturated]);
    assert_eq!(overflowed.decided.as_ref().map(|t| t.name.as_str()), Some("edge"));
    assert!(overflowed.overflowed() && !overflowed.degraded());

    let mut disabled = policy();
    disabled.overflow.mode = OverflowMode::Disabled;
    assert!(matches!(refusal(plan(&signals(), &busy, &disabled)), Refusal::Overloaded { .. }));
    let mut gone = view();
    down(&mut gone);
    assert_eq!(order(&plan(&signals(), &gone, &disabled)), "private+ cloud+", "down is not full");
    assert_eq!(order(&plan(&signals(), &view(), &disabled)), "edge(a,b) private+? cloud+?");
}

#[test]
fn a_tier_that_is_down_is_left() {
    let mut gone = view();
    down(&mut gone);
    assert_eq!(plan(&signals(), &gone, &policy()).attempts[0].reasons, [Reason::OverflowDown]);
    devices(&mut gone).clear();
    let plan = plan(&signals(), &gone, &policy());
    assert_eq!(order(&plan), "private+ cloud+");
    assert!(plan.ruled_out.iter().any(|r| r.tier == 0 && r.reason == Reason::NoDevice));
}

#[test]
fn a_sensitive_request_with_its_tiers_gone_is_refused_and_never_goes_out() {
    let sensitive = Signals { class: Class::Restricted, ..signals() };
    let mut gone = view();
    devices(&mut gone).clear();
    far(&mut gone, 1).credential = false;
    assert!(matches!(refusal(plan(&sensitive, &gone, &policy())), Refusal::PermittedTiersUnavailable { .. }));
    let mut busy = view();
    full(&mut busy);
    far(&mut busy, 1).concurrency_left = Some(0);
    assert!(matches!(refusal(plan(&sensitive, &busy, &policy())), Refusal::PermittedTiersUnavailable { .. }));
    far(&mut busy, 2).concurrency_left = Some(0);
    assert!(matches!(refusal(plan(&signals(), &busy, &policy())), Refusal::Overloaded { .. }));
}

#[test]
fn what_is_only_believed_to_be_down_is_tried_when_nothing_else_is_left() {
    let sensitive = Signals { class: Class::Restricted, ..signals() };
    let mut doubted = view();
    down(&mut doubted);
    far(&mut doubted, 1).breaker = BreakerState::Open;
    let tried = plan(&sensitive, &doubted, &policy());
    assert_eq!(order(&tried), "edge(a,b) private+", "and nothing past the boundary");
    assert!(tried.attempts.iter().all(|attempt| attempt.insists && attempt.reasons.contains(&Reason::BreakerOpen)));
    // Whatever else is left is better.
    far(&mut doubted, 1).breaker = BreakerState::Closed;
    let elsewhere = plan(&sensitive, &doubted, &policy());
    assert_eq!((order(&elsewhere).as_str(), elsewhere.attempts[0].insists), ("private+", false));
    // A device that has not been heard of for long; but not one that is not ready, or full.
    let mut silent = view();
    silent.tiers.truncate(1);
    devices(&mut silent).iter_mut().for_each(|d| d.report.as_mut().unwrap().age_us = 60_000_000);
    let tried = plan(&sensitive, &silent, &policy());
    assert_eq!((order(&tried).as_str(), tried.attempts[0].reasons.as_slice()), ("edge(a,b)", &[Reason::StaleLoad][..]));
    devices(&mut silent)[0].ready = false;
    assert_eq!(order(&plan(&sensitive, &silent, &policy())), "edge(b)");
    devices(&mut silent)[1].ready = false;
    refusal(plan(&sensitive, &silent, &policy()));
    // One that waits for room has somewhere to go.
    let mut full_and_doubted = view();
    full(&mut full_and_doubted);
    far(&mut full_and_doubted, 1).breaker = BreakerState::Open;
    refusal(plan(&sensitive, &full_and_doubted, &policy()));
}

#[test]
fn a_late_tier_is_left_only_for_one_in_time() {
    let mut busy = view();
    *devices(&mut busy) = vec![device("a", 4, 2)];
    let urgent = Signals { deadline: deadline(500, 3000, OnMiss::Overflow), ..signals() };
    let left = plan(&urgent, &busy, &policy());
    assert_eq!(order(&left), "private+ cloud+ edge(a)");
    assert_eq!(left.attempts[0].reasons, [Reason::OverflowPredicted]);

    far(&mut busy, 1).rtt_us = Some(900_000);
    far(&mut busy, 2).rtt_us = Some(900_000);
    let stays = plan(&urgent, &busy, &policy());
    assert_eq!(order(&stays), "edge(a) private+ cloud+");
    assert!(stays.attempts[0].reasons.contains(&Reason::PredictedLate));

    let mut saturated = policy();
    saturated.overflow.mode = OverflowMode::Saturated;
    far(&mut busy, 1).rtt_us = Some(1_000);
    assert!(order(&plan(&urgent, &busy, &saturated)).starts_with("edge"), "a forecast is no reason in this mode");
}

#[test]
fn a_miss_is_rejected_or_degraded_as_the_budget_says() {
    let mut busy = view();
    *devices(&mut busy) = vec![device("a", 4, 2)];
    let reject = Signals { deadline: deadline(500, 3000, OnMiss::Reject), ..signals() };
    assert!(matches!(refusal(plan(&reject, &busy, &policy())), Refusal::BudgetExceeded { .. }));

    let hard = Verdict::complex();
    let degrade = Signals { deadline: deadline(500, 3000, OnMiss::Degrade), complexity: hard, ..signals() };
    let mut slow = view();
    far(&mut slow, 1).queue_us = 5_000_000;
    far(&mut slow, 2).queue_us = 5_000_000;
    let nearer = plan(&degrade, &slow, &policy());
    assert!(nearer.degraded(), "{}", order(&nearer));
    assert_eq!(order(&nearer).split(' ').next(), Some("edge(a,b)-"));
}

#[test]
fn past_the_share_of_overflow_the_answer_is_degraded_or_refused() {
    let spent = OverflowWindow { requests: 100, overflowed: 30 };
    let mut busy = FleetView { overflow: spent, ..view() };
    full(&mut busy);
    assert!(matches!(refusal(plan(&signals(), &busy, &policy())), Refusal::OverflowCapped { max_percent: 30, .. }));
    busy.overflow.overflowed = 29;
    assert_eq!(order(&plan(&signals(), &busy, &policy())), "private+ cloud+");
    busy.overflow = OverflowWindow { requests: 3, overflowed: 3 };
    assert_eq!(order(&plan(&signals(), &busy, &policy())), "private+ cloud+", "a share of three says nothing");
    let mut none = policy();
    none.overflow.max_percent = 0;
    busy.overflow = OverflowWindow::default();
    assert!(matches!(refusal(plan(&signals(), &busy, &none)), Refusal::OverflowCapped { .. }));

    let complex = Signals { complexity: Verdict::complex(), ..signals() };
    let mut half = FleetView { overflow: spent, ..view() };
    far(&mut half, 1).credential = false;
    assert_eq!(order(&plan(&complex, &half, &policy())), "edge(a,b)-");
    let mut fail = policy();
    fail.degrade = Degrade::Fail;
    assert!(matches!(refusal(plan(&complex, &half, &fail)), Refusal::OverflowCapped { .. }));
}

#[test]
fn each_constraint_has_its_refusal() {
    let of = |signals: &Signals| refusal(plan(signals, &view(), &policy()));
    let named = |name: &str| ModelChoice::parse(name);
    assert_eq!(
        of(&Signals { model: named("huge"), ..signals() }),
        Refusal::ModelNotFound { known: ["small", "medium", "large"].map(str::to_owned).to_vec() }
    );
    let out_of_reach = Signals { model: named("large"), class: Class::Restricted, ..signals() };
    assert_eq!(of(&out_of_reach), Refusal::BoundaryDenied { class: Class::Restricted, widest: Boundary::Private });
    let vision = Signals { needs: vec![Feature::Tools, Feature::Vision], ..signals() };
    assert_eq!(of(&vision), Refusal::UnsupportedFeature { missing: vec![Feature::Vision] });
    let long = Signals { prompt_tokens: 4000, max_output_tokens: Some(97), ..signals() };
    assert_eq!(of(&long), Refusal::ContextTooLong { needed: 4097, limit: 4096 });
    // Several inputs are a context each, however many they are together.
    let several = Signals { longest_input_tokens: Some(4000), prompt_tokens: 40_000, ..long.clone() };
    assert_eq!(of(&several), Refusal::ContextTooLong { needed: 4097, limit: 4096 });
    let fits = Signals { longest_input_tokens: Some(3999), ..several };
    assert_eq!(plan(&fits, &view(), &policy()).outcome, Outcome::Go);
    let fits = Signals { max_output_tokens: Some(96), ..long };
    assert_eq!(plan(&fits, &view(), &policy()).outcome, Outcome::Go);
}

#[test]
fn a_named_model_is_served_by_its_tier_alone() {
    let plan = plan(&Signals { model: ModelChoice::parse("medium"), ..signals() }, &view(), &policy());
    assert_eq!(order(&plan), "private");
    assert_eq!(plan.attempts[0].reasons[0], Reason::ModelRequested);
}

#[test]
fn an_old_policy_is_not_now_and_a_narrow_one_is_never() {
    let mut wide = policy();
    wide.sensitivity.boundaries.internal = Boundary::Public;
    let internal = Signals { class: Class::Internal, model: ModelChoice::parse("large"), ..signals() };
    let old = FleetView { snapshot_age_us: 3_600_000_001, ..view() };
    assert!(matches!(refusal(plan(&internal, &old, &wide)), Refusal::PermittedTiersUnavailable { .. }));
    assert!(matches!(refusal(plan(&internal, &old, &policy())), Refusal::BoundaryDenied { .. }));

    let mut resident = policy();
    resident.sensitivity.residency = vec![Residency { class: Class::Public, regions: vec!["us-east".to_owned()] }];
    let denied = plan(&signals(), &view(), &resident);
    assert!(denied.ruled_out.iter().all(|r| r.reason == Reason::Residency));
    assert!(matches!(refusal(denied), Refusal::BoundaryDenied { .. }));
}

#[test]
fn an_endpoint_without_its_credential_or_its_limits_is_not_asked() {
    let model = Signals { model: ModelChoice::parse("large"), ..signals() };
    type Change = fn(&mut terrace_decide::EndpointView);
    let cases: [(Change, Reason); 5] = [
        (|e| e.credential = false, Reason::Credential),
        (|e| e.cooling_until_us = 1_000_001, Reason::RateLimited),
        (|e| e.requests_left = Some(0), Reason::RateLimited),
        (|e| e.tokens_left = Some(93), Reason::RateLimited),
        (|e| e.concurrency_left = Some(0), Reason::Saturated),
    ];
    for (change, reason) in cases {
        let mut view = view();
        change(far(&mut view, 2));
        let refused = plan(&model, &view, &policy());
        assert!(refused.ruled_out.iter().any(|r| r.tier == 2 && r.reason == reason), "{reason}");
        refusal(refused);
    }
    let mut poor = view();
    poor.spend_left_micros = Some(0);
    assert_eq!(order(&plan(&signals(), &poor, &policy())), "edge(a,b)", "what costs nothing stays");
    poor.now_us = 3 * 86_400_000_000 - 90_000_000;
    let spent = refusal(plan(&model, &poor, &policy()));
    assert_eq!(spent, Refusal::SpendLimit { retry_after_us: 90_000_000 }, "until the day ends");
    assert!(spent.to_string().ends_with("in 2 minutes"), "{spent}");
}

#[test]
fn locality_keeps_a_device_to_its_own_domain() {
    let mut sites = view();
    let tier = std::sync::Arc::make_mut(&mut sites.tiers[0].tier);
    tier.topology_key = Some("topology.kubernetes.io/zone".to_owned());
    std::sync::Arc::make_mut(&mut devices(&mut sites)[1].facts).domain = "z2".into();
    sites.domain = "z2".to_owned();
    assert_eq!(order(&plan(&signals(), &sites, &policy())), "edge(b) private+ cloud+");
    sites.domain = String::new();
    assert_eq!(order(&plan(&signals(), &sites, &policy())), "private+ cloud+", "an unknown domain is no domain");
}

#[test]
fn escalation_never_asks_the_same_rung_again() {
    let again = Signals { escalate_from: Some(0), ..signals() };
    let plan = plan(&again, &view(), &policy());
    assert_eq!(order(&plan), "private cloud+");
    assert!(plan.attempts[0].reasons.contains(&Reason::Escalated));
}

#[test]
fn batch_leaves_half_of_the_queue_to_those_who_wait() {
    let mut busy = view();
    *devices(&mut busy) = vec![device("a", 4, 2)];
    let mut batch = Signals { deadline: deadline(600_000, 600_000, OnMiss::Overflow), ..signals() };
    assert!(order(&plan(&batch, &busy, &policy())).starts_with("edge"));
    batch.deadline.as_mut().unwrap().priority = Priority::Batch;
    assert!(order(&plan(&batch, &busy, &policy())).starts_with("private+"));
}
