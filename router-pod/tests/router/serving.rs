//! Answers from an agent over mutual TLS and from an https endpoint, streamed and whole.

use crate::support::{Act, Scripted, World, client, get, post, question, stream, streamed};
use serde_json::{Value, json};
use terrace_contract::trust::Boundary;

#[tokio::test]
async fn an_agent_answers_whole_and_streamed() {
    let mut world = World::new();
    let agent = Scripted::new("small", 4, Act::Say("one two three"));
    world.agents("edge", Boundary::Device, &[&agent]).await;
    world.start().await;

    let reply = post(world.listen, "/v1/chat/completions", &[], &question("hi there")).await;
    assert_eq!((reply.status.as_u16(), reply.content().as_str()), (200, "one two three"), "{reply:?}");
    assert_eq!(reply.header("x-terrace-tier"), "edge");
    assert_eq!(reply.header("x-terrace-device"), "node-edge-0");
    assert_eq!(reply.header("x-terrace-boundary"), "Device");
    assert_eq!(reply.header("x-terrace-quality"), "full");
    assert_eq!(reply.header("x-terrace-reason"), "nearest");
    assert_eq!(reply.header("x-terrace-cost-micros"), "17", "11 prompt tokens and 3 of answer");
    assert_eq!(reply.header("x-terrace-request-id").len(), 32);
    assert_eq!(reply.json()["model"], "small");
    assert_eq!(reply.json()["usage"]["total_tokens"], 14);
    assert_ne!(reply.json()["id"], "upstream-id");
    for dropped in ["x-upstream-secret", "set-cookie", "endpoint-load-metrics"] {
        assert!(reply.headers.get(dropped).is_none(), "{dropped}");
    }
    let sent = agent.last_headers();
    let deadline: u64 = sent["x-terrace-deadline-ms"].to_str().unwrap().parse().unwrap();
    assert!(deadline > 0 && deadline < 600_000, "{deadline}");
    let domain = sent["x-terrace-cache-domain"].clone();
    assert_eq!(domain.len(), 64);
    let given = [("x-terrace-cache-domain", "mine")];
    post(world.listen, "/v1/chat/completions", &given, &question("hi there")).await;
    assert_eq!(agent.last_headers()["x-terrace-cache-domain"], domain, "a client does not choose it");

    let events = stream(world.listen, "/v1/chat/completions", &[], &streamed("hi there")).await;
    assert_eq!(events.headers["content-type"], "text/event-stream; charset=utf-8");
    let events = events.rest().await;
    assert_eq!(client::text(&events), "one two three", "{events:?}");
    assert_eq!(events.last().unwrap(), "[DONE]");
    let last: Value = serde_json::from_str(&events[events.len() - 2]).unwrap();
    assert_eq!(last["choices"][0]["finish_reason"], "stop");
    assert_eq!(last["terrace"]["costMicros"], 17);
    assert!(events.iter().all(|e| !e.contains("upstream")), "{events:?}");

    let mut body = streamed("hi there");
    body["stream_options"] = json!({"include_usage": true});
    let events = stream(world.listen, "/v1/chat/completions", &[], &body).await.rest().await;
    let usage: Value = serde_json::from_str(&events[events.len() - 2]).unwrap();
    assert_eq!((usage["choices"].clone(), usage["usage"]["prompt_tokens"].clone()), (json!([]), json!(11)));

    let body = json!({"model": "small", "prompt": "once upon"});
    let reply = post(world.listen, "/v1/completions", &[], &body).await;
    assert_eq!(reply.json()["choices"][0]["text"], "one two three", "{reply:?}");
    assert_eq!(reply.header("x-terrace-reason"), "model_requested,nearest");
}

#[tokio::test]
async fn an_endpoint_answers_with_its_own_model_and_credential_and_nothing_else() {
    let mut world = World::new();
    let cloud = Scripted::new("big-model", 4, Act::Say("from afar"));
    world.endpoint("cloud", Boundary::Public, &cloud).await;
    world.start().await;

    let mut body = question("hi there");
    body["top_k"] = 5.into();
    body["made_up"] = "x".into();
    body["metadata"] = json!({"feature": "x"});
    body["messages"][0]["made_up"] = "x".into();
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let headers =
        [("traceparent", trace), ("baggage", "a=b"), ("authorization", "Bearer client"), ("x-terrace-x", "y")];
    let reply = post(world.listen, "/v1/chat/completions", &headers, &body).await;
    assert_eq!((reply.status.as_u16(), reply.content().as_str()), (200, "from afar"), "{reply:?}");
    assert_eq!(reply.header("x-terrace-device"), "localhost");

    let sent = cloud.last_body();
    assert_eq!(
        sent,
        json!({"model": "big-model", "messages": [{"role": "user", "content": "hi there"}], "top_k": 5, "max_tokens": 256})
    );
    let sent = cloud.last_headers();
    assert_eq!(sent["authorization"], "Bearer sk-upstream");
    assert_eq!(sent["x-terrace-via"], "p-1");
    for name in
        ["traceparent", "tracestate", "baggage", "x-terrace-x", "x-terrace-deadline-ms", "x-terrace-cache-domain"]
    {
        assert!(sent.get(name).is_none(), "{name}");
    }

    let events = stream(world.listen, "/v1/chat/completions", &[], &streamed("hi there")).await.rest().await;
    assert_eq!(client::text(&events), "from afar", "{events:?}");
    assert_eq!(cloud.last_body()["stream_options"]["include_usage"], true);
}

#[tokio::test]
async fn models_are_auto_and_those_of_the_tiers() {
    let mut world = World::new();
    let agent = Scripted::new("small", 4, Act::Say("x"));
    world.agents("edge", Boundary::Device, &[&agent]).await;
    world.start().await;
    let list = get(world.listen, "/v1/models", &[]).await.json();
    let ids: Vec<&str> = list["data"].as_array().unwrap().iter().map(|m| m["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["auto", "small"]);
}

#[tokio::test]
async fn with_a_certificate_clients_speak_tls() {
    let mut world = World::new();
    let agent = Scripted::new("small", 4, Act::Say("x"));
    world.agents("edge", Boundary::Device, &[&agent]).await;
    world.publish();
    let (cert, key) = self_signed();
    std::fs::create_dir(world.path("tls")).unwrap();
    std::fs::write(world.path("tls/tls.crt"), cert.pem()).unwrap();
    std::fs::write(world.path("tls/tls.key"), key.serialize_pem()).unwrap();
    let flags = [
        format!("--snapshot={}", world.path("snapshot.json").display()),
        format!("--tls-dir={}", world.path("tls").display()),
    ];
    world.start_with(&[&flags[0], &flags[1]]).await;
    world.ready().await;

    let mut roots = rustls::RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    let config = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config));
    let tcp = tokio::net::TcpStream::connect(world.listen).await.unwrap();
    let stream = connector.connect("localhost".try_into().unwrap(), tcp).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(hyper_util::rt::TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request =
        http::Request::get("/v1/models").header("host", "localhost").body(http_body_util::Empty::<bytes::Bytes>::new());
    assert_eq!(sender.send_request(request.unwrap()).await.unwrap().status(), 200);
}

fn self_signed() -> (rcgen::Certificate, rcgen::KeyPair) {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap();
    (params.self_signed(&key).unwrap(), key)
}
