//! The rules of a clearance.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod common;

use common::{classify, labelled, policy, tier, user};
use proptest::prelude::*;
use serde_json::json;
use terrace_contract::trust::{Boundary, Class};
use terrace_privacy::{Denied, Terms, clear};

const HTTPS: &str = "https://api.example.com/v1";
const HOUR_US: u64 = 3_600_000_000;

#[test]
fn each_class_goes_as_far_as_its_boundary_and_no_further() {
    let policy = policy(json!({"unlabelled": "Public"}));
    for (label, public) in
        [(Class::Public, true), (Class::Internal, false), (Class::Confidential, false), (Class::Restricted, false)]
    {
        let body = user("hello");
        let classified = labelled(&policy.sensitivity, &body, Some(label), false);
        for (boundary, fine) in [(Boundary::Private, true), (Boundary::Public, public)] {
            let tier = tier(boundary, HTTPS);
            let result = clear(&body, &classified, &Terms { policy: &policy, tier: &tier, policy_age_us: 0 });
            match result {
                Ok(cleared) => assert!(fine && cleared.boundary() == boundary, "{label} to {boundary}"),
                Err(denied) => {
                    assert!(!fine, "{label} to {boundary}");
                    assert_eq!(denied, Denied::Boundary { class: label, boundary });
                }
            }
        }
    }
}

#[test]
fn the_bytes_are_exactly_the_tree_that_was_checked() {
    let policy = policy(json!({"unlabelled": "Public"}));
    let classified = classify(&policy.sensitivity, &user("hello"));
    let tier = tier(Boundary::Public, HTTPS);
    let terms = Terms { policy: &policy, tier: &tier, policy_age_us: 0 };
    let sent = json!({"model": "big-model", "messages": [{"role": "user", "content": "hello"}], "stream": true,
        "stream_options": {"include_usage": true}, "max_tokens": 64});
    let cleared = clear(&sent, &classified, &terms).unwrap();
    assert_eq!(cleared.recheck(&terms).unwrap(), sent.to_string().as_bytes());
}

#[test]
fn a_body_that_was_not_classified_is_not_cleared() {
    let policy = policy(json!({"unlabelled": "Public"}));
    let classified = classify(&policy.sensitivity, &user("hello"));
    let tier = tier(Boundary::Public, HTTPS);
    let terms = Terms { policy: &policy, tier: &tier, policy_age_us: 0 };
    for (body, pointer) in [
        (user("a secret"), "/messages/0/content"),
        (json!({"messages": [{"role": "user", "content": "hello"}], "metadata": {"a secret": "hello"}}), "/metadata"),
        (json!({"model": "other-model"}), "/model"),
        (json!({"user": "big-model"}), "/user"),
    ] {
        let denied = clear(&body, &classified, &terms).unwrap_err();
        assert_eq!(denied, Denied::Unscanned { pointer: pointer.to_owned() });
        assert!(!denied.to_string().contains("secret"));
    }
}

#[test]
fn the_narrower_of_then_and_now_wins() {
    let wide = json!({"public": "Public", "internal": "Public", "confidential": "Private", "restricted": "Private"});
    let narrow = json!({"public": "Public", "internal": "Private", "confidential": "Private", "restricted": "Private"});
    let (wide, narrow) = (policy(json!({"boundaries": wide})), policy(json!({"boundaries": narrow})));
    let body = user("hello");
    let far = tier(Boundary::Public, HTTPS);
    let terms = |policy| Terms { policy, tier: &far, policy_age_us: 0 };

    let admitted_wide = classify(&wide.sensitivity, &body);
    let cleared = clear(&body, &admitted_wide, &terms(&wide)).unwrap();
    assert!(cleared.recheck(&terms(&wide)).is_ok());
    let denied = Denied::Boundary { class: Class::Internal, boundary: Boundary::Public };
    assert_eq!(cleared.recheck(&terms(&narrow)).unwrap_err(), denied);
    assert_eq!(clear(&body, &admitted_wide, &terms(&narrow)).unwrap_err(), denied);
    let admitted_narrow = classify(&narrow.sensitivity, &body);
    assert_eq!(clear(&body, &admitted_narrow, &terms(&wide)).unwrap_err(), denied);
}

#[test]
fn a_floor_that_rose_counts_and_new_patterns_ask_for_a_new_look() {
    let before = policy(json!({"unlabelled": "Public"}));
    let body = user("hello");
    let far = tier(Boundary::Public, HTTPS);
    let cleared = {
        let terms = Terms { policy: &before, tier: &far, policy_age_us: 0 };
        clear(&body, &classify(&before.sensitivity, &body), &terms).unwrap()
    };
    let raised = policy(json!({"unlabelled": "Internal"}));
    let terms = Terms { policy: &raised, tier: &far, policy_age_us: 0 };
    assert!(matches!(cleared.recheck(&terms), Err(Denied::Boundary { class: Class::Internal, .. })));

    let patterns =
        policy(json!({"unlabelled": "Public", "entities": [{"type": "X", "class": "Restricted", "pattern": "hello"}]}));
    let terms = Terms { policy: &patterns, tier: &far, policy_age_us: 0 };
    assert_eq!(cleared.recheck(&terms).unwrap_err(), Denied::PolicyChanged);
}

