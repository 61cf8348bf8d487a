//! An agent to test with, and a client for its two doors.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tempfile::TempDir;
use terrace_identity::store::Material;
use terrace_identity::{Authority, Caller, Identities, Identity, IdentityStore, Usage};
use terrace_wire::sse::Decoder;
use tokio::process::{Child, Command};

/// SmolLM2-135M-Instruct Q4_1, as `make model` leaves it in the user's cache.
pub const SHA256: &str = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";
/// Its name in these tests.
pub const MODEL: &str = "smollm2";
/// Nothing here takes nearly as long.
pub const LIMIT: Duration = Duration::from_secs(240);

/// The model's file; none if tests that need it are to be skipped.
pub fn model() -> Option<PathBuf> {
    crate::cached::model(SHA256)
}

/// The program with these flags, its log in `<folder>/log`, its spans in `<folder>/spans`.
pub fn program(folder: &Path, flags: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_terrace-agent"))
        .args(flags)
        .args(["--admin-listen", "127.0.0.1:0"])
        .arg("--termination-log")
        .arg(folder.join("termination"))
        .env("TERRACE_LOG", "info,terrace_agent=debug")
        .env("TERRACE_LOG_FORMAT", "json")
        .env("TERRACE_TRACE_FILE", folder.join("spans"))
        .env("POD_UID", "pod-1")
        .env("NODE_NAME", "node-1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(folder.join("log")).unwrap())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// A running agent.
pub struct Agent {
    pub folder: TempDir,
    pub child: Child,
    pub authority: Authority,
    pub routers: SocketAddr,
    pub plain: SocketAddr,
    /// With `--gateway-listen`.
    pub gateway: Option<SocketAddr>,
    pub admin: SocketAddr,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Agent {
    /// One with both doors open, ready; none if there is no model on purpose.
    pub async fn start(flags: &[&str]) -> Option<Agent> {
        let flags = [&["--model-sha256", SHA256], flags].concat();
        Some(Agent::serving(&model()?, &flags).await)
    }

    /// One that serves this file, with both doors open, ready.
    pub async fn serving(model: &Path, flags: &[&str]) -> Agent {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::generate("c-1", SystemTime::now()).unwrap();
        let leaf = authority.issue(&tier(), Usage::Serve, &[], &[], SystemTime::now()).unwrap();
        for (name, pem) in
            [("tls.crt", &leaf.cert_pem[..]), ("tls.key", &leaf.key_pem), ("ca.crt", authority.cert_pem())]
        {
            std::fs::write(folder.path().join(name), pem).unwrap();
        }
        let (ports, dir) = (folder.path().join("ports"), folder.path().display().to_string());
        let (model, port_file) = (model.display().to_string(), ports.display().to_string());
        let all = [
            &["--model", &model, "--model-name", MODEL, "--identity-dir", &dir][..],
            &["--listen", "127.0.0.1:0", "--plain-listen", "127.0.0.1:0", "--port-file", &port_file],
            flags,
        ];
        let mut child = program(folder.path(), &all.concat());
        let bytes = until("the port file", || {
            if let Some(status) = child.try_wait().unwrap() {
                panic!("the agent ended with {status}: {}", log(folder.path()));
            }
            std::fs::read(&ports).ok()
        })
        .await;
        let ports: Value = serde_json::from_slice(&bytes).unwrap();
        let address = |name: &str| ports[name].as_str().unwrap().parse().unwrap();
        let client = Client::builder(TokioExecutor::new()).build_http();
        let (routers, plain, admin) = (address("listen"), address("plain"), address("admin"));
        let gateway = ports["gateway"].as_str().map(|address| address.parse().unwrap());
        Agent { folder, child, authority, routers, plain, gateway, admin, client }
    }

    /// What a program with this identity holds.
    pub fn identities(&self, identity: &Identity, usage: Usage) -> Identities {
        let leaf = self.authority.issue(identity, usage, &[], &[], SystemTime::now()).unwrap();
        let ca_pem = self.authority.cert_pem().into();
        let material = Material { cert_pem: leaf.cert_pem.into(), key_pem: leaf.key_pem.into(), ca_pem };
        IdentityStore::from_material(material).unwrap().identities()
    }

    /// Someone with this identity, who means this agent.
    pub fn caller(&self, identity: &Identity) -> Caller {
        Caller::new(self.routers.to_string(), tier(), self.identities(identity, Usage::Call))
    }

    /// Through the plain door.
    pub async fn send(&self, request: Request<Full<Bytes>>) -> http::Response<Incoming> {
        self.client.request(request).await.unwrap()
    }

    /// `GET` at an address.
    pub async fn get(&self, address: SocketAddr, path: &str) -> Answer {
        let request = Request::get(format!("http://{address}{path}")).body(Full::default()).unwrap();
        Answer::read(self.send(request).await).await
    }

    /// `POST` of JSON through the plain door.
    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        Answer::read(self.send(self.json(path, body)).await).await
    }

    /// A request for the plain door.
    pub fn json(&self, path: &str, body: &Value) -> Request<Full<Bytes>> {
        let body = Full::from(body.to_string());
        Request::post(format!("http://{}{path}", self.plain))
            .header("content-type", "application/json")
            .body(body)
            .unwrap()
    }

    /// The number after a metric's name.
    pub async fn metric(&self, name: &str) -> f64 {
        let text = self.get(self.admin, "/metrics").await.text();
        let line = text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(' '));
        line.map_or(0.0, |value| value.parse().unwrap())
    }

    /// Asks it to end.
    pub fn terminate(&self) {
        let pid = rustix::process::Pid::from_raw(self.child.id().unwrap() as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }

    /// Waits for its end.
    pub async fn ended(&mut self) -> ExitStatus {
        tokio::time::timeout(LIMIT, self.child.wait()).await.expect("the agent does not end").unwrap()
    }

    /// What it logged.
    pub fn log(&self) -> String {
        log(self.folder.path())
    }
}

/// The identity of the agents here.
pub fn tier() -> Identity {
    Identity::tier("c-1", "shop", "edge")
}

/// What a program logged.
pub fn log(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("log")).unwrap_or_default()
}

/// Looks until there is something, for at most [`LIMIT`].
pub async fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "no {what} after {LIMIT:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A whole answer.
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub async fn read(response: http::Response<Incoming>) -> Answer {
        let (head, body) = response.into_parts();
        Answer { status: head.status.as_u16(), headers: head.headers, body: body.collect().await.unwrap().to_bytes() }
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.to_vec()).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The data of its events.
    pub fn events(&self) -> Vec<String> {
        Decoder::new().push(&self.body).unwrap().into_iter().map(|e| e.data).collect()
    }

    pub fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap().to_owned()
    }
}

/// Asks as someone with an identity.
pub async fn call(caller: &Caller, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
    let mut request = Request::post(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    Answer::read(caller.call(request.body(Full::from(body.to_string())).unwrap()).await.unwrap()).await
}

/// A greedy chat of one question.
pub fn chat(question: &str, tokens: u32) -> Value {
    let messages = json!([{"role": "user", "content": question}]);
    json!({"model": MODEL, "messages": messages, "max_tokens": tokens, "temperature": 0})
}

/// The same with more fields.
pub fn with(mut body: Value, more: Value) -> Value {
    let Value::Object(more) = more else { panic!("an object") };
    body.as_object_mut().unwrap().extend(more);
    body
}
