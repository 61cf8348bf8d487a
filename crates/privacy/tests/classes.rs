//! What gives a request its class.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod common;

use common::{classify, labelled, policy, user};
use proptest::prelude::*;
use serde_json::{Value, json};
use terrace_contract::policy::Sensitivity;
use terrace_contract::reason::Reason;
use terrace_contract::trust::Class;
use terrace_privacy::{Request, Rules};

fn public() -> Sensitivity {
    policy(json!({"unlabelled": "Public"})).sensitivity
}

fn class(text: &str) -> Class {
    class_of(&user(text))
}

fn class_of(body: &Value) -> Class {
    classify(&public(), body).class()
}

#[test]
fn the_detector_raises_the_class() {
    for (text, expected) in [
        ("What is the capital of France?", Class::Public),
        ("Write to jane.doe@example.com", Class::Confidential),
        ("Write to jane.doe @ example.com", Class::Confidential),
        ("Write to jane.doe [at] example [dot] com", Class::Confidential),
        ("Charge 4111 1111 1111 1111", Class::Restricted),
        ("Wire it to DE89 3704 0044 0532 0130 00", Class::Restricted),
        ("请把款打到4111111111111111", Class::Restricted),
        ("4111 1111 1111 1111", Class::Restricted),
        ("4\u{200b}1\u{200b}1\u{200b}1111111111111", Class::Restricted),
        ("see NDExMSAxMTExIDExMTEgMTExMQo= please", Class::Restricted),
        (r#"{"card": "\u0034111 1111 1111 1111"}"#, Class::Restricted),
    ] {
        assert_eq!(class(text), expected, "{text}");
    }
}

#[test]
fn many_confidential_values_together_are_restricted() {
    let list: String = (0..20).map(|i| format!("person{i}@example.com\n")).collect();
    assert_eq!(class(&list), Class::Restricted);
}

#[test]
fn a_number_split_over_messages_is_found() {
    let body = json!({"messages": [
        {"role": "user", "content": "my card is 4111 1111"},
        {"role": "assistant", "content": "And the rest?"},
        {"role": "user", "content": "1111 1111"},
    ]});
    let classified = classify(&public(), &body);
    assert_eq!(classified.class(), Class::Restricted);
    assert_eq!(classified.entities().get("CreditCard"), Some(&1));
}

#[test]
fn what_stands_beside_a_text_does_not_part_a_number() {
    let part = |text: &str| json!({"type": "text", "text": text, "cache_control": {"type": "ephemeral"}});
    for body in [
        json!({"messages": [{"role": "user", "content": [part("my card is 4111 1111"), part("1111 1111")]}]}),
        json!({"messages": [
            {"role": "user", "name": "jane", "content": "my card is 4111 1111"},
            {"role": "assistant", "content": "And the rest?", "name": "helper"},
            {"content": "1111 1111", "role": "user", "name": "jane"},
        ]}),
    ] {
        assert_eq!(class_of(&body), Class::Restricted, "{body}");
    }
}

#[test]
fn a_number_in_pieces_in_a_list_is_found() {
    for list in
        [json!([4111, 1111, 1111, 1111]), json!(["4111", "1111", "1111", "1111"]), json!(["4111", 1111, 1111, 1111])]
    {
        let schema = json!({"type": "object", "properties": {"x": {"enum": list}}});
        for body in [
            json!({"tools": [{"type": "function", "function": {"name": "pay", "parameters": schema}}]}),
            json!({"metadata": {"x": list}}),
        ] {
            assert_eq!(class_of(&body), Class::Restricted, "{body}");
        }
    }
    assert_eq!(class_of(&json!({"metadata": {"x": [1, 2, 3, 1024, 2048, 4096]}})), Class::Public);
}

#[test]
fn what_is_encoded_is_found_and_long_texts_and_data_are_not_restricted() {
    use base64::Engine as _;
    let encode = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(bytes);
    let prose = "The review went well, and the launch moves to May; 95% agreed. ".repeat(2000);
    let card = "4111 1111 1111 1111";
    for text in [
        encode(encode(card.as_bytes()).as_bytes()),
        format!("card={}", encode(card.as_bytes())),
        card.bytes().map(|b| format!("{b:02x}")).collect(),
        card.replace(' ', "%2520").replace("4111", "%2534111"),
        card.bytes().map(|b| format!("{b:02x} ")).collect(),
        "card: NDExMSAxMTExIDEx\n      MTEgMTExMQ==".to_owned(),
        "card: NDEx MSAx MTEx IDEx MTEg MTEx MQ== ok".to_owned(),
        format!(r"{prose}\u0034\u0031\u0031\u0031 1111 1111 1111"),
        encode(format!("{prose}{card}").as_bytes()),
    ] {
        assert_eq!(class(&text), Class::Restricted, "{}", &text[..60.min(text.len())]);
    }
    let bytes: Vec<u8> = (0..90 * 1024u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for text in [prose.clone(), format!(r"{prose}\u0041\n"), format!("data:image/png;base64,{}", encode(&bytes))] {
        assert_eq!(class(&text), Class::Public, "{}", &text[..60]);
    }
}

#[test]
fn every_place_is_looked_at() {
    let card = "4111 1111 1111 1111";
    for body in [
        json!({"messages": [{"role": "system", "content": card}]}),
        json!({"messages": [{"role": "tool", "tool_call_id": "c", "content": card}]}),
        json!({"messages": [{"role": "user", "content": [{"type": "text", "text": card}]}]}),
        json!({"messages": [{"role": "assistant", "tool_calls": [{"id": "c", "type": "function",
            "function": {"name": "pay", "arguments": format!("{{\"{card}\": 1}}")}}]}]}),
        json!({"tools": [{"type": "function", "function": {"name": "pay", "description": card}}]}),
        json!({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"enum": [card]}}}}),
        json!({"metadata": {"ref": 4111111111111111u64}}),
        json!({"metadata": {card: "x"}}),
        json!({"prediction": {"type": "content", "content": card}}),
        json!({"anything_else": {"deep": [card]}}),
    ] {
        assert_eq!(classify(&public(), &body).class(), Class::Restricted, "{body}");
    }
}

