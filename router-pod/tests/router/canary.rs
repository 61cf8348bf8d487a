//! No content in telemetry: a marker goes through every path, and every output is searched for it.

use crate::support::process::{self, Process};
use crate::support::{Act, Scripted, World, client, get, post, question, stream, streamed, until};
use serde_json::json;
use terrace_contract::policy::OnMiss;
use terrace_contract::trust::Boundary;

const CHAT: &str = "/v1/chat/completions";

/// Everything that a router says of itself and keeps, by name; decisions are those of these requests.
async fn outputs(world: &World, process: &Process, ids: &[String]) -> Vec<(&'static str, String)> {
    let mut decisions = String::new();
    for id in ids {
        let kept = get(process.listen, &format!("/v1/explain/{id}"), &[]).await;
        if kept.status == 200 {
            decisions += std::str::from_utf8(&kept.body).unwrap();
        }
    }
    let metrics = get(process.admin, "/metrics", &[]).await;
    let ledger = std::fs::read_to_string(world.path("state/egress.jsonl")).unwrap_or_default();
    vec![
        ("log", process.log()),
        ("traces", std::fs::read_to_string(&process.traces).unwrap_or_default()),
        ("metrics", String::from_utf8(metrics.body.to_vec()).unwrap()),
        ("egress ledger", ledger),
        ("decisions", decisions),
    ]
}

