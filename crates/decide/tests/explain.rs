//! What an explanation says of a plan.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod common;

use common::{device, devices, far, policy, signals, view};
use terrace_contract::explanation::Explanation;
use terrace_contract::reason::Reason;
use terrace_contract::trust::Class;
use terrace_decide::explain::explain;
use terrace_decide::{BreakerState, FleetView, Signals, decide};

fn of(signals: &Signals, view: &FleetView) -> Explanation {
    let policy = policy();
    explain(signals, view, &policy, &decide(signals, view, &policy, 0.0))
}

#[test]
fn each_rung_says_what_rules_it_out_or_how_it_compares() {
    let mut view = view();
    devices(&mut view)[0].breaker = BreakerState::Open;
    let explained = of(&Signals { class: Class::Restricted, ..signals() }, &view);
    let [edge, private, cloud] = explained.tiers.as_slice() else { panic!("{explained:?}") };
    assert_eq!((edge.name.as_str(), edge.model.as_str()), ("edge", "small"));
    let out = &edge.devices.as_ref().unwrap().ruled_out;
    assert_eq!(
        (out[0].reason, out[0].count, out[0].nodes.as_slice()),
        (Reason::BreakerOpen, 1, &["node-a".into()][..])
    );
    assert!(edge.ruled_out.is_empty() && edge.score.is_some_and(|score| score.able));
    assert!(edge.forecast.is_some_and(|f| f.first_token_us > 0 && f.finish_us > f.first_token_us));
    assert!(private.devices.is_none() && private.cost_micros.is_some_and(|micros| micros > 0));
    assert_eq!(cloud.ruled_out, [Reason::Boundary]);
    assert!(cloud.score.is_none() && cloud.forecast.is_none());
    assert_eq!(explained.decided.as_deref(), Some("edge"));
    assert_eq!(explained.attempts[0].nodes, ["node-b"]);
    assert_eq!(explained.attempts[0].reasons, [Reason::Nearest]);
    assert_eq!((explained.policy.as_str(), explained.refusal), ("shop/assistant", None));
}

#[test]
fn a_refusal_has_its_code_and_sentence() {
    let mut gone = view();
    devices(&mut gone).clear();
    far(&mut gone, 1).credential = false;
    let explained = of(&Signals { class: Class::Restricted, ..signals() }, &gone);
    let refused = explained.refusal.unwrap();
    assert_eq!(refused.code, "permitted_tiers_unavailable");
    assert!(refused.message.contains("try again in"), "{}", refused.message);
    assert!(explained.attempts.is_empty());
}

#[test]
fn it_stays_small_however_many_devices_are_ruled_out() {
    let mut view = view();
    let broken = |i: u32| terrace_decide::DeviceView { breaker: BreakerState::Open, ..device(&i.to_string(), 0, 0) };
    *devices(&mut view) = (0..10_000).map(broken).collect();
    let explained = of(&signals(), &view);
    let out = &explained.tiers[0].devices.as_ref().unwrap().ruled_out;
    assert_eq!((out.len(), out[0].count, out[0].nodes.len()), (1, 10_000, 8));
    assert!(serde_json::to_string(&explained).unwrap().len() < 8_000);
}
