//! Whole plans as reviewers read them: `tests/golden/*.json`. `UPDATE_GOLDEN=1` writes them anew.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod common;

use common::{deadline, device, devices, policy, signals, view};
use terrace_contract::policy::OnMiss;
use terrace_contract::trust::Class;
use terrace_decide::complexity::Verdict;
use terrace_decide::{Plan, Signals, decide};

#[expect(clippy::disallowed_methods, reason = "a test reads its golden files; the core does not")]
fn check(name: &str, plan: &Plan) {
    let path = format!("{}/tests/golden/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = serde_json::to_string_pretty(plan).unwrap() + "\n";
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, golden, "{path} differs: look at it, then UPDATE_GOLDEN=1");
}

#[test]
fn simple() {
    check("simple", &decide(&signals(), &view(), &policy(), 0.0));
}

#[test]
fn complex_and_restricted() {
    let hard = Signals { class: Class::Restricted, complexity: Verdict::complex(), ..signals() };
    check("complex-and-restricted", &decide(&hard, &view(), &policy(), 0.0));
}

#[test]
fn overflow_predicted() {
    let mut busy = view();
    *devices(&mut busy) = vec![device("a", 4, 2), device("b", 4, 4)];
    let urgent = Signals { deadline: deadline(500, 3000, OnMiss::Overflow), ..signals() };
    check("overflow-predicted", &decide(&urgent, &busy, &policy(), 0.0));
}

#[test]
fn fail_closed() {
    let mut gone = view();
    devices(&mut gone).iter_mut().for_each(|d| d.ready = false);
    common::far(&mut gone, 1).credential = false;
    let sensitive = Signals { class: Class::Restricted, ..signals() };
    check("fail-closed", &decide(&sensitive, &gone, &policy(), 0.0));
}
