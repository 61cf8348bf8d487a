//! Traffic rules: who may call, with what, how much and over what. The rest of admission is in `errors`.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crate::support::{Act, Reply, Scripted, World, get, post, process, question, stream, streamed, until};
use bytes::Bytes;
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use rustls_pki_types::CertificateDer;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use terrace_contract::policy::{Access, KeyRule};
use terrace_contract::trust::Boundary;
use tokio::io::AsyncWriteExt as _;

const CHAT: &str = "/v1/chat/completions";

async fn world(agent: &Arc<Scripted>, keys: Vec<KeyRule>) -> World {
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[agent]).await;
    world.snapshot.policy.access = Access::ApiKeys { keys };
    world
}

fn rule(name: &str) -> KeyRule {
    KeyRule { name: name.into(), ..KeyRule::default() }
}

async fn ask(world: &World, key: &str) -> Reply {
    post(world.listen, CHAT, &[("authorization", &format!("Bearer {key}"))], &question("hi")).await
}

/// Asks until the status is this one.
async fn until_status(world: &World, key: &str, status: u16) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while ask(world, key).await.status != status {
        assert!(Instant::now() < deadline, "never {status} for this key");
    }
}

/// Writes entries as a kubelet does: into a folder of their own, shown by one link that is replaced at once.
fn mount(dir: &Path, version: &str, entries: &[(&str, &str)]) {
    let own = dir.join(format!("..{version}"));
    std::fs::create_dir(&own).unwrap();
    for (name, value) in entries {
        std::fs::write(own.join(name), value).unwrap();
        let link = dir.join(name);
        if !link.is_symlink() {
            std::os::unix::fs::symlink(Path::new("..data").join(name), link).unwrap();
        }
    }
    let partial = dir.join("..partial");
    std::os::unix::fs::symlink(format!("..{version}"), &partial).unwrap();
    std::fs::rename(partial, dir.join("..data")).unwrap();
    for entry in std::fs::read_dir(dir).unwrap() {
        let (path, name) = {
            let entry = entry.unwrap();
            (entry.path(), entry.file_name())
        };
        if path.is_symlink() && !entries.iter().any(|(kept, _)| name == *kept) && name != "..data" {
            std::fs::remove_file(path).unwrap();
        }
    }
}

#[tokio::test]
async fn keys_of_a_secret_come_and_go_without_a_restart_whatever_else_is_in_it() {
    let agent = Scripted::new("small", 4, Act::Say("x"));
    let mut world = world(&agent, vec![]).await;
    let dir = world.path("api-keys");
    let hashed = format!("sha256:{}", terrace_contract::canonical::hex(&Sha256::digest("sk-hashed")));
    mount(&dir, "1", &[("plain", "sk-plain\n"), ("hashed", &hashed)]);
    world.start().await;
    for (key, status) in [("sk-plain", 200), ("sk-hashed", 200), (hashed.as_str(), 401), ("sk-other", 401)] {
        assert_eq!(ask(&world, key).await.status, status, "{key}");
    }
    // One is taken away, one is new, and one is a mistake: the mistake holds up nothing.
    mount(&dir, "2", &[("plain", "sk-plain"), ("new", "sk-new"), ("mistake", "sha256:zz")]);
    until_status(&world, "sk-new", 200).await;
    for (key, status) in [("sk-plain", 200), ("sk-hashed", 401), ("sha256:zz", 401)] {
        assert_eq!(ask(&world, key).await.status, status, "{key}");
    }
}