#[test]
fn floor_label_session_and_detector() {
    let floor = policy(json!({})).sensitivity;
    let hello = user("hello");
    let of = |label, trust| {
        let c = labelled(&floor, &hello, label, trust);
        (c.class(), c.reasons().to_vec())
    };
    assert_eq!(of(None, false), (Class::Internal, vec![Reason::ClassFloor]));
    assert_eq!(of(Some(Class::Public), false), (Class::Internal, vec![Reason::ClassFloor]));
    assert_eq!(of(Some(Class::Public), true), (Class::Public, vec![Reason::ClassLabel]));
    assert_eq!(of(Some(Class::Restricted), false), (Class::Restricted, vec![Reason::ClassLabel]));

    let mail = user("jane@example.com");
    let trusted = labelled(&floor, &mail, Some(Class::Public), true);
    assert_eq!((trusted.class(), trusted.reasons()), (Class::Confidential, &[Reason::ClassDetector][..]));

    let rules = Rules::compile(&floor).unwrap();
    let request =
        Request { body: &hello, label: Some(Class::Public), trust_label: true, session: Some(Class::Confidential) };
    let later = rules.classify(&request, &mut || false);
    assert_eq!((later.class(), later.reasons()), (Class::Confidential, &[Reason::ClassSession][..]));
}

#[test]
fn a_detector_that_fails_in_any_way_makes_the_request_restricted() {
    let rules = Rules::compile(&public()).unwrap();
    let hello = user("hello");
    fn trusted(body: &Value) -> Request<'_> {
        Request { body, label: Some(Class::Public), trust_label: true, session: None }
    }

    let late = rules.classify(&trusted(&hello), &mut || true);
    assert_eq!((late.class(), late.forced()), (Class::Restricted, Some(Reason::DetectorTimeout)));

    let failed = rules.classify(&trusted(&hello), &mut || panic!("a detector's defect"));
    assert_eq!((failed.class(), failed.forced()), (Class::Restricted, Some(Reason::DetectorError)));

    let image: Value =
        json!({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]});
    let long = user(&"a ".repeat(200 * 1024));
    let tokens = json!({"prompt": [1, 2, 3]});
    for body in [image, long, tokens] {
        let unread = rules.classify(&trusted(&body), &mut || false);
        assert_eq!((unread.class(), unread.forced()), (Class::Restricted, Some(Reason::Unreadable)));
    }
}

