//! What must hold of every seed, whatever went wrong in it. Each check returns sentences: what is not so.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufReader;
use std::sync::atomic::Ordering;
use std::time::Duration;

use terrace_contract::report::{Outcome, Report};
use terrace_contract::trust::{Boundary, Class};
use terrace_decide::Serving;
use terrace_decide::affinity::Prefix;
use terrace_privacy::ledger::{Record, verify};
use terrace_router::app::App;
use terrace_router::ledger::empty_report;
use terrace_wire::error::Code;

use crate::client::{End, Fate};
use crate::fleet::{BUDGETS, EPOCH_US};
use crate::sea::CLIENTS;
use crate::tier::PROMPT_TOKENS;
use crate::world::{GRACE, Left, Life};

/// Everything that does not hold.
pub fn all(left: &Left) -> Vec<String> {
    let mut wrong = Vec::new();
    one_answer_each(left, &mut wrong);
    in_time(left, &mut wrong);
    nothing_past_its_clearance(left, &mut wrong);
    counters_at_zero(left, &mut wrong);
    requests_add_up(left, &mut wrong);
    reports_grow(left, &mut wrong);
    tokens_add_up(left, &mut wrong);
    crossings_are_recorded(left, &mut wrong);
    refused_snapshots_stay_out(left, &mut wrong);
    ends_in_time(left, &mut wrong);
    wrong
}

/// What is in flight in a router, by name.
pub fn in_flight(app: &App) -> Vec<String> {
    let mut found = Vec::new();
    let (permits, requests) = (app.concurrency.now(), app.metrics.in_flight.get());
    if permits != 0 || requests != 0 {
        found.push(format!("{permits} permits, {requests} requests"));
    }
    let (waiting, queued) = (app.fleet.waiters().len(), app.metrics.queued.get());
    if waiting != 0 || queued != 0 {
        found.push(format!("{waiting} that wait, {queued} by its metrics"));
    }
    let Some(used) = app.fleet.in_use() else { return found };
    for tier in
        app.fleet.view(&used, app.spend.day(app.clock.started_us()), &Prefix::default(), app.clock.started_us()).tiers
    {
        let name = &tier.tier.name;
        match tier.serving {
            Serving::Devices(devices) => found.extend(
                devices
                    .iter()
                    .filter(|d| d.own_in_flight != 0)
                    .map(|d| format!("{} of {name}'s {}", d.own_in_flight, d.facts.pod_uid)),
            ),
            Serving::Endpoint(e) if e.in_flight != 0 => found.push(format!("{} of {name}", e.in_flight)),
            Serving::Endpoint(_) => {}
        }
    }
    found
}

/// The life of the router during which a request was sent.
fn life_at(left: &Left, at: Duration) -> Option<&Life> {
    left.lives.iter().rfind(|life| life.started <= at)
}

/// No request is lost or answered twice: each client has one whole answer of one tier, or one clear error.
fn one_answer_each(left: &Left, wrong: &mut Vec<String>) {
    let codes: BTreeSet<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    for fate in &left.fates {
        let nonce = &fate.ask.nonce;
        let bad = match &fate.end {
            End::Answered { words, counted } => answer_of(fate, words, *counted),
            // What came before it broke is the beginning of one answer.
            End::Broke { words } => in_order(fate, words),
            End::Refused { code, .. } if codes.contains(code.as_str()) => None,
            End::HungUp => None,
            End::NoConnection if away(left, fate) => None,
            End::Cut { .. } if cut_off(left, fate) => None,
            other => Some(format!("{other:?}")),
        };
        wrong.extend(bad.map(|bad| format!("{nonce} has no answer and no clear error: {bad}")));
    }
    if left.fates.len() != left.plan.asks.len() {
        wrong.push(format!("{} requests, {} ends", left.plan.asks.len(), left.fates.len()));
    }
}

fn answer_of(fate: &Fate, words: &[String], counted: Option<u64>) -> Option<String> {
    let short = counted.is_some_and(|counted| counted != words.len() as u64) || words.is_empty();
    short.then(|| format!("{} words of {counted:?}", words.len())).or_else(|| in_order(fate, words))
}

/// Words of one tier, of this request, each once and in order.
fn in_order(fate: &Fate, words: &[String]) -> Option<String> {
    let tier = words.first().and_then(|word| word.split('/').next()).unwrap_or_default();
    let expected: Vec<String> = (0..words.len()).map(|i| format!("{tier}/{}/{i}", fate.ask.nonce)).collect();
    (words != expected || !tier.starts_with(&fate.tier)).then(|| format!("{words:?} of tier {}", fate.tier))
}

