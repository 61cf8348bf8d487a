//! What is this request? Tokens, class, needs, feature and budget, complexity: everything that `decide` sees of it.

pub mod chain;
pub mod feature;
pub mod forbidden;
pub mod needs;
pub mod prefix;
pub mod session;
pub mod sharing;
pub mod token;
pub mod tokens;

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use serde_json::Value;
use terrace_contract::headers;
use terrace_contract::policy::Budget;
use terrace_contract::reason::Reason;
use terrace_contract::snapshot::Snapshot;
use terrace_contract::trust::{Boundary, Class};
use terrace_decide::affinity::Prefix;
use terrace_decide::complexity::{self, Prompt, Verdict};
use terrace_decide::output::Length;
use terrace_decide::{Deadline, Hop, ModelChoice, Prefer, Signals};
use terrace_privacy::{Classified, Request, Rules};
use terrace_wire::error::{Code, ErrorBody};
use terrace_wire::json::member;
use terrace_wire::pointer::Pointer;
use tokio::time::Instant;

use crate::app::App;
use crate::clock::micros;
use crate::dispatch::body::Call;
use crate::fleet::InUse;
use crate::refusal::Refusal;
use crate::server::admit::Caller;
use crate::server::language::Asked;

use session::Session;
use token::Presented;

/// Time that the detector has; past it a request is Restricted.
const DETECTOR_TIME: Duration = Duration::from_millis(200);

/// What a request is.
pub struct Sensed {
    /// What privacy made of it.
    pub classified: Classified,
    /// What decide sees.
    pub signals: Signals,
    /// The budget that covers it.
    pub budget: Option<Budget>,
    /// Who may share computed prompts with it: see [`sharing`].
    pub cache_domain: Option<String>,
    /// What its prompt begins with.
    pub prefix: Arc<Prefix>,
    /// The session that it belongs to.
    pub session: Option<Ongoing>,
}

/// The session of a request that goes on.
pub struct Ongoing {
    /// The name of the caller's key; empty: anonymous.
    pub caller: String,
    /// What its client presented, with the class that it has now.
    pub presented: Presented,
    /// The chain that the request is a call of.
    pub chain: Option<chain::Key>,
}

/// What privacy made of a request, what decide sees of it, and the budget that covers it.
pub type Looked = (Classified, Signals, Option<Budget>);

/// What is known beside the request itself.
pub struct Known<'a> {
    /// The class that its conversation had before.
    pub session: Option<Class>,
    /// How long an answer of this feature to a prompt of so many tokens is expected to be, at most so many.
    pub length: &'a dyn Fn(&str, u32, u32) -> Length,
    /// Where it stands in its chain, under a budget.
    pub hop: &'a dyn Fn(&Budget) -> Option<Hop>,
    /// How long ago it came.
    pub elapsed_us: u64,
}

/// Senses a request that came at the first of two moments, at the second.
///
/// # Errors
/// 400 for a label or a preference that is none, or a field that needs a clearance for Public.
pub fn sense(
    app: &App,
    in_use: &InUse,
    given: &HeaderMap,
    asked: &Asked,
    caller: &Caller,
    (came, now): (Instant, Instant),
) -> Result<Sensed, Refusal> {
    each_once(given)?;
    let elapsed_us = micros(now.duration_since(came));
    let now = app.clock.us_of(now);
    let session = session(app, given, caller);
    let known = Known {
        session: session.as_ref().and_then(|(session, presented)| earlier(app, session, presented, now)),
        length: &|feature, prompt_tokens, most| app.next_length(feature, prompt_tokens, most),
        hop: &|budget| {
            session.as_ref().and_then(|(session, told)| app.chains.call(*session, budget, &told.chains, now))
        },
        elapsed_us,
    };
    let request = &asked.request;
    let classified = classify(&in_use.rules, given, request, caller, known.session)?;
    if let Some((session, _)) = session {
        app.sessions.raise(session, classified.class(), now);
    }
    let (signals, budget) = describe(&in_use.snapshot, &classified, given, asked, &known)?;
    let id = session.as_ref().map(|(_, presented)| presented.id.as_str());
    let cache_domain = sharing::domain(&caller.name, id, classified.class());
    let prefix = prefix::of_request(&app.prefix_secret, &in_use.snapshot.policy.uid, cache_domain.as_deref(), request);
    let class = Some(classified.class());
    let session = session.map(|(session, presented)| Ongoing {
        caller: caller.name.clone(),
        presented: Presented { class: presented.class.max(class), ..presented },
        chain: signals.hop.and(budget.as_ref()).map(|budget| (session, budget.uid.clone())),
    });
    Ok(Sensed { classified, signals, budget, cache_domain, prefix: Arc::new(prefix), session })
}