#[test]
fn the_policys_own_entities_set_a_class() {
    let own = policy(json!({"unlabelled": "Public", "entities": [
        {"type": "ProjectName", "class": "Restricted", "pattern": "ACME-[0-9]{4}"},
        {"type": "Site", "class": "Internal", "pattern": "(?i)plant seven"},
    ]}));
    let of = |text: &str| classify(&own.sensitivity, &user(text));
    assert_eq!(of("about ACME-1234 and Plant Seven").class(), Class::Restricted);
    assert_eq!(of("about Plant Seven").class(), Class::Internal);
    assert_eq!(of("about ACME-12").class(), Class::Public);
    assert_eq!(of("ACME-1234").findings()[0].pointer, "/messages/0/content");
}

#[test]
fn the_policys_own_entities_are_found_in_encoded_text() {
    use base64::Engine as _;
    let own = policy(json!({"unlabelled": "Public", "entities": [
        {"type": "ProjectName", "class": "Restricted", "pattern": "ACME-[0-9]{4}"},
    ]}));
    let of = |body: &Value| classify(&own.sensitivity, body).class();
    let base64 = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let text = "project ACME-1234 ok";
    for hidden in [
        format!("see {}", base64(text)),
        base64(&base64(text)),
        text.bytes().map(|b| format!("{b:02x}")).collect(),
        text.bytes().map(|b| format!("{b:02x} ")).collect(),
        "about ACME%2D1234".to_owned(),
        "about ACME%252D1234".to_owned(),
        "about ACME&#45;1234".to_owned(),
        r"about ACME\u002d1234".to_owned(),
    ] {
        assert_eq!(of(&user(&hidden)), Class::Restricted, "{hidden}");
        let function = json!({"name": "f", "arguments": format!("{{\"a\": \"{hidden}\"}}")});
        let call = json!({"id": "c", "type": "function", "function": function});
        let body = json!({"messages": [{"role": "assistant", "content": null, "tool_calls": [call]}]});
        assert_eq!(of(&body), Class::Restricted, "{body}");
        let classified = classify(&own.sensitivity, &user(&hidden));
        assert!(classified.entities().contains_key("ProjectName"), "{hidden}");
    }
    assert_eq!(of(&user(&base64("project ACME-12 is none"))), Class::Public);
}

/// Requests with two texts that stand beside each other.
fn beside(a: &str, b: &str) -> Vec<Value> {
    let part = |text: &str| json!({"type": "text", "text": text});
    let tool = |text: &str| json!({"type": "function", "function": {"name": "f", "description": text}});
    let call = |arguments: Value| {
        let function = json!({"name": "f", "arguments": arguments.to_string()});
        json!({"messages": [{"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": function}]}]})
    };
    vec![
        json!({"messages": [{"role": "user", "content": [part(a), part(b)]}]}),
        json!({"messages": [{"role": "user", "content": a}, {"role": "user", "content": b}]}),
        json!({"messages": [{"role": "user", "content": a}, {"role": "assistant", "content": "Go on."}, {"role": "user", "content": b}]}),
        json!({"messages": [{"role": "user", "content": a}, {"role": "assistant", "content": b}]}),
        json!({"tools": [tool(a), tool(b)]}),
        json!({"prompt": [a, b]}),
        json!({"input": [a, b]}),
        json!({"stop": [a, b]}),
        json!({"metadata": {"k": a, "l": b}}),
        json!({"prediction": {"type": "content", "content": [part(a), part(b)]}}),
        call(json!({"k": a, "l": b})),
        call(json!({"k": [a, b]})),
    ]
}

#[test]
fn what_is_split_over_neighbouring_texts_is_found() {
    let own = policy(json!({"unlabelled": "Public", "entities": [
        {"type": "ProjectName", "class": "Restricted", "pattern": "ACME-[0-9]{4}|Big Bird"},
    ]}));
    for (a, b, class) in [
        ("the ACME-", "1234 plan", Class::Restricted),
        ("the Big", "Bird plan", Class::Restricted),
        ("sk-proj-abcdefghijklm", "nopqrstuvwxyz0123456789ABCD", Class::Restricted),
        ("DE89 3704 0044", "0532 0130 00", Class::Restricted),
        ("jane.doe@exam", "ple.com", Class::Confidential),
        ("the card 4111 1111", "1111 1111 is it", Class::Restricted),
        ("see NDExMSAxMTEx", "IDExMTEgMTExMQ==", Class::Restricted),
        ("-----BEGIN PRIV", "ATE KEY-----", Class::Restricted),
    ] {
        for body in beside(a, b) {
            let classified = classify(&own.sensitivity, &body);
            assert!(classified.class() >= class, "{body}: {classified:?}");
        }
    }
    let part = |text: &str| json!({"type": "text", "text": text});
    let three = json!({"messages": [{"role": "user", "content": [part("jane.d"), part("oe@exam"), part("ple.com")]}]});
    assert_eq!(class_of(&three), Class::Confidential, "in three pieces");
}