#[tokio::test]
async fn requests_a_minute_are_shared_by_the_routers_and_a_429_says_when() {
    let agent = Scripted::new("small", 4, Act::Say("x"));
    let mut world = world(&agent, vec![KeyRule { requests_per_minute: Some(4), ..rule("ci") }, rule("web")]).await;
    world.snapshot.routers = 2;
    std::fs::write(world.path("api-keys/ci"), "sk-ci").unwrap();
    std::fs::write(world.path("api-keys/web"), "sk-web").unwrap();
    world.start().await;
    for _ in 0..2 {
        assert_eq!(ask(&world, "sk-ci").await.status, 200);
    }
    let refused = ask(&world, "sk-ci").await;
    assert_eq!(refused.status, 429, "one of two routers has two of four: {refused:?}");
    let error = &refused.json()["error"];
    assert_eq!((&error["type"], &error["code"]), (&"rate_limit_error".into(), &"rate_limited".into()), "{error}");
    assert!(error["message"].as_str().unwrap().contains("2 requests a minute"), "{error}");
    let seconds: u64 = refused.header("retry-after").parse().unwrap();
    let millis: u64 = refused.header("retry-after-ms").parse().unwrap();
    assert!((1..=30).contains(&seconds) && millis <= 30_000 && millis.div_ceil(1000) == seconds, "{refused:?}");
    assert_eq!(refused.header("x-terrace-reason"), "rate_limited");
    assert_eq!(ask(&world, "sk-web").await.status, 200, "another key's requests are its own");
    assert_eq!(agent.count(), 3);
}

#[tokio::test]
async fn tokens_a_minute_count_what_was_used_and_not_what_was_refused() {
    // 11 prompt tokens and 3 of answer, as the tier counts.
    let agent = Scripted::new("small", 4, Act::Say("one two three"));
    let mut world = world(&agent, vec![KeyRule { tokens_per_minute: Some(100_000), ..rule("ci") }]).await;
    std::fs::write(world.path("api-keys/ci"), "sk-ci").unwrap();
    world.start().await;
    // What no tier takes costs the key nothing: each of these would take all of a minute.
    agent.always(Act::Status(500, vec![]));
    for _ in 0..3 {
        let reply = ask(&world, "sk-ci").await;
        assert!(reply.status.is_server_error(), "{reply:?}");
    }
    agent.always(Act::Say("one two three"));
    let rates = &world.running.as_ref().unwrap().app.rates;
    let now = world.running.as_ref().unwrap().app.clock.now_us();
    let all = rates.tokens("ci", 100_000, 100_000, now).unwrap();
    rates.settle(&all, 0);

    until_status(&world, "sk-ci", 200).await;
    let key = [("authorization", "Bearer sk-ci")];
    assert_eq!(stream(world.listen, CHAT, &key, &streamed("hi")).await.rest().await.last().unwrap(), "[DONE]");
    // The record is written when the answer's body is dropped.
    until("28 tokens are counted", || {
        let now = world.running.as_ref().unwrap().app.clock.now_us();
        let Ok(rest) = rates.tokens("ci", 100_000 - 28, 100_000, now) else { return false };
        let more = rates.tokens("ci", 1_000, 100_000, now).is_err();
        rates.settle(&rest, 0);
        more
    })
    .await;

    // A long prompt is more than what is left.
    let now = world.running.as_ref().unwrap().app.clock.now_us();
    let held = rates.tokens("ci", 99_000, 100_000, now).unwrap();
    let long = question(&"many words ".repeat(1_000));
    let refused = post(world.listen, CHAT, &key, &long).await;
    assert_eq!((refused.status.as_u16(), refused.code().as_str()), (429, "rate_limited"), "{refused:?}");
    assert!(refused.json()["error"]["message"].as_str().unwrap().contains("tokens a minute"), "{refused:?}");
    assert!((1..=60).contains(&refused.header("retry-after").parse::<u64>().unwrap()), "{refused:?}");
    rates.settle(&held, 0);
    assert_eq!(post(world.listen, CHAT, &key, &long).await.status, 200);
}

