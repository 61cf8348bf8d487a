//! Which traces are kept, what is in them, and who is told.

use std::collections::BTreeSet;

use crate::support::process::{self, Process};
use crate::support::{Act, Reply, Scripted, World, get, post, question, until};
use serde_json::Value;
use terrace_contract::trust::Boundary;

const CHAT: &str = "/v1/chat/completions";

/// The trace and the flag of an answer's `traceparent`.
fn traced(reply: &Reply) -> (String, String) {
    let parts: Vec<&str> = reply.header("traceparent").split('-').collect();
    let [_, trace, _, flags] = parts[..] else { panic!("{reply:?}") };
    (trace.to_owned(), flags.to_owned())
}

fn spans_of<'a>(spans: &'a [Value], trace: &str) -> Vec<&'a Value> {
    spans.iter().filter(|span| span["traceId"] == trace).collect()
}

/// Spans of a request that was answered after the first one failed, of one that nobody could answer, and of one that
/// went well. The exporter of the file writes before the next request is read.
struct Three {
    well: Reply,
    overflowed: Reply,
    failed: Reply,
    mistaken: Reply,
    spans: Vec<Value>,
    process: Process,
}

async fn three(percent: u8, headers: &[(&str, &str)]) -> Three {
    let (edge, cloud) = (Scripted::new("small", 4, Act::Say("near")), Scripted::new("big", 4, Act::Say("far")));
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[&edge]).await;
    world.endpoint("cloud", Boundary::Public, &cloud).await;
    world.snapshot.policy.trace_sample_percent = percent;
    let process = process::start(&mut world).await;
    let ask = async || post(process.listen, CHAT, headers, &question("hi")).await;
    let well = ask().await;
    assert_eq!(well.header("x-terrace-tier"), "edge");
    let mistaken = post(process.listen, CHAT, headers, &serde_json::json!({"model": "auto"})).await;
    assert_eq!(mistaken.status, 400);
    edge.next(Act::Status(500, vec![]));
    let overflowed = ask().await;
    assert_eq!(overflowed.header("x-terrace-tier"), "cloud");
    edge.always(Act::Status(500, vec![]));
    cloud.always(Act::Status(500, vec![]));
    let failed = ask().await;
    assert_eq!(failed.status, 502, "{failed:?}");
    let last = traced(&failed).0;
    until("the last trace is written", || process.spans().iter().any(|s| s["traceId"] == last.as_str())).await;
    // Whose turn came before is written before.
    assert_eq!(edge.last_headers()["traceparent"].to_str().unwrap().split('-').nth(1), Some(&*last));
    Three { well, overflowed, failed, mistaken, spans: process.spans(), process }
}