/// Whether no router ran, or the one that did was stopping, when a client connected.
fn away(left: &Left, fate: &Fate) -> bool {
    let (from, to) = (fate.sent, fate.ended);
    let runs = |life: &Life| {
        let end = life.drained.or(life.ended).unwrap_or(Duration::MAX);
        life.started < from && to < end
    };
    !left.lives.iter().any(runs)
}

/// Whether a connection may have ended in the middle: the router was killed, or its grace was over, or the request was
/// not there yet when the router was told to stop.
fn cut_off(left: &Left, fate: &Fate) -> bool {
    let Some(life) = life_at(left, fate.sent) else { return true };
    let link = left.plan.links.iter().find(|(host, _)| *host == CLIENTS).map_or(Duration::ZERO, |(_, l)| *l);
    let slack = link + Duration::from_millis(10);
    let killed = life.killed && life.ended.is_some_and(|end| fate.ended + slack >= end);
    killed
        || life.drained.is_some_and(|stop| {
            let late = fate.head.is_none() && fate.sent + slack >= stop;
            late || fate.ended + slack >= stop + GRACE
        })
}

/// Deadlines are kept, or refused.
fn in_time(left: &Left, wrong: &mut Vec<String>) {
    let link = left.plan.links.iter().find(|(host, _)| *host == CLIENTS).map_or(Duration::ZERO, |(_, l)| *l);
    let slack = link * 2 + Duration::from_millis(20);
    for fate in &left.fates {
        let total = BUDGETS.iter().find(|(name, ..)| *name == fate.ask.feature).unwrap_or(&BUDGETS[3]).1;
        let within = Duration::from_millis(total) + slack;
        if let Some(head) = fate.head
            && head - fate.sent > within
        {
            wrong.push(format!("{} began to be answered after {:?} of {within:?}", fate.ask.nonce, head - fate.sent));
        }
        if matches!(fate.end, End::NoConnection) {
            continue;
        }
        // A stream may take longer once it has begun; each silence has its own limit, and ends of itself.
        if !fate.ask.stream && fate.ended - fate.sent > within {
            wrong.push(format!("{} ended after {:?} of {within:?}", fate.ask.nonce, fate.ended - fate.sent));
        }
    }
}

/// The widest boundary that a class had in any policy that was in use between two moments.
fn widest(left: &Left, class: Class, from: Duration, to: Duration) -> Boundary {
    let mut widest = Boundary::Device;
    for life in &left.lives {
        for (i, (since, snapshot)) in life.policies.iter().enumerate() {
            let until = life.policies.get(i + 1).map_or(Duration::MAX, |(next, _)| *next);
            if *since <= to && from <= until {
                widest = widest.max(snapshot.policy.sensitivity.boundaries.of(class));
            }
        }
    }
    widest
}

fn boundary(tier: &str) -> Boundary {
    match tier {
        "cloud" => Boundary::Public,
        "node-0" | "node" => Boundary::Private,
        _ => Boundary::Device,
    }
}

/// No byte of a body arrives past the boundary of its class, by what the tiers received.
fn nothing_past_its_clearance(left: &Left, wrong: &mut Vec<String>) {
    for tier in &left.tiers {
        for body in &*tier.received.lock().unwrap() {
            let Some(fate) = left.fates.iter().find(|fate| fate.ask.nonce == body.nonce) else {
                wrong.push(format!("{} received a body of nobody: {:?}", tier.name, body.nonce));
                continue;
            };
            let may = widest(left, fate.ask.class(), fate.ask.at, body.at);
            if boundary(&tier.name) > may {
                let class = fate.ask.class();
                wrong.push(format!("{} of class {class} reached {}, and may reach {may}", body.nonce, tier.name));
            }
        }
    }
}

/// Counters return to zero: in the router, and at the tiers, where nothing runs that nobody waits for.
fn counters_at_zero(left: &Left, wrong: &mut Vec<String>) {
    for (i, life) in left.lives.iter().enumerate() {
        wrong
            .extend(in_flight(&life.app).into_iter().map(|what| format!("life {i} of the router still counts {what}")));
    }
    for tier in &left.tiers {
        let running = tier.running.load(Ordering::SeqCst);
        if running != 0 {
            wrong.push(format!("{running} requests still run at {}", tier.name));
        }
    }
}