#[test]
fn an_old_policy_lets_only_class_public_out() {
    let policy = policy(json!({"unlabelled": "Public",
        "boundaries": {"public": "Public", "internal": "Public", "confidential": "Private", "restricted": "Private"}}));
    let far = tier(Boundary::Public, HTTPS);
    let old = Terms { policy: &policy, tier: &far, policy_age_us: HOUR_US + 1 };
    let new = Terms { policy_age_us: HOUR_US, ..old };
    let body = user("hello");
    let public = labelled(&policy.sensitivity, &body, None, false);
    let internal = labelled(&policy.sensitivity, &body, Some(Class::Internal), false);
    assert!(clear(&body, &public, &old).is_ok());
    let cleared = clear(&body, &internal, &new).unwrap();
    assert_eq!(cleared.recheck(&old).unwrap_err(), Denied::StalePolicy);
}

#[test]
fn residency_holds_for_its_class_and_every_higher_one() {
    let policy = policy(json!({"unlabelled": "Public", "residency": [{"class": "Internal", "regions": ["us-east"]}]}));
    let near = tier(Boundary::Private, HTTPS);
    let terms = Terms { policy: &policy, tier: &near, policy_age_us: 0 };
    let body = user("hello");
    for (label, fine) in [(Class::Public, true), (Class::Internal, false), (Class::Restricted, false)] {
        let classified = labelled(&policy.sensitivity, &body, Some(label), false);
        assert_eq!(clear(&body, &classified, &terms).is_ok(), fine, "{label}");
    }
}

#[test]
fn plain_http_never_carries_restricted() {
    let policy = policy(json!({}));
    let plain = tier(Boundary::Private, "http://10.0.0.7:8000/v1");
    let terms = Terms { policy: &policy, tier: &plain, policy_age_us: 0 };
    let body = user("4111 1111 1111 1111");
    let denied = clear(&body, &classify(&policy.sensitivity, &body), &terms).unwrap_err();
    assert!(matches!(denied, Denied::PlainHttp { .. }));
    let body = user("hello");
    assert!(clear(&body, &classify(&policy.sensitivity, &body), &terms).is_ok());
}

#[test]
fn a_clearance_is_for_one_tier_as_it_was() {
    let policy = policy(json!({"unlabelled": "Public"}));
    let body = user("hello");
    let far = tier(Boundary::Public, HTTPS);
    let terms = Terms { policy: &policy, tier: &far, policy_age_us: 0 };
    let cleared = clear(&body, &classify(&policy.sensitivity, &body), &terms).unwrap();
    let mut changed = far.clone();
    changed.generation += 1;
    let mut other = far.clone();
    other.uid = "another".to_owned();
    for tier in [&changed, &other] {
        assert_eq!(cleared.recheck(&Terms { tier, ..terms }).unwrap_err(), Denied::TierChanged);
    }
}

#[test]
fn a_cleared_body_prints_no_content() {
    let policy = policy(json!({"unlabelled": "Public"}));
    let body = user("MARKER");
    let far = tier(Boundary::Public, HTTPS);
    let terms = Terms { policy: &policy, tier: &far, policy_age_us: 0 };
    let cleared = clear(&body, &classify(&policy.sensitivity, &body), &terms).unwrap();
    assert!(!format!("{cleared:?}").contains("MARKER"));
}

proptest! {
    /// Whatever a policy says, even an unsound one, Restricted goes to no Public tier and no class further than a lower
    /// one.
    #[test]
    fn no_policy_lets_restricted_out(b in prop::array::uniform4(0..3usize), class in 0..4usize, age in any::<u64>()) {
        let names = ["Device", "Private", "Public"];
        let policy = policy(json!({"unlabelled": "Public", "boundaries": {
            "public": names[b[0]], "internal": names[b[1]], "confidential": names[b[2]], "restricted": names[b[3]]}}));
        let class = Class::ALL[class];
        let body = user("hello");
        let classified = labelled(&policy.sensitivity, &body, Some(class), false);
        let far = tier(Boundary::Public, HTTPS);
        let fine = clear(&body, &classified, &Terms { policy: &policy, tier: &far, policy_age_us: age }).is_ok();
        let permitted = class < Class::Restricted && b[..=class as usize].iter().all(|b| *b == 2);
        prop_assert_eq!(fine, permitted && (class == Class::Public || age <= HOUR_US));
    }
}
