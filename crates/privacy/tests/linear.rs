//! Time grows with the text, not with its square, also on texts that are made to hurt.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod common;

use std::time::{Duration, Instant};

use common::{policy, user};
use serde_json::json;
use terrace_privacy::{Request, Rules};

/// The fastest of a few runs: what else the machine does only ever adds.
fn fastest(rules: &Rules, text: &str) -> Duration {
    let body = user(text);
    let request = Request { body: &body, label: None, trust_label: false, session: None };
    let run = || {
        let start = Instant::now();
        rules.classify(&request, &mut || false);
        start.elapsed()
    };
    (0..7).map(|_| run()).min().unwrap()
}

#[test]
fn sixteen_times_the_text_takes_at_most_forty_times_as_long() {
    let entities = json!([{"type": "X", "class": "Restricted", "pattern": "(a+)+b"}]);
    let rules = Rules::compile(&policy(json!({"entities": entities})).sensitivity).unwrap();
    for piece in [
        "a",
        "1",
        "1 ",
        "4111 1111 1111 111",
        "@",
        "a@",
        "a.",
        "a @ ",
        "a(at)",
        "a [at] b [dot] ",
        "[at]b. ",
        "34 31 ",
        "343 1 ",
        "3 ",
        "MTEx ",
        "MTExIDEx\n",
        "aB ",
        "aB\\n",
        "::",
        "1:",
        "DE89",
        "eyJ",
        "eyJa.eyJ",
        "://a:",
        "sk-a-",
        "password=",
        "password: ",
        "token:",
        "token: x ",
        "bearer ",
        "1|",
        "4111|",
        "é@",
        "DE89. ",
        "%2541",
        "&#52;",
        "3431",
        "NDEx",
        "-----BEGIN ",
        "aB3dE6gH9kL2",
        "\\u0041",
        "%41",
        "{\"a\":",
        "1.1.",
        "٤",
        "Ａ",
        "中1",
        "+1 ",
        "phone 1",
    ] {
        let text = |bytes: usize| piece.repeat(bytes / piece.len());
        let (mut short, mut long) = (Duration::MAX, Duration::MAX);
        let in_time = |short: Duration, long: Duration| long < short * 40 + Duration::from_millis(1);
        // A square is slow every time; a busy machine is not.
        for _ in 0..5 {
            short = fastest(&rules, &text(8 * 1024));
            long = fastest(&rules, &text(128 * 1024));
            if in_time(short, long) {
                break;
            }
        }
        assert!(in_time(short, long), "{piece:?}: {short:?} for 8 KiB, {long:?} for 128 KiB");
    }
}