/// What all lives of the router counted.
fn reports(left: &Left) -> Vec<Report> {
    let report = |life: &Life| {
        let mut report = empty_report();
        life.app.ledger.fill(&mut report);
        report
    };
    left.lives.iter().map(report).collect()
}

/// Each request is counted once, by what became of it. A client that went away may have done so before its request came.
fn requests_add_up(left: &Left, wrong: &mut Vec<String>) {
    let reports = reports(left);
    let count = |of: &dyn Fn(Outcome) -> bool| -> u64 {
        reports.iter().flat_map(|r| &r.counts).filter(|c| of(c.outcome)).map(|c| c.requests).sum()
    };
    let seen = |of: &dyn Fn(&End) -> bool| left.fates.iter().filter(|fate| of(&fate.end)).count() as u64;
    let unsure = seen(&|end| matches!(end, End::HungUp | End::Cut { .. } | End::NoConnection));
    let ends: [(&str, u64, u64); 3] = [
        (
            "answered",
            seen(&|end| matches!(end, End::Answered { .. })),
            count(&|o| matches!(o, Outcome::Served | Outcome::Overflowed | Outcome::Escalated | Outcome::Degraded)),
        ),
        (
            "refused or broken",
            seen(&|end| matches!(end, End::Refused { .. } | End::Broke { .. })),
            count(&|o| matches!(o, Outcome::Invalid | Outcome::Denied | Outcome::Unavailable | Outcome::Failed)),
        ),
        ("ended at all", left.fates.len() as u64 - unsure, count(&|_| true)),
    ];
    for (what, clients, router) in ends {
        if router < clients || router > clients + unsure {
            wrong.push(format!("{clients} {what} by clients, up to {unsure} more unknown; the router says {router}"));
        }
    }
}

/// What the operator hears only grows, and is never more than what was counted.
fn reports_grow(left: &Left, wrong: &mut Vec<String>) {
    let total = |report: &Report| report.counts.iter().map(|count| count.requests).sum::<u64>();
    let mut heard: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for report in &*left.operator.reports.lock().unwrap() {
        let (at, before) = heard.entry(report.started_at_us).or_default();
        let now = total(report);
        if report.sent_at_us >= *at && now < *before {
            wrong.push(format!("a report says {now} requests after one that said {before}"));
        }
        (*at, *before) = (report.sent_at_us.max(*at), now.max(*before));
    }
    for life in &left.lives {
        let mut whole = empty_report();
        life.app.ledger.fill(&mut whole);
        let said = heard.get(&life.app.clock.started_us()).map_or(0, |(_, said)| *said);
        if said > total(&whole) {
            wrong.push(format!("the operator heard of {said} requests of {}", total(&whole)));
        }
    }
}

/// Tokens and attempts by tier.
fn tokens_add_up(left: &Left, wrong: &mut Vec<String>) {
    let reports = reports(left);
    for name in ["edge", "node", "cloud"] {
        let uid = format!("uid-{name}");
        let usage = reports.iter().flat_map(|r| &r.usage).filter(|usage| usage.tier == uid);
        let (mut input, mut output, mut attempts) = (0, 0, 0);
        for usage in usage {
            (input, output, attempts) =
                (input + usage.input_tokens, output + usage.output_tokens, attempts + usage.attempts);
        }
        let whole = left.fates.iter().filter(|fate| fate.tier == name).filter_map(|fate| match &fate.end {
            End::Answered { words, .. } => Some(words.len() as u64),
            _ => None,
        });
        let (answers, words) = whole.fold((0, 0), |(n, all), words| (n + 1, all + words));
        // Of what broke off, or was given up by its client, the router counts what it saw; that is not known here.
        let vague = left.fates.iter().any(|fate| {
            let part = matches!(fate.end, End::HungUp | End::Cut { .. } | End::Broke { .. });
            part && (fate.tier == name || fate.tier.is_empty())
        });
        let exact = (input, output) == (answers * PROMPT_TOKENS, words);
        if !exact && (!vague || input < answers * PROMPT_TOKENS || output < words) {
            let said = format!("{input} + {output} tokens");
            wrong.push(format!("{name}: {answers} answers of {words} words, and the router counts {said}"));
        }
        let given_up = left.fates.iter().filter(|f| matches!(f.end, End::HungUp | End::Cut { .. })).count() as u64;
        // Of one that was given up there may have been two at once.
        let given_up = 2 * given_up;
        let received: u64 =
            left.tiers.iter().filter(|t| t.uid == uid).map(|t| t.received.lock().unwrap().len() as u64).sum();
        if received > attempts + given_up {
            wrong.push(format!("{name} received {received} bodies in {attempts} attempts, {given_up} given up"));
        }
    }
}

