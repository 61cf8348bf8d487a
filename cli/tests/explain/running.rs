//! Against a router: a real one in this process, that follows a compiled snapshot and has no agents.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use clap::Parser as _;
use serde_json::Value;
use terrace_contract::snapshot::Snapshot;
use terrace_identity::authority::{Authority, Usage};
use terrace_identity::signing::SnapshotKey;
use terrace_identity::spiffe::Identity;
use terrace_router::args::Args;
use tokio_util::sync::CancellationToken;

use crate::{explained, question, refused};

/// A router that runs until it is dropped.
struct Router {
    url: String,
    listen: SocketAddr,
    stop: CancellationToken,
    _folder: tempfile::TempDir,
    _runtime: tokio::runtime::Runtime,
}

impl Drop for Router {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Starts one with the policy of examples/with-cloud, as it compiles, and the keys `ci` and `web`.
fn router() -> Router {
    terrace_identity::install_crypto_provider();
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let compiled = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crds/tests/golden/with-cloud.json");
    let mut snapshot: Snapshot = serde_json::from_slice(&std::fs::read(compiled).unwrap()).unwrap();
    snapshot.devices.clear();
    snapshot.issued_at_us = terrace_telemetry::time::now_us();
    snapshot.revision = snapshot.digest();
    let (authority, key) = (Authority::generate("c", SystemTime::now()).unwrap(), SnapshotKey::generate().unwrap());
    key.sign(&mut snapshot);
    let identity = Identity::policy("c", &snapshot.policy.namespace, &snapshot.policy.name);
    let leaf = authority.issue(&identity, Usage::Both, &[], &[], SystemTime::now()).unwrap();
    let files = [
        ("identity/tls.crt", leaf.cert_pem.as_bytes().to_vec()),
        ("identity/tls.key", leaf.key_pem.as_bytes().to_vec()),
        ("identity/ca.crt", authority.cert_pem().as_bytes().to_vec()),
        ("identity/snapshot.pub", key.public_base64().into_bytes()),
        ("keys/ci", b"sk-ci".to_vec()),
        ("keys/web", b"sk-web".to_vec()),
        ("snapshot.json", serde_json::to_vec(&snapshot).unwrap()),
    ];
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let at = |name: &str| folder.path().join(name).display().to_string();
    let arguments = [
        "terrace-router".to_owned(),
        format!("--policy={}", snapshot.policy.name),
        format!("--namespace={}", snapshot.policy.namespace),
        format!("--snapshot={}", at("snapshot.json")),
        format!("--identity-dir={}", at("identity")),
        format!("--api-keys-dir={}", at("keys")),
        format!("--credentials-dir={}", at("credentials")),
        "--listen=127.0.0.1:0".to_owned(),
        "--admin-listen=127.0.0.1:0".to_owned(),
    ];
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let stop = CancellationToken::new();
    let running =
        runtime.block_on(terrace_router::run::start(Args::parse_from(arguments), stop.clone(), None)).unwrap();
    let (listen, admin) = (running.addresses.listen, running.addresses.admin);
    let deadline = Instant::now() + Duration::from_secs(30);
    while !send(admin, "GET", "/readyz", "", "").starts_with("HTTP/1.1 200") {
        assert!(Instant::now() < deadline, "the router never became ready");
        std::thread::yield_now();
    }
    Router { url: format!("http://{listen}"), listen, stop, _folder: folder, _runtime: runtime }
}

/// Sends a request and reads all that comes back.
fn send(to: SocketAddr, method: &str, path: &str, key: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(to).unwrap();
    let head = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer {key}");
    write!(stream, "{head}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_router_explains_what_it_would_do_and_what_it_did() {
    let router = router();
    let with = ["--url", router.url.as_str(), "--api-key", "sk-ci"];
    let arguments = [&with[..], &["--class", "Public", "-o", "json"]].concat();
    let would: Value = serde_json::from_str(&explained(&arguments, &question("hi"))).unwrap();
    assert_eq!(would["signals"]["class"], "Public", "{would}");
    assert_eq!(would["tiers"][0]["ruledOut"], serde_json::json!(["no_device"]));
    assert_eq!(would["tiers"][2]["ruledOut"], serde_json::json!(["credential"]));
    assert_eq!(would["refusal"]["code"], "permitted_tiers_unavailable");
    assert!(would["atUs"].as_u64().unwrap() > 0);

    let message = r#"{"model": "auto", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}"#;
    let arguments = [&with[..], &["--api", "messages", "-o", "json"]].concat();
    let would: Value = serde_json::from_str(&explained(&arguments, message)).unwrap();
    assert_eq!(would["signals"]["maxOutputTokens"], 9, "{would}");

    let answer = send(router.listen, "POST", "/v1/chat/completions", "sk-ci", &question("canary"));
    let id = answer.lines().find_map(|line| line.strip_prefix("x-terrace-request-id: ")).unwrap();
    let was = explained(&[&with[..], &["--request-id", id]].concat(), "");
    for expected in
        [id, "class     Internal", "boundary: The class does not permit", "plan: refused", "it became Unavailable"]
    {
        assert!(was.contains(expected), "{expected}: {was}");
    }
    assert!(!was.contains("canary") && !was.contains("from manifests"), "{was}");

    let other = ["--url", router.url.as_str(), "--api-key", "sk-web", "--request-id", id];
    assert!(refused(&other, "").contains("no decision with this id is known here"), "another key's");
}

#[test]
fn what_is_wrong_is_said_with_what_to_do() {
    let router = router();
    let url = router.url.as_str();
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let nobody = format!("http://{gone}");
    let unknown = "0".repeat(32);
    let key = ["--api-key", "sk-ci"];
    let cases = [
        (refused(&["--url", url], &question("hi")), "give the caller's key with --api-key or TERRACE_API_KEY"),
        (refused(&["--url", url, "--api-key", "wrong"], &question("hi")), "the API key is not one of this policy's"),
        (refused(&["--url", url, key[0], key[1]], "{"), "the body cannot be read"),
        (refused(&["--url", url, key[0], key[1], "--request-id", &unknown], ""), "its last 500 (--decisions)"),
        (refused(&["--url", url, "--request-id", "../v1/models"], ""), "an id is 32 hex digits"),
        (refused(&["--url", &nobody], &question("hi")), "nothing answers at"),
        (refused(&["--url", "https://x"], &question("hi")), "only http:// is spoken here"),
        (refused(&["--url", "not a url"], &question("hi")), "--url"),
        (refused(&["--policy", "p"], &question("hi")), "--filename"),
    ];
    for (said, expected) in cases {
        assert!(said.contains(expected), "{expected}: {said}");
    }
}

#[test]
fn what_is_no_router_is_said() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for answer in ["HTTP/1.1 404 Not Found", "HTTP/1.1 200 OK"] {
            let (mut client, _) = listener.accept().unwrap();
            // All of it, so that closing is no reset: the request ends with its last brace.
            let (mut got, mut part) = (Vec::new(), [0; 4096]);
            while !got.ends_with(b"}") {
                let n = client.read(&mut part).unwrap();
                got.extend_from_slice(&part[..n]);
            }
            let _ = write!(client, "{answer}\r\nconnection: close\r\ncontent-length: 2\r\n\r\nhi");
        }
    });
    assert!(refused(&["--url", &url], &question("hi")).contains("404 Not Found as no router does"));
    assert!(refused(&["--url", &url], &question("hi")).contains("something else than an explanation"));
}
