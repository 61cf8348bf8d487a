//! Who may ask, how often, and how much at once: everything that is checked without looking into a body.

use http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};
use terrace_contract::headers;
use terrace_contract::policy::{Access, KeyRule};
use terrace_contract::reason::Reason;
use terrace_contract::snapshot::Snapshot;
use terrace_decide::Signals;
use terrace_decide::bucket::part;
use terrace_wire::error::Code;

use super::rate::{Arriving, Permit, Taken};
use crate::app::App;
use crate::refusal::Refusal;

/// Where Anthropic's clients put their key.
const API_KEY: &str = "x-api-key";

/// A caller: the name of its key, and what the key may do.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The key's name; empty: anonymous.
    pub name: String,
    /// Its rule, if the policy has one.
    pub rule: Option<KeyRule>,
}

/// Finds out who calls.
///
/// # Errors
/// 401 without a known key, 429 past its rate.
pub fn caller(app: &App, snapshot: &Snapshot, given: &HeaderMap) -> Result<Caller, Refusal> {
    let Access::ApiKeys { keys: rules } = &snapshot.policy.access else {
        return Ok(Caller { name: String::new(), rule: None });
    };
    let presented = given.get(AUTHORIZATION).and_then(bearer).or_else(|| given.get(API_KEY)?.to_str().ok());
    let presented = presented.filter(|key| !key.is_empty()).ok_or_else(|| {
        let message = "this policy wants an API key: send `Authorization: Bearer <key>` or `x-api-key: <key>`";
        Refusal::new(Code::InvalidApiKey, message)
    })?;
    let keys = app.keys.load();
    let name = keys.caller(presented).ok_or_else(|| {
        Refusal::new(Code::InvalidApiKey, "the API key is not one of this policy's: check it, or ask for a new one")
    })?;
    let rule = rules.iter().find(|rule| rule.name == name).cloned();
    if let Some(limit) = rule.as_ref().and_then(|rule| rule.requests_per_minute) {
        let limit = part(limit, snapshot.routers);
        app.rates.request(name, limit, app.clock.now_us()).map_err(|wait| {
            let message = format!("this key may make {limit} requests a minute at this router: try again later");
            Refusal::new(Code::RateLimited, message).after(wait).because([Reason::RateLimited])
        })?;
    }
    Ok(Caller { name: name.to_owned(), rule })
}

/// Takes what a request will likely use of its key's tokens a minute; none: the key has no such limit.
///
/// # Errors
/// 429 when they are not there.
pub fn tokens(app: &App, snapshot: &Snapshot, caller: &Caller, signals: &Signals) -> Result<Option<Taken>, Refusal> {
    let Some(limit) = caller.rule.as_ref().and_then(|rule| rule.tokens_per_minute) else { return Ok(None) };
    let limit = part(limit, snapshot.routers);
    let likely = u64::from(signals.prompt_tokens) + u64::from(signals.likely_output_tokens);
    app.rates.tokens(&caller.name, likely, limit, app.clock.now_us()).map(Some).map_err(|wait| {
        let message = format!("this key may use {limit} tokens a minute at this router: try again later");
        Refusal::new(Code::RateLimited, message).after(wait).because([Reason::RateLimited])
    })
}

fn bearer(value: &HeaderValue) -> Option<&str> {
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()).filter(|token| !token.is_empty())
}

/// Lets a body come: its place among the requests in flight is taken once it is here, so that one which never comes takes
/// nobody's.
///
/// # Errors
/// 503 `overloaded` if there is no place now, or as many bodies of this caller are on their way as may be in flight.
pub fn arriving(app: &App, snapshot: &Snapshot, caller: &Caller) -> Result<Arriving, Refusal> {
    let limit = part(snapshot.policy.limits.concurrency, snapshot.routers);
    if app.concurrency.now() >= limit {
        return Err(full(limit));
    }
    app.arrivals.enter(&caller.name, limit).ok_or_else(|| {
        let message = format!(
            "{limit} bodies of this caller are on their way to this router, its part of limits.concurrency: send those first"
        );
        Refusal::new(Code::Overloaded, message).after(1_000_000).because([Reason::Saturated])
    })
}

/// Takes a place among the requests in flight.
///
/// # Errors
/// 503 `overloaded`.
pub fn place(app: &App, snapshot: &Snapshot) -> Result<Permit, Refusal> {
    let limit = part(snapshot.policy.limits.concurrency, snapshot.routers);
    app.concurrency.enter(limit).ok_or_else(|| full(limit))
}

fn full(limit: u32) -> Refusal {
    let message = format!("{limit} requests are in flight at this router, its part of limits.concurrency: try again");
    Refusal::new(Code::Overloaded, message).after(1_000_000).because([Reason::Saturated])
}

/// Checks what the headers say of the body.
///
/// # Errors
/// 415.
pub fn body(given: &HeaderMap) -> Result<(), Refusal> {
    if given.get(CONTENT_ENCODING).is_some_and(|v| v != "identity") {
        let message = "a body with a content-encoding is not read: send it plain";
        return Err(Refusal::new(Code::UnsupportedMediaType, message));
    }
    let json = given
        .get(CONTENT_TYPE)
        .is_none_or(|kind| kind.to_str().is_ok_and(|k| k.trim().to_ascii_lowercase().starts_with("application/json")));
    if !json {
        return Err(Refusal::new(Code::UnsupportedMediaType, "send the body as application/json"));
    }
    Ok(())
}

/// Policies that the request passed, with this one at the end.
///
/// # Errors
/// A request that was here before would go round for ever.
pub fn via(snapshot: &Snapshot, given: &HeaderMap) -> Result<String, Refusal> {
    let own = snapshot.policy.uid.as_str();
    let before = given.get_all(headers::VIA).iter().filter_map(|v| v.to_str().ok());
    let mut passed: Vec<&str> = before.flat_map(|v| v.split(',')).map(str::trim).filter(|v| !v.is_empty()).collect();
    if passed.contains(&own) {
        let message = "this request came through this policy before: an endpoint of its ladder leads back to it";
        return Err(Refusal::new(Code::InvalidRequest, message).because([Reason::Loop]));
    }
    passed.push(own);
    Ok(passed.join(","))
}
