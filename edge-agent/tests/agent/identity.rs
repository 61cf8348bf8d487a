//! Who may call what through the mutual TLS door.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
use terrace_contract::confidence::Confidence;
use terrace_identity::{Caller, Identity, Usage};

use crate::support::{Agent, Answer, chat, tier, with};

fn post(body: &Value, headers: &[(&str, &str)]) -> Request<Full<Bytes>> {
    let mut request = Request::post("/v1/chat/completions");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Full::from(body.to_string())).unwrap()
}

async fn call(caller: &Caller, request: Request<Full<Bytes>>) -> Answer {
    Answer::read(caller.call(request).await.unwrap()).await
}

#[tokio::test]
async fn routers_may_all_the_operator_may_look_and_agents_may_nothing() {
    let Some(agent) = Agent::start(&[]).await else { return };
    let router = agent.caller(&Identity::policy("c-1", "other", "chat"));
    let operator = agent.caller(&Identity::operator("c-1"));
    let status =
        |caller| async move { Answer::read(Caller::get(caller, "/terrace/status").await.unwrap()).await.status };
    assert_eq!(status(&router).await, 200);
    assert_eq!(status(&operator).await, 200);
    let body = chat("Say hello.", 4);
    assert_eq!(call(&router, post(&body, &[])).await.status, 200);
    let refused = call(&operator, post(&body, &[])).await;
    assert_eq!((refused.status, refused.code().as_str()), (403, "forbidden"));
    assert_eq!(refused.headers["x-should-retry"], "false");

    let other_agent = Caller::new(agent.routers.to_string(), tier(), agent.identities(&tier(), Usage::Both));
    assert_eq!(status(&other_agent).await, 403);
    let server_only = Caller::new(agent.routers.to_string(), tier(), agent.identities(&tier(), Usage::Serve));
    assert!(server_only.get("/terrace/status").await.is_err());
    let wrong = Identity::tier("c-1", "shop", "cloud");
    let meant_another =
        Caller::new(agent.routers.to_string(), wrong, agent.identities(&Identity::operator("c-1"), Usage::Call));
    assert!(meant_another.get("/terrace/status").await.is_err());
}

#[tokio::test]
async fn only_a_routers_headers_are_believed() {
    let Some(agent) = Agent::start(&[]).await else { return };
    let router = agent.caller(&Identity::policy("c-1", "shop", "chat"));
    let body = chat("Say hello.", 200);
    let late = call(&router, post(&body, &[("x-terrace-deadline-ms", "1")])).await;
    assert_eq!((late.status, late.code().as_str()), (429, "rate_limited"), "{}", late.text());
    assert!(late.headers.contains_key("retry-after-ms"));
    let nonsense = call(&router, post(&body, &[("x-terrace-deadline-ms", "soon")])).await;
    assert_eq!(nonsense.status, 400);

    let short = chat("Say hello.", 8);
    let sure = call(&router, post(&short, &[("x-terrace-confidence", "1")])).await.json();
    let confidence: Confidence = serde_json::from_value(sure["terrace"]["confidence"].clone()).unwrap();
    assert_eq!(u64::from(confidence.tokens), sure["usage"]["completion_tokens"].as_u64().unwrap());
    assert!(confidence.min <= confidence.mean && confidence.mean <= 0.0, "{confidence:?}");
    assert_eq!(sure["terrace"]["load"]["slots"], 1);
    let streamed =
        call(&router, post(&with(short.clone(), json!({"stream": true})), &[("x-terrace-confidence", "1")])).await;
    let events = streamed.events();
    let last: Value = serde_json::from_str(&events[events.len() - 2]).unwrap();
    assert!(last["terrace"]["confidence"]["mean"].is_number(), "{last}");

    let mut local = agent.json("/v1/chat/completions", &short);
    for (name, value) in [("x-terrace-confidence", "1"), ("x-terrace-deadline-ms", "1")] {
        local.headers_mut().insert(name, value.parse().unwrap());
    }
    let answer = Answer::read(agent.send(local).await).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(answer.json().get("terrace").is_none());
}

#[tokio::test]
async fn computed_prompts_are_shared_inside_a_domain_only() {
    let Some(agent) = Agent::start(&[]).await else { return };
    let policy = |name: &str| agent.caller(&Identity::policy("c-1", "shop", name));
    let (chat_router, other_router) = (policy("chat"), policy("other"));
    let body = chat("Say hello, and then tell me which of the words of this sentence is the longest.", 2);
    let cached = |answer: Answer| answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap();
    let ask = async |router: &Caller, domain: Option<&str>| {
        let header = domain.map(|domain| ("x-terrace-cache-domain", domain));
        cached(call(router, post(&body, header.as_slice())).await)
    };
    assert_eq!(ask(&chat_router, Some("a")).await, 0);
    assert!(ask(&chat_router, Some("a")).await >= 16);
    assert_eq!(ask(&chat_router, Some("b")).await, 0, "another caller of the policy");
    assert_eq!(ask(&other_router, Some("a")).await, 0, "another policy's caller of the same name");
    assert_eq!(ask(&chat_router, None).await, 0, "nobody named");
    assert_eq!(ask(&chat_router, None).await, 0, "nobody named shares with nobody");
    // On the machine itself all are one domain, whatever they say.
    let local = async || {
        let mut request = agent.json("/v1/chat/completions", &body);
        request.headers_mut().insert("x-terrace-cache-domain", "a".parse().unwrap());
        cached(Answer::read(agent.send(request).await).await)
    };
    assert_eq!(local().await, 0);
    assert!(local().await >= 16);
    assert!(agent.metric("terrace_cached_prompt_tokens_total").await >= 32.0);
}
