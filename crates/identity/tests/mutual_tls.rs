//! Two programs over real sockets: who gets in, who does not, and what a renewal changes.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, SystemTime};

use axum::extract::Extension;
use axum::routing::get;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use terrace_identity::store::Material;
use terrace_identity::{
    Authority, Caller, DialError, Identities, Identity, IdentityError, IdentityStore, Leaf, Peer, Usage, dial, serve,
    serve_plain,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

const GRACE: Duration = Duration::from_secs(5);

fn store(authority: &Authority, identity: &Identity, usage: Usage, now: SystemTime) -> IdentityStore {
    IdentityStore::from_material(material(authority, &authority.issue(identity, usage, &[], &[], now).unwrap()))
        .unwrap()
}

fn material(authority: &Authority, leaf: &Leaf) -> Material {
    Material {
        cert_pem: leaf.cert_pem.clone().into_bytes(),
        key_pem: leaf.key_pem.clone().into_bytes(),
        ca_pem: authority.cert_pem().as_bytes().to_vec(),
    }
}

fn write(dir: &Path, material: &Material) {
    std::fs::write(dir.join("tls.crt"), &material.cert_pem).unwrap();
    std::fs::write(dir.join("tls.key"), &material.key_pem).unwrap();
    std::fs::write(dir.join("ca.crt"), &material.ca_pem).unwrap();
}

fn agent() -> Identity {
    Identity::tier("c-1", "shop", "edge")
}

fn router() -> Identity {
    Identity::policy("c-1", "shop", "chat")
}

/// A server that says who called.
async fn whoami(identities: Identities) -> (SocketAddr, CancellationToken, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = axum::Router::new().route("/", get(|Extension(Peer(who)): Extension<Peer>| async move { who.uri() }));
    let shutdown = CancellationToken::new();
    let server = tokio::spawn(serve(listener, identities, app, shutdown.clone(), GRACE));
    (address, shutdown, server)
}

async fn ask(address: SocketAddr, expected: Identity, identities: Identities) -> Result<String, DialError> {
    let answer = Caller::new(address.to_string(), expected, identities).get("/").await?;
    Ok(String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap())
}

#[tokio::test]
async fn a_router_reaches_the_tier_it_meant_and_the_server_knows_who_called() {
    let now = SystemTime::now();
    let authority = Authority::generate("c-1", now).unwrap();
    let (address, shutdown, server) = whoami(store(&authority, &agent(), Usage::Serve, now).identities()).await;
    let caller = store(&authority, &router(), Usage::Call, now).identities();

    let (stream, timings) = dial(address, &agent(), &caller).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    assert!(timings.tls_us > 0);
    drop(stream);
    assert_eq!(ask(address, agent(), caller).await.unwrap(), router().uri());

    shutdown.cancel();
    server.await.unwrap();
}

#[tokio::test]
async fn whoever_is_not_exactly_the_one_meant_is_refused() {
    let now = SystemTime::now();
    let authority = Authority::generate("c-1", now).unwrap();
    let stranger = Authority::generate("c-1", now).unwrap();
    let (address, ..) = whoami(store(&authority, &agent(), Usage::Serve, now).identities()).await;
    let caller = store(&authority, &router(), Usage::Call, now).identities();

    for other in
        [Identity::tier("c-1", "shop", "edge2"), Identity::tier("c-1", "other", "edge"), Identity::operator("c-1")]
    {
        let error = dial(address, &other, &caller).await.err().unwrap().to_string();
        assert!(error.contains(&other.uri()) && error.contains("not for"), "{error}");
    }
    // A server whose leaf may only call, and one of another authority.
    let (caller_only, ..) = whoami(store(&authority, &agent(), Usage::Call, now).identities()).await;
    assert!(matches!(dial(caller_only, &agent(), &caller).await, Err(DialError::Tls { .. })));
    let (foreign, ..) = whoami(store(&stranger, &agent(), Usage::Serve, now).identities()).await;
    assert!(matches!(dial(foreign, &agent(), &caller).await, Err(DialError::Tls { .. })));
}

#[tokio::test]
async fn a_caller_without_leave_to_call_gets_no_answer() {
    let now = SystemTime::now();
    let authority = Authority::generate("c-1", now).unwrap();
    let stranger = Authority::generate("c-1", now).unwrap();
    let (address, ..) = whoami(store(&authority, &agent(), Usage::Serve, now).identities()).await;
    let old = now - Duration::from_secs(60 * 24 * 3600);

    let server_only = store(&authority, &agent(), Usage::Serve, now).identities();
    let expired = store(&authority, &router(), Usage::Call, old).identities();
    assert!(matches!(expired.check_clock(now), Err(IdentityError::ClockSkew { .. })));
    let mut mixed = material(&stranger, &stranger.issue(&router(), Usage::Call, &[], &[], now).unwrap());
    mixed.ca_pem = authority.cert_pem().as_bytes().to_vec();
    let foreign = IdentityStore::from_material(mixed).unwrap().identities();
    for identities in [server_only, expired, foreign] {
        assert!(ask(address, agent(), identities).await.is_err());
    }
    // The control: the same request with a good certificate.
    let good = store(&authority, &router(), Usage::Call, now).identities();
    good.check_clock(now).unwrap();
    assert!(ask(address, agent(), good).await.is_ok());
}

#[tokio::test]
async fn a_renewal_on_disk_is_taken_and_a_damaged_one_is_not() {
    let now = SystemTime::now();
    let authority = Authority::generate("c-1", now).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let issue = |at| material(&authority, &authority.issue(&router(), Usage::Call, &[], &[], at).unwrap());
    write(dir.path(), &issue(now - Duration::from_secs(3600)));
    let store = IdentityStore::load(dir.path()).unwrap();
    let seen = store.identities();
    let first = seen.not_after();
    assert!(!store.reload().unwrap());

    let renewed = issue(now);
    write(dir.path(), &Material { key_pem: issue(now).key_pem, ..renewed.clone() });
    assert!(store.reload().is_err(), "a key of another certificate");
    assert_eq!(seen.not_after(), first);
    write(dir.path(), &renewed);
    assert!(store.reload().unwrap());
    assert!(seen.not_after() > first);

    std::fs::remove_file(dir.path().join("tls.key")).unwrap();
    let error = IdentityStore::load(dir.path()).err().unwrap().to_string();
    assert!(error.contains("tls.key"), "{error}");
}

#[tokio::test]
async fn an_open_request_finishes_after_the_shutdown_began() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (arrived, release) = (CancellationToken::new(), CancellationToken::new());
    let (seen, wait) = (arrived.clone(), release.clone());
    let app = axum::Router::new().route(
        "/",
        get(move || async move {
            seen.cancel();
            wait.cancelled().await;
            "done"
        }),
    );
    let shutdown = CancellationToken::new();
    let server = tokio::spawn(serve_plain(listener, app, shutdown.clone(), GRACE));
    let client =
        hyper_util::client::legacy::Client::builder(hyper_util::rt::TokioExecutor::new()).build_http::<Full<Bytes>>();
    let answer = tokio::spawn(client.get(format!("http://{address}/").parse().unwrap()));

    arrived.cancelled().await;
    shutdown.cancel();
    release.cancel();
    let body = answer.await.unwrap().unwrap().into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, "done");
    server.await.unwrap();
    assert!(tokio::net::TcpStream::connect(address).await.is_err(), "still listening");
}