/// Outputs that contain the marker, as it is or in base64, hex or percent-encoding.
fn leaks(outputs: &[(&'static str, String)], marker: &str) -> Vec<&'static str> {
    use base64::Engine as _;
    let engine = base64::engine::general_purpose::STANDARD_NO_PAD;
    // Base64 of a text depends on where it begins: three ways, without the characters that its neighbours share.
    let mut forms = vec![marker.to_owned(), terrace_contract::canonical::hex(marker.as_bytes())];
    forms.extend((0..3).map(|shift| {
        let encoded = engine.encode(format!("{}{marker}", "x".repeat(shift)));
        encoded[4 * usize::from(shift > 0)..encoded.len() - 3].to_owned()
    }));
    let found = outputs.iter().filter(|(_, text)| forms.iter().any(|form| text.contains(form)));
    found.map(|(name, _)| *name).collect()
}

#[tokio::test]
async fn a_marker_in_content_is_in_no_output() {
    let marker = "zqcanary7f3b9e5d1a";
    let answer: &'static str = "zqcanary7f3b9e5d1a said the model";
    let edge = Scripted::new("small", 1, Act::Say(answer));
    let cloud = Scripted::new("big", 4, Act::Say(answer));
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[&edge]).await;
    world.endpoint("cloud", Boundary::Public, &cloud).await;
    world.budget("strict", &["strict"], 150, 300, OnMiss::Overflow);
    let process = process::start(&mut world).await;
    let to = process.listen;
    let text = format!("{marker} asks");
    let mut errors = Vec::new();

    // Answers, streamed and whole, near and far, and text completions.
    let first = post(to, CHAT, &[], &question(&text)).await;
    assert!(first.content().contains(marker));
    let mut ids = vec![first.header("x-terrace-request-id").to_owned()];
    assert!(client::text(&stream(to, CHAT, &[], &streamed(&text)).await.rest().await).contains(marker));
    post(to, "/v1/completions", &[], &json!({"model": "auto", "prompt": text})).await;
    let message =
        json!({"model": "auto", "max_tokens": 9, "system": text, "messages": [{"role": "user", "content": text}]});
    assert!(post(to, "/v1/messages", &[], &message).await.json().to_string().contains(marker));
    let response = json!({"model": "auto", "instructions": text, "input": text});
    assert!(post(to, "/v1/responses", &[], &response).await.json().to_string().contains(marker));
    for (path, body) in [("/v1/messages", &message), ("/v1/responses", &response)] {
        let mut body = body.clone();
        body["stream"] = true.into();
        assert!(stream(to, path, &[], &body).await.rest().await.concat().contains(marker));
        body[marker] = marker.into();
        errors.push(post(to, path, &[], &body).await);
        body["model"] = marker.into();
        errors.push(post(to, path, &[], &body).await);
    }
    errors.push(post(to, "/v1/embeddings", &[], &json!({"model": "auto", "input": [text, text]})).await);
    let mut far = question(&text);
    far["model"] = "big".into();
    let answered = post(to, CHAT, &[], &far).await;
    assert!(answered.content().contains(marker));
    ids.push(answered.header("x-terrace-request-id").to_owned());

    // Content in every place that has a name: headers, feature, session, model, tools, metadata, unknown fields.
    let headers = [("x-terrace-feature", marker), ("x-terrace-session", marker), ("user-agent", marker)];
    errors.push(post(to, CHAT, &[("x-terrace-prefer", marker)], &question(&text)).await);
    let mut body = question(&text);
    body["metadata"] = json!({marker: marker});
    body["user"] = marker.into();
    body[marker] = marker.into();
    body["tools"] = json!([{"type": "function", "function": {"name": marker, "parameters": {"type": "object"}}}]);
    errors.push(post(to, CHAT, &headers, &body).await);
    let explained = post(to, "/v1/explain", &headers, &body).await;
    assert_eq!(explained.status, 200, "{explained:?}");
    assert!(!String::from_utf8_lossy(&explained.body).contains(marker), "{explained:?}");
    errors.push(get(to, &format!("/v1/explain/{marker}"), &[]).await);
    let mut unknown = question(&text);
    unknown["model"] = marker.into();
    errors.push(post(to, CHAT, &[], &unknown).await);
    let mut role = question(&text);
    role["messages"][0]["role"] = marker.into();
    errors.push(post(to, CHAT, &[], &role).await);
    errors.push(client::post_bytes(to, CHAT, &[], format!("{{\"{marker}\": {marker}}}").into_bytes()).await);
    errors.push(post(to, CHAT, &[("x-terrace-class", marker)], &question(&text)).await);
    errors.push(get(to, &format!("/v1/{marker}"), &[]).await);
    let card = format!("{marker} card 4111 1111 1111 1111");
    let mut denied = question(&card);
    denied["model"] = "big".into();
    errors.push(post(to, CHAT, &[], &denied).await);
    let mut forbidden = question(&card);
    forbidden["api_base"] = format!("http://{marker}").into();
    errors.push(post(to, CHAT, &[], &forbidden).await);

    // Failures: refused, nonsense, cut, late, gone.
    for act in [Act::Status(500, vec![]), Act::Nonsense, Act::Cut(answer), Act::ErrorEvent(answer)] {
        edge.next(act);
        stream(to, CHAT, &[], &streamed(&text)).await.rest().await;
    }
    edge.always(Act::Stall);
    cloud.always(Act::Stall);
    errors.push(post(to, CHAT, &[("x-terrace-feature", "strict")], &question(&text)).await);
    let gone = tokio::spawn({
        let body = question(&text);
        async move { post(to, CHAT, &[], &body).await }
    });
    until("a tier has the request", || edge.running() + cloud.running() >= 1).await;
    gone.abort();
    until("everything ended", || edge.running() + cloud.running() == 0).await;

    assert!(edge.bodies.lock().unwrap().iter().any(|b| b.to_string().contains(marker)), "the marker did travel");
    assert!(cloud.bodies.lock().unwrap().iter().any(|b| b.to_string().contains(marker)), "the marker did travel");
    ids.extend(errors.iter().map(|error| error.header("x-terrace-request-id").to_owned()));
    let outputs = outputs(&world, &process, &ids).await;
    assert!(outputs.iter().all(|(name, text)| !text.is_empty() || panic!("{name} is empty: nothing was searched")));
    let shown: Vec<String> = leaks(&outputs, marker)
        .into_iter()
        .map(|name| {
            let text = &outputs.iter().find(|(n, _)| *n == name).unwrap().1;
            let at = text.find(marker).unwrap_or_default();
            format!("{name}: …{}…", text.get(at.saturating_sub(200)..(at + 100).min(text.len())).unwrap_or("?"))
        })
        .collect();
    assert!(shown.is_empty(), "{shown:#?}");
    for error in errors {
        let text = format!("{:?} {:?}", error.headers, error.body);
        assert!(error.status == 200 || !text.contains(marker), "{text}");
    }
}

#[tokio::test]
async fn the_search_catches_a_leak_in_each_output() {
    // Names of tiers are shown on purpose; a tier whose name is the marker is a leak in every output.
    let marker = "zqseeded41c8";
    let tier = Scripted::new("big", 4, Act::Say("x"));
    let mut world = World::new();
    world.endpoint(marker, Boundary::Public, &tier).await;
    let process = process::start(&mut world).await;
    let answered = post(process.listen, CHAT, &[], &question("hi")).await;
    assert_eq!(answered.status, 200);
    tier.always(Act::Status(500, vec![]));
    post(process.listen, CHAT, &[], &question("hi")).await;
    let outputs = outputs(&world, &process, &[answered.header("x-terrace-request-id").to_owned()]).await;
    assert_eq!(leaks(&outputs, marker), ["log", "traces", "metrics", "egress ledger", "decisions"]);
}
