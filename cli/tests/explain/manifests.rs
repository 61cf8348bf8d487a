//! From manifests alone.

use serde_json::{Value, json};

use crate::{example, explained, question, refused};

/// The quick start's tiers with the policy that has a cloud as well.
fn ladder() -> Vec<String> {
    let files = ["quickstart/edge.yaml", "quickstart/private.yaml", "quickstart/budget.yaml", "with-cloud"];
    files.iter().flat_map(|file| ["-f".to_owned(), example(file)]).collect()
}

fn with(more: &[&str]) -> Vec<String> {
    ladder().into_iter().chain(more.iter().map(|a| (*a).to_owned())).collect()
}

fn json_of(arguments: &[&str], input: &str) -> Value {
    let all = with(&[arguments, &["-o", "json"]].concat());
    serde_json::from_str(&explained(&all.iter().map(String::as_str).collect::<Vec<_>>(), input)).unwrap()
}

#[test]
fn the_class_decides_how_far_a_request_may_go() {
    let cloud = |explained: &Value| explained["tiers"][2]["ruledOut"].clone();
    let plain = json_of(&[], &question("hi"));
    assert_eq!(
        (&plain["signals"]["class"], &plain["signals"]["classReasons"]),
        (&"Internal".into(), &json!(["class_floor"]))
    );
    assert_eq!(cloud(&plain), json!(["boundary"]));
    assert_eq!(
        (&plain["policy"], &plain["requestId"], &plain["became"]),
        (&"default/assistant".into(), &Value::Null, &Value::Null)
    );
    assert_eq!(plain["attempts"][0]["nodes"], json!(["edge-0"]));
    // A label below the floor counts with a key that may: then the cloud is in reach.
    let labelled = json_of(&["--class", "Public"], &question("hi"));
    assert_eq!(cloud(&labelled), json!(["boundary"]));
    let trusted = json_of(&["--class", "Public", "--key", "ci"], &question("hi"));
    assert_eq!((&trusted["signals"]["class"], cloud(&trusted)), (&"Public".into(), json!([])));
    // What is found in the text goes before any label.
    let found = json_of(&["--class", "Public", "--key", "ci"], &question("about ACME-1234"));
    assert_eq!((&found["signals"]["class"], cloud(&found)), (&"Restricted".into(), json!(["boundary"])));
}

#[test]
fn responses_and_messages_are_explained_as_well() {
    let items = json!({"model": "auto", "input": [{"role": "user", "content": "about ACME-1234"}]}).to_string();
    assert_eq!(json_of(&[], &items)["signals"]["class"], "Restricted");
    let message =
        json!({"model": "auto", "max_tokens": 9, "messages": [{"role": "user", "content": "about ACME-1234"}]});
    let explained = json_of(&["--api", "messages"], &message.to_string());
    assert_eq!(explained["signals"]["class"], "Restricted");
    // The same words mean another thing to another API.
    let text = json!({"model": "auto", "input": "hi"}).to_string();
    let arguments = with(&["--api", "responses"]);
    assert!(explained_by(&arguments, &text).contains("plan, edge suits it best"));
    assert_eq!(json_of(&["--api", "embeddings"], &text)["signals"]["needs"], json!(["Embeddings"]));
}

fn explained_by(arguments: &[String], input: &str) -> String {
    explained(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), input)
}

#[test]
fn what_a_request_asks_for_rules_tiers_out_or_is_refused() {
    let tools = json!({"model": "auto", "messages": [{"role": "user", "content": "hi"}], "tools": [{"type": "function",
        "function": {"name": "find", "parameters": {"type": "object"}}}], "response_format": {"type": "json_schema",
        "json_schema": {"name": "s", "schema": {"type": "object"}}}, "logprobs": true});
    let lacking = json_of(&["--class", "Public", "--key", "ci"], &tools.to_string());
    assert_eq!(lacking["signals"]["needs"], json!(["Tools", "Logprobs", "JsonSchema"]));
    assert_eq!(lacking["refusal"]["code"], "unsupported_feature", "{lacking}");
    assert_eq!(lacking["attempts"], json!([]));
    let named = json_of(&["--class", "Public", "--key", "ci"], &question("hi").replace("auto", "big-model"));
    assert_eq!(named["tiers"][0]["ruledOut"], json!(["model"]));
    assert_eq!(named["attempts"][0]["reasons"][0], "model_requested");
}

#[test]
fn a_simulation_among_the_manifests_says_how_fast_the_fleet_is() {
    let folder = example("simulate");
    let explained = explained(&["-f", &folder, "-o", "json"], &question("hi"));
    let explained: Value = serde_json::from_str(&explained).unwrap();
    assert_eq!(explained["tiers"][0]["devices"]["count"], 32);
    assert_eq!(explained["attempts"][0]["tier"], explained["tiers"][0]["name"]);
    let forecast = &explained["tiers"][0]["forecast"];
    assert!(forecast["finishUs"].as_u64() > forecast["firstTokenUs"].as_u64(), "{forecast}");
}

#[test]
fn the_text_says_signals_rules_scores_forecasts_and_the_plan() {
    let folder = example("quickstart");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), question("pay with 4111 1111 1111 1111")).unwrap();
    let said = explained(&["-f", &folder, &file.path().display().to_string()], "");
    for expected in [
        "request   not sent",
        "policy    default/assistant, revision ",
        "class     Restricted",
        "class_detector: The detector.",
        "model auto, feature other",
        "budget    first token 10000 ms, whole 60000 ms",
        "weights   quality 30,",
        "edge  Device",
        "1 of 1 left",
        "score     0.",
        "forecast  first token ",
        "  1. edge (edge-0): first token ",
        "nearest: The nearest tier",
        "from manifests alone",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    assert!(!said.contains("4111"), "{said}");
}

#[test]
fn what_is_wrong_is_said_with_what_to_do() {
    let quickstart = example("quickstart");
    let at = |more: &[&str], input: &str| refused(&[&["-f", &quickstart][..], more].concat(), input);
    let cases = [
        (at(&["--policy", "other"], &question("hi")), "choose one policy with --policy: there are assistant"),
        (
            at(&["--key", "ci"], &question("hi")),
            "--key ci: the policy names no key in access.apiKeys.keys: leave it out",
        ),
        (at(&[], "{"), "a router would answer 400: the body cannot be read"),
        (at(&[], r#"{"model": "auto", "messages": [{"role": "boss", "content": "x"}]}"#), "/messages/0/role"),
        (
            at(&[], &question("hi").replace("auto", "none")),
            "no such model here: use one of auto, smollm2-135m-instruct",
        ),
        (at(&["--class", "Secret"], &question("hi")), "x-terrace-class must be Public, Internal"),
        (at(&["/does/not/exist"], ""), "cannot read the request /does/not/exist"),
        (refused(&["-f", "/does/not/exist"], &question("hi")), "cannot read /does/not/exist"),
        (refused(&["-f", &quickstart, "--url", "http://x"], ""), "cannot be used with"),
    ];
    for (said, expected) in cases {
        assert!(said.contains(expected), "{expected}: {said}");
    }
}