/// The conversation that a request belongs to, and what its client presents of it.
pub fn session(app: &App, given: &HeaderMap, caller: &Caller) -> Option<(Session, Presented)> {
    // An empty one names no session: else all that send it would share one.
    let told = text(given, headers::SESSION).map(str::trim).filter(|told| !told.is_empty())?;
    let presented = app.tokens.read(&caller.name, told);
    Some((app.sessions.session(&caller.name, &presented.id), presented))
}

/// The class that a conversation had before, as far as it is known here or to its client's token.
pub fn earlier(app: &App, session: &Session, presented: &Presented, now_us: u64) -> Option<Class> {
    app.sessions.class(session, now_us).max(presented.class)
}

/// The same look at a request, of which nothing is kept: for one that is explained, not sent.
///
/// # Errors
/// As [`sense`].
pub fn look(
    snapshot: &Snapshot,
    rules: &Rules,
    given: &HeaderMap,
    asked: &Asked,
    caller: &Caller,
    known: &Known<'_>,
) -> Result<Looked, Refusal> {
    each_once(given)?;
    let classified = classify(rules, given, &asked.request, caller, known.session)?;
    let (signals, budget) = describe(snapshot, &classified, given, asked, known)?;
    Ok((classified, signals, budget))
}

fn describe(
    snapshot: &Snapshot,
    classified: &Classified,
    given: &HeaderMap,
    asked: &Asked,
    known: &Known<'_>,
) -> Result<(Signals, Option<Budget>), Refusal> {
    let (call, request, prefer) = (asked.call, &asked.request, prefer(given)?);
    let widest = snapshot.policy.sensitivity.widest(classified.class());
    if widest < Boundary::Public
        && let Some(pointer) = forbidden::first(request)
    {
        return Err(forbidden_at(&asked.language.origin(&pointer), classified.class()));
    }
    let context = feature::context(given, request, &snapshot.budgets);
    let prompt_tokens = narrow(tokens::of_request(request));
    let most = snapshot.policy.limits.max_output_tokens;
    let limit = tokens::output_limit(request).map(|n| narrow(n).min(most));
    // Counted only once nothing of the request is wrong any more.
    let structured = needs::form(request);
    let hop = context.budget.and_then(|budget| (known.hop)(budget)).map(|hop| Hop { structured, ..hop });
    // A vector has no length to expect, and a text is as easily embedded whatever it asks for.
    let (verdict, length, limit) = if call == Call::Embedding {
        (Verdict::simple(), Length { expected: 0, likely: 0 }, Some(0))
    } else {
        let last_user = last_user(request);
        let tools = member(request, "tools").and_then(Value::as_array).map_or(0, Vec::len);
        let length = (known.length)(context.feature, prompt_tokens, limit.unwrap_or(most));
        let step = hop.is_some_and(|hop| hop.is_step(length.likely));
        let prompt = Prompt { last_user: &last_user, prompt_tokens, tools, step };
        (complexity::judge(&snapshot.policy.complexity, &prompt), length, limit)
    };
    let deadline = context.budget.map(|b| Deadline::after(b, known.elapsed_us));
    let signals = Signals {
        prompt_tokens,
        longest_input_tokens: tokens::of_longest(request).map(narrow),
        expected_output_tokens: length.expected,
        likely_output_tokens: length.likely,
        max_output_tokens: limit,
        class: classified.class(),
        class_reasons: classified.reasons().to_vec(),
        needs: needs::of_request(call, request),
        model: ModelChoice::parse(member(request, "model").and_then(Value::as_str).unwrap_or_default()),
        feature: context.feature.to_owned(),
        deadline: deadline.map(|deadline| hop.map_or(deadline, |hop| deadline.within(hop.left_us))),
        hop,
        prefer,
        complexity: verdict,
        escalate_from: None,
    };
    Ok((signals, context.budget.cloned()))
}