#[test]
fn innocent_neighbours_stay_innocent() {
    for (a, b) in [
        ("Enter your password:", "The next step is to reset it."),
        ("We had 42 guests in 2024.", "1500 meals were served, 300 of them warm."),
        ("Order 4000123", "550123456 is the customer"),
        ("Write to us @", "Home. It is warm."),
        ("The meeting moves to May.", "We need 3 more machines: ask for quotes."),
        ("token:", "a word of a text"),
    ] {
        for body in beside(a, b) {
            // Turns are read as one number as before, whatever stands between.
            assert!(
                body.get("messages").is_some() && a.starts_with("Order") || class_of(&body) == Class::Public,
                "{body}"
            );
        }
    }
}

#[test]
fn a_card_in_the_numbers_of_an_object_is_found() {
    let tool = |parameters: Value| json!({"tools": [{"type": "function", "function": {"name": "f", "parameters": parameters}}]});
    for body in [
        json!({"logit_bias": {"4000": 1, "1234": 1, "5678": 2, "9017": 3}}),
        tool(json!({"enum": [4111, null, 1111, 1111, 1111]})),
        tool(json!({"minimum": 4111, "maximum": 1111, "minLength": 1111, "maxLength": 1111})),
    ] {
        assert_eq!(class_of(&body), Class::Restricted, "{body}");
    }
    for body in [
        json!({"logit_bias": {"4242": 1, "424": 1, "4243": 2}}),
        tool(json!({"minimum": 400012, "maximum": 34567890, "minLength": 17})),
    ] {
        assert_eq!(class_of(&body), Class::Public, "{body}");
    }
}

#[test]
fn one_pattern_that_does_not_compile_fails_the_policy_by_name() {
    let bad = policy(json!({"entities": [
        {"type": "Good", "class": "Internal", "pattern": "x"},
        {"type": "Broken", "class": "Restricted", "pattern": "ACME-[0-9"},
    ]}));
    let error = Rules::compile(&bad.sensitivity).unwrap_err();
    assert_eq!((error.index, error.name.as_str()), (1, "Broken"));
}

#[test]
fn nothing_printed_shows_content() {
    let classified = classify(
        &public(),
        &json!({"messages": [{"role": "user", "content": "MARKER jane@example.com"}],
        "metadata": {"MARKER": "4111111111111111"}}),
    );
    let printed = format!("{classified:?} {:?}", classified.findings());
    assert!(!printed.contains("MARKER") && !printed.contains("jane") && !printed.contains("4111"), "{printed}");
    assert!(printed.contains("EmailAddress"));
}

/// A request with any text in any of the places that carry text.
fn anywhere() -> impl Strategy<Value = Value> {
    ("\\PC{0,200}", 0..5usize).prop_map(|(text, place)| match place {
        0 => json!({"messages": [{"role": "user", "content": text}]}),
        1 => json!({"messages": [{"role": "tool", "content": text}]}),
        2 => json!({"messages": [{"role": "user", "content": [{"type": "text", "text": text}]}]}),
        3 => json!({"metadata": {text: "x"}}),
        _ => json!({"tools": [{"function": {"description": text}}]}),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn no_text_makes_the_detector_fail(body in anywhere()) {
        let classified = classify(&public(), &body);
        prop_assert_eq!(classified.forced(), None);
    }

    #[test]
    fn a_card_is_found_in_any_text(before in "[a-zA-Z\\u{4e00}-\\u{4e20} ,.]{0,40}", after in "[a-zA-Z\\u{4e00}-\\u{4e20} ,.]{0,40}") {
        let text = format!("{before}4111-1111-1111-1111{after}");
        prop_assert_eq!(class(&text), Class::Restricted, "{}", text);
    }

    #[test]
    fn a_label_never_lowers_what_was_found(body in anywhere(), label in 0..4usize, trust in any::<bool>()) {
        let plain = classify(&public(), &body);
        let with = labelled(&public(), &body, Some(Class::ALL[label]), trust);
        prop_assert!(with.class() >= plain.detector());
        prop_assert!(with.class() >= Class::ALL[label]);
    }
}