#[tokio::test]
async fn a_key_sees_and_may_ask_for_its_own_models_alone() {
    let (near, far) = (Scripted::new("small", 4, Act::Say("near")), Scripted::new("big", 4, Act::Say("far")));
    let mut world = world(&near, vec![KeyRule { models: vec!["big".into()], ..rule("ci") }, rule("web")]).await;
    world.agents("private", Boundary::Private, &[&far]).await;
    std::fs::write(world.path("api-keys/ci"), "sk-ci").unwrap();
    std::fs::write(world.path("api-keys/web"), "sk-web").unwrap();
    world.start().await;
    let models = async |key: &str| -> Vec<String> {
        let list = get(world.listen, "/v1/models", &[("x-api-key", key)]).await.json();
        list["data"].as_array().unwrap().iter().map(|m| m["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(models("sk-ci").await, ["big"]);
    assert_eq!(models("sk-web").await, ["auto", "small", "big"]);
    for (model, want) in [("auto", 404), ("small", 404), ("big", 200)] {
        let mut body = question("hi");
        body["model"] = model.into();
        let reply = post(world.listen, CHAT, &[("x-api-key", "sk-ci")], &body).await;
        assert_eq!(reply.status, want, "{model}: {reply:?}");
        if want == 404 {
            let message = reply.json()["error"]["message"].as_str().unwrap().to_owned();
            assert!(message.contains("big") && !message.contains("small"), "it names what this key may use: {message}");
        }
    }
    assert_eq!((near.count(), far.count()), (0, 1));
}

#[tokio::test]
async fn headers_that_are_on_no_list_go_nowhere() {
    let (near, far) = (Scripted::new("small", 4, Act::Status(500, vec![])), Scripted::new("big", 4, Act::Say("x")));
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[&near]).await;
    world.endpoint("cloud", Boundary::Public, &far).await;
    world.start().await;
    let given = [
        ("cookie", "a=b"),
        ("x-forwarded-for", "10.0.0.1"),
        ("forwarded", "for=10.0.0.1"),
        ("openai-organization", "org"),
        ("x-real-ip", "10.0.0.1"),
        ("referer", "http://inside"),
        ("user-agent", "SECRET/1"),
        ("accept-language", "de"),
        ("x-terrace-deadline-ms", "1"),
        ("x-terrace-confidence", "9"),
        ("te", "trailers"),
    ];
    assert_eq!(post(world.listen, CHAT, &given, &question("hi")).await.status, 200);
    let names = |tier: &Scripted| -> Vec<String> {
        let mut names: Vec<String> = tier.last_headers().keys().map(|name| name.as_str().to_owned()).collect();
        names.sort();
        names
    };
    let usual = ["accept", "content-length", "content-type", "user-agent"];
    let agent = ["x-terrace-cache-domain", "x-terrace-confidence", "x-terrace-deadline-ms"];
    assert_eq!(names(&near), [&usual[..], &agent].concat());
    assert_eq!(
        names(&far),
        ["accept", "authorization", "content-length", "content-type", "host", "user-agent", "x-terrace-via"]
    );
    assert!(far.last_headers()["user-agent"].to_str().unwrap().starts_with("terrace-router/"));
    assert_ne!(near.last_headers()["x-terrace-deadline-ms"], "1");
}

struct Certificate {
    cert: String,
    key: String,
    der: CertificateDer<'static>,
}

fn certificate(lasts: Duration) -> Certificate {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap();
    params.not_before = (SystemTime::now() - Duration::from_secs(7200)).into();
    params.not_after = (SystemTime::now() - Duration::from_secs(3600) + lasts).into();
    let cert = params.self_signed(&key).unwrap();
    Certificate { cert: cert.pem(), key: key.serialize_pem(), der: cert.der().clone() }
}

/// Connects, asks for the models, and says which certificate was shown.
async fn shown(to: std::net::SocketAddr, trusted: &[&Certificate]) -> CertificateDer<'static> {
    let mut roots = rustls::RootCertStore::empty();
    trusted.iter().for_each(|certificate| roots.add(certificate.der.clone()).unwrap());
    let config = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let tcp = tokio::net::TcpStream::connect(to).await.unwrap();
    let tls = connector.connect("localhost".try_into().unwrap(), tcp).await.unwrap();
    let seen = tls.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(tls)).await.unwrap();
    tokio::spawn(connection);
    let request = http::Request::get("/v1/models").header("host", "localhost").body(Empty::<Bytes>::new()).unwrap();
    assert_eq!(sender.send_request(request).await.unwrap().status(), 200);
    seen
}