fn classify(
    rules: &Rules,
    given: &HeaderMap,
    request: &Value,
    caller: &Caller,
    session: Option<Class>,
) -> Result<Classified, Refusal> {
    let label = label(given)?;
    let begun = Instant::now();
    let trust_label = caller.rule.as_ref().is_some_and(|rule| rule.trust_label);
    let asked = Request { body: request, label, trust_label, session };
    Ok(rules.classify(&asked, &mut || begun.elapsed() > DETECTOR_TIME))
}

/// Headers of which two could contradict each other.
fn each_once(given: &HeaderMap) -> Result<(), Refusal> {
    [headers::SESSION, headers::FEATURE, headers::PREFER].into_iter().try_for_each(|name| once(given, name))
}

/// The caller's label: the highest of all that are given.
fn label(given: &HeaderMap) -> Result<Option<Class>, Refusal> {
    let mut highest = None;
    for value in given.get_all(headers::CLASS) {
        let class = value.to_str().ok().and_then(Class::parse).ok_or_else(|| {
            let message = "x-terrace-class must be Public, Internal, Confidential or Restricted";
            Refusal::new(Code::InvalidRequest, message)
        })?;
        highest = highest.max(Some(class));
    }
    Ok(highest)
}

/// What the caller prefers.
fn prefer(given: &HeaderMap) -> Result<Option<Prefer>, Refusal> {
    let Some(said) = text(given, headers::PREFER) else { return Ok(None) };
    Prefer::parse(said)
        .map(Some)
        .ok_or_else(|| Refusal::new(Code::InvalidRequest, "x-terrace-prefer must be privacy, latency, cost or quality"))
}

/// Refuses a header that is given twice, or that is no text: which one is meant is not guessed.
fn once(given: &HeaderMap, name: &str) -> Result<(), Refusal> {
    let mut values = given.get_all(name).iter();
    let first = values.next();
    if values.next().is_some() {
        return Err(Refusal::new(Code::InvalidRequest, format!("{name} is given more than once: send it once")));
    }
    if first.is_some_and(|value| value.to_str().is_err()) {
        return Err(Refusal::new(Code::InvalidRequest, format!("{name} must be visible ASCII characters")));
    }
    Ok(())
}

fn forbidden_at(pointer: &Pointer, class: Class) -> Refusal {
    let message = format!(
        "{pointer}: makes the receiver fetch, store or forward, or is not known not to, which class {class} does not \
         permit: leave it out"
    );
    Refusal::of_body(Code::InvalidRequest, ErrorBody::new(Code::InvalidRequest, message).at(pointer))
        .because([Reason::Boundary])
}

/// The last turn of the user, or the prompt.
fn last_user(request: &Value) -> String {
    match member(request, "prompt") {
        Some(Value::String(prompt)) => return prompt.clone(),
        // Several are one piece of work; token ids are words to nobody here.
        Some(Value::Array(prompts)) => {
            return prompts.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n");
        }
        _ => {}
    }
    let messages = member(request, "messages").and_then(Value::as_array);
    let last = messages.into_iter().flatten().rfind(|m| member(m, "role").and_then(Value::as_str) == Some("user"));
    match last.and_then(|m| member(m, "content")) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            parts.iter().filter_map(|p| member(p, "text").and_then(Value::as_str)).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

fn text<'a>(given: &'a HeaderMap, name: &str) -> Option<&'a str> {
    given.get(name).and_then(|v| v.to_str().ok())
}

fn narrow(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