/// The egress ledger: an unbroken chain with one record for each body that crossed, none past its clearance.
fn crossings_are_recorded(left: &Left, wrong: &mut Vec<String>) {
    let Ok(text) = std::fs::read_to_string(&left.ledger) else {
        return wrong.push("there is no egress ledger".into());
    };
    if let Err(broken) = verify(BufReader::new(text.as_bytes())) {
        wrong.push(format!("the egress ledger: {broken}"));
    }
    let records: Vec<Record> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let ids: BTreeMap<&str, &Fate> = left.fates.iter().map(|fate| (fate.id.as_str(), fate)).collect();
    let mut once = BTreeSet::new();
    for record in &records {
        if !once.insert((&record.request_id, record.attempt)) {
            wrong.push(format!("attempt {} of {} is recorded twice", record.attempt, record.request_id));
        }
        let at = Duration::from_micros(record.at_us - EPOCH_US);
        // A snapshot in use is noted at the end of a step.
        let may = widest(left, record.class, at.saturating_sub(Duration::from_millis(4)), at);
        if record.boundary > may || record.boundary == Boundary::Device {
            wrong.push(format!(
                "a crossing of class {} to {} at {at:?}, which may reach {may}",
                record.class, record.tier
            ));
        }
        if let Some(fate) = ids.get(record.request_id.as_str())
            && record.class != fate.ask.class()
        {
            wrong.push(format!("{} of class {} is recorded as {}", fate.ask.nonce, fate.ask.class(), record.class));
        }
    }
    for tier in left.tiers.iter().filter(|tier| boundary(&tier.name) > Boundary::Device) {
        let received = tier.received.lock().unwrap();
        for fate in left.fates.iter().filter(|fate| !fate.id.is_empty()) {
            let mut came: Vec<u64> = received.iter().filter(|b| b.nonce == fate.ask.nonce).map(|b| b.bytes).collect();
            let of_it = records.iter().filter(|r| r.request_id == fate.id && r.tier_uid == tier.uid);
            for bytes in of_it.map(|record| record.bytes) {
                if let Some(at) = came.iter().position(|came| *came == bytes) {
                    came.swap_remove(at);
                }
            }
            if !came.is_empty() {
                wrong.push(format!("{} reached {} without a record", fate.ask.nonce, tier.name));
            }
        }
        let written = records.iter().filter(|r| r.tier_uid == tier.uid).count();
        if written < received.len() {
            wrong.push(format!("{} received {} bodies, and {written} are recorded", tier.name, received.len()));
        }
    }
}

/// What must be refused is never in use.
fn refused_snapshots_stay_out(left: &Left, wrong: &mut Vec<String>) {
    let refused: u64 = left.lives.iter().map(|life| life.app.metrics.snapshots_refused.get()).sum();
    if left.refused_snapshots == 0 && refused != 0 {
        wrong.push(format!("{refused} snapshots were refused, and each was good"));
    }
    for life in &left.lives {
        for (at, snapshot) in &life.policies {
            let own = snapshot.policy.name == crate::papers::POLICY && snapshot.generations.policy > 0;
            let proved =
                terrace_identity::signing::verify(snapshot, &crate::papers::papers().key.public_base64()).is_ok();
            if !own || !proved {
                wrong.push(format!("a snapshot that must be refused is in use at {at:?}"));
            }
        }
    }
}

/// A router that was told to stop has ended when its grace, and the last report's time, are over.
fn ends_in_time(left: &Left, wrong: &mut Vec<String>) {
    for life in &left.lives {
        let Some(stop) = life.drained else { continue };
        match life.ended {
            Some(end) if end <= stop + GRACE + Duration::from_secs(6) => {}
            Some(end) => wrong.push(format!("the router was told to stop at {stop:?} and ended at {end:?}")),
            None if left.took <= stop + GRACE + Duration::from_secs(6) => {}
            None => wrong.push(format!("the router was told to stop at {stop:?} and never ended")),
        }
    }
}