#[tokio::test]
async fn a_renewed_certificate_is_shown_from_the_next_connection_and_a_bad_one_is_not() {
    let agent = Scripted::new("small", 4, Act::Say("x"));
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[&agent]).await;
    let day = Duration::from_secs(86_400);
    let (old, new, ended) = (certificate(day), certificate(day * 2), certificate(Duration::from_secs(60)));
    let dir = world.path("tls");
    std::fs::create_dir(&dir).unwrap();
    mount(&dir, "1", &[("tls.crt", &old.cert), ("tls.key", &old.key)]);
    let process = process::start_with(&mut world, &[&format!("--tls-dir={}", dir.display())]).await;
    assert_eq!(shown(process.listen, &[&old]).await, old.der);

    let warnings = || -> Vec<Value> {
        let log = process.log();
        let lines = log.lines().filter(|l| l.contains("the old certificate is shown on"));
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    // Each is wrong in its own way: no certificate, another's key, a key that is none, one that has ended.
    let wrong = [("nonsense", "nonsense"), (&new.cert, &old.key), (&new.cert, ""), (&ended.cert, &ended.key)];
    for (number, (cert, key)) in wrong.into_iter().enumerate() {
        mount(&dir, &format!("wrong-{number}"), &[("tls.crt", cert), ("tls.key", key)]);
        until("it is said", || warnings().len() > number).await;
        assert_eq!(warnings().len(), number + 1, "once: {:?}", warnings());
        assert!(warnings()[number]["error"].as_str().unwrap().contains("listener.tls"), "{:?}", warnings());
        assert_eq!(shown(process.listen, &[&old, &new]).await, old.der, "{number}");
    }
    assert!(warnings()[3]["error"].as_str().unwrap().contains("ended already"), "{:?}", warnings());
    mount(&dir, "2", &[("tls.crt", &new.cert), ("tls.key", &new.key)]);
    let deadline = Instant::now() + Duration::from_secs(20);
    while shown(process.listen, &[&old, &new]).await != new.der {
        assert!(Instant::now() < deadline, "the renewed certificate is never shown");
    }
    let text = get(process.admin, "/metrics", &[]).await;
    let text = String::from_utf8_lossy(&text.body).into_owned();
    let left = text.lines().find_map(|l| l.strip_prefix("terrace_listener_certificate_expiry_seconds "));
    let left: f64 = left.unwrap().parse().unwrap();
    assert!((86_400.0..2.0 * 86_400.0).contains(&left), "{left}");
}

#[tokio::test]
async fn bodies_that_never_come_keep_no_other_key_out() {
    let agent = Scripted::new("small", 4, Act::Say("x"));
    let mut world = world(&agent, vec![]).await;
    world.snapshot.policy.limits.concurrency = 2;
    std::fs::write(world.path("api-keys/ci"), "sk-ci").unwrap();
    std::fs::write(world.path("api-keys/web"), "sk-web").unwrap();
    world.start().await;
    let mut held = Vec::new();
    for path in [CHAT, "/v1/explain", "/v1/messages/count_tokens"] {
        for _ in 0..2 {
            let mut client = tokio::net::TcpStream::connect(world.listen).await.unwrap();
            let head =
                format!("POST {path} HTTP/1.1\r\nhost: router\r\nx-api-key: sk-ci\r\ncontent-length: 99\r\n\r\n{{");
            client.write_all(head.as_bytes()).await.unwrap();
            held.push(client);
        }
    }
    // Two of them are on their way: all that the key may have.
    let deadline = Instant::now() + Duration::from_secs(20);
    let refused = loop {
        let reply = ask(&world, "sk-ci").await;
        if reply.status != 200 {
            break reply;
        }
        assert!(Instant::now() < deadline, "they never come to the router");
    };
    assert_eq!((refused.status.as_u16(), refused.code().as_str()), (503, "overloaded"), "{refused:?}");
    assert!(refused.json()["error"]["message"].as_str().unwrap().contains("of this caller"), "{refused:?}");
    for _ in 0..4 {
        assert_eq!(ask(&world, "sk-web").await.status, 200, "they are no other key's");
    }
    drop(held);
    until_status(&world, "sk-ci", 200).await;
}