#[tokio::test]
async fn at_zero_percent_errors_and_overflows_are_kept_and_nothing_else() {
    let three = three(0, &[]).await;
    for (reply, kept) in
        [(&three.well, false), (&three.mistaken, false), (&three.overflowed, true), (&three.failed, true)]
    {
        let (trace, flags) = traced(reply);
        assert_eq!(flags, "00", "it was not sampled, and who comes after is told so: {reply:?}");
        assert_eq!(!spans_of(&three.spans, &trace).is_empty(), kept, "{reply:?}");
    }
    let whole = spans_of(&three.spans, &traced(&three.overflowed).0);
    let names: Vec<&str> = whole.iter().map(|span| span["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        ["sense", "decide", "attempt", "attempt", "chat auto"],
        "all of it, though it was kept afterwards"
    );
    let server = whole.last().unwrap();
    assert_eq!(server["attributes"]["terrace.outcome"], "overflowed");
    assert!(whole[..4].iter().all(|span| span["parentSpanId"] == server["spanId"]), "{whole:?}");
    let within = |span: &Value| {
        let (from, to) = (span["startUs"].as_u64().unwrap(), span["endUs"].as_u64().unwrap());
        server["startUs"].as_u64().unwrap() <= from && from <= to && to <= server["endUs"].as_u64().unwrap()
    };
    assert!(whole.iter().all(|span| within(span)), "{whole:?}");
    let failed = spans_of(&three.spans, &traced(&three.failed).0);
    let server = failed.last().unwrap();
    assert_eq!((&server["attributes"]["error.type"], &server["error"]), (&"upstream_failed".into(), &"".into()));
    assert_eq!(server["attributes"]["http.response.status_code"], 502);
}

#[tokio::test]
async fn at_a_hundred_percent_everything_is_kept() {
    let three = three(100, &[]).await;
    for reply in [&three.well, &three.mistaken, &three.overflowed, &three.failed] {
        let (trace, flags) = traced(reply);
        assert_eq!(flags, "01", "{reply:?}");
        assert!(!spans_of(&three.spans, &trace).is_empty(), "{reply:?}");
    }
    let mistaken = spans_of(&three.spans, &traced(&three.mistaken).0);
    let server = mistaken.last().unwrap();
    assert_eq!((&server["attributes"]["error.type"], &server["error"]), (&"invalid_request".into(), &Value::Null));
}

#[tokio::test]
async fn a_callers_decision_goes_before_the_share_but_hides_no_error() {
    let trace = "0af7651916cd43dd8448eb211c80319c";
    for (percent, flags, all) in [(0, "01", true), (100, "00", false)] {
        let parent = format!("00-{trace}-b7ad6b7169203331-{flags}");
        let three = three(percent, &[("traceparent", &parent)]).await;
        for reply in [&three.well, &three.overflowed, &three.failed] {
            assert_eq!(traced(reply), (trace.to_owned(), flags.to_owned()));
        }
        let outcomes: Vec<&Value> = spans_of(&three.spans, trace)
            .iter()
            .filter(|span| span["name"] == "chat auto")
            .map(|span| &span["attributes"]["terrace.outcome"])
            .collect();
        let want: &[&str] = if all { &["served", "overflowed", "failed"] } else { &["overflowed", "failed"] };
        assert_eq!(outcomes, want, "{percent} {flags}");
    }
}

#[tokio::test]
async fn exemplars_name_traces_that_were_kept_and_are_for_those_who_ask() {
    let openmetrics = [("accept", "application/openmetrics-text;version=1.0.0,text/plain;q=0.5")];
    for (percent, kept) in [(100, true), (0, false)] {
        let three = three(percent, &[]).await;
        let asked = get(three.process.admin, "/metrics", &openmetrics).await;
        let plain = get(three.process.admin, "/metrics", &[]).await;
        assert!(asked.header("content-type").starts_with("application/openmetrics-text; version=1.0.0"), "{asked:?}");
        assert!(plain.header("content-type").starts_with("text/plain; version=0.0.4"), "{plain:?}");
        let text = |reply: &Reply| String::from_utf8_lossy(&reply.body).into_owned();
        let line = |tier: &str| {
            let mut lines = text(&asked).lines().map(str::to_owned).collect::<Vec<_>>();
            lines.retain(|l| l.starts_with("gen_ai_server_time_to_first_token_seconds_bucket") && l.contains('#'));
            lines.into_iter().find(|l| l.contains(&format!("tier=\"{tier}\"")))
        };
        let names = |reply: &Reply, line: &str| line.contains(&format!("# {{trace_id=\"{}\"}}", traced(reply).0));
        assert_eq!(line("edge").is_some_and(|l| names(&three.well, &l)), kept, "{}", text(&asked));
        assert!(line("cloud").is_some_and(|l| names(&three.overflowed, &l)), "kept for its overflow: {}", text(&asked));
        assert!(text(&asked).ends_with("# EOF\n") && !text(&plain).contains("trace_id"), "{}", text(&plain));
        assert!(text(&plain).contains("# TYPE terrace_requests_total counter\n"), "{}", text(&plain));
    }
}

/// The rows of a table of docs/traces.md: of each span, its attributes and events.
fn documented(span: &str) -> BTreeSet<String> {
    let text = include_str!("../../../docs/traces.md");
    let row = text.lines().find(|line| line.starts_with(&format!("| `{span}` |")));
    let row = row.unwrap_or_else(|| panic!("no row of {span} in docs/traces.md"));
    row.split('|').skip(3).flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

#[tokio::test]
async fn the_documentation_lists_every_attribute_and_event() {
    let three = three(100, &[]).await;
    for (row, name) in
        [("{operation} {model}", "chat auto"), ("sense", "sense"), ("decide", "decide"), ("attempt", "attempt")]
    {
        let mut seen = BTreeSet::new();
        for span in three.spans.iter().filter(|span| span["name"] == name) {
            seen.extend(span["attributes"].as_object().unwrap().keys().cloned());
            seen.extend(span["events"].as_array().unwrap().iter().map(|e| e["name"].as_str().unwrap().to_owned()));
        }
        assert_eq!(seen, documented(row), "{name}");
    }
}
