//! The program itself: it downloads, dies, comes back, shares, and says why there is no model.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::server::{Act, Server, answer, cut, from, names, ranged, sha256, whole};
use crate::tiny;

/// Nothing here takes nearly as long.
const LIMIT: Duration = Duration::from_secs(60);

struct Agent {
    folder: TempDir,
    child: Child,
}

impl Agent {
    /// One that takes its model from this URL.
    fn start(url: &str, sha256: &str, cache: &Path, flags: &[&str]) -> Agent {
        let folder = tempfile::tempdir().unwrap();
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_terrace-agent"))
            .args(["--model-url", url, "--model-sha256", sha256, "--cache-dir", cache.to_str().unwrap()])
            // The machine of a test may be as full as it likes.
            .args(["--disk-reserve", "0"])
            .args(["--plain-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--threads", "1"])
            .arg("--port-file")
            .arg(folder.path().join("ports"))
            .arg("--termination-log")
            .arg(folder.path().join("termination"))
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Agent { folder, child }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    async fn until(&mut self, what: &str, reached: impl Fn(&Path) -> bool) {
        let deadline = Instant::now() + LIMIT;
        while !reached(self.folder.path()) {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("it ended with {status} before {what}: {}", self.log());
            }
            assert!(Instant::now() < deadline, "no {what} before the deadline: {}", self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn ready(&mut self) {
        self.until("it was ready", |folder| folder.join("ports").exists()).await;
    }

    async fn kill(&mut self) {
        self.child.kill().await.unwrap();
    }

    /// Waits for its end and returns its termination message.
    async fn termination(mut self) -> Value {
        let status = tokio::time::timeout(LIMIT, self.child.wait()).await.expect("it does not end").unwrap();
        assert_eq!(status.code(), Some(1), "{}", self.log());
        serde_json::from_slice(&std::fs::read(self.folder.path().join("termination")).unwrap()).unwrap()
    }
}

fn model() -> Vec<u8> {
    tiny::model(tiny::Kind::Q8_0)
}

/// Silent at first; then half of the file and silent; then honest.
async fn slow(file: Vec<u8>) -> Server {
    let answers = move |index: usize, head: &str| {
        let all = ranged(head, &file, "\"v1\"");
        match index {
            0 => vec![Act::Stall],
            1 => vec![Act::Send(cut(all, file.len() / 2)), Act::Stall],
            _ => vec![Act::Send(all)],
        }
    };
    Server::start(answers).await
}

#[tokio::test]
async fn an_agent_that_is_killed_while_it_downloads_never_loads_half_a_model() {
    let (bytes, cache) = (model(), tempfile::tempdir().unwrap());
    let server = slow(bytes.clone()).await;
    let (url, digest) = (format!("http://{}/m.gguf", server.address), sha256(&bytes));
    let path = |kind: &str| cache.path().join(format!("{digest}.{kind}"));

    // While it connects.
    let mut agent = Agent::start(&url, &digest, cache.path(), &[]);
    agent.until("it asked", |_| server.heads().len() == 1).await;
    agent.kill().await;
    assert!(!path("gguf").exists());

    // Half way.
    let mut agent = Agent::start(&url, &digest, cache.path(), &[]);
    let half = bytes.len() as u64 / 2;
    agent.until("half of it was there", |_| path("partial").metadata().is_ok_and(|m| m.len() == half)).await;
    agent.kill().await;
    assert!(!path("gguf").exists() && !agent.folder.path().join("ports").exists());

    // The next one goes on from there, and serves.
    let mut agent = Agent::start(&url, &digest, cache.path(), &[]);
    agent.ready().await;
    assert_eq!(from(&server.heads()[2]) as u64, half);
    assert_eq!(names(cache.path()), [format!("{digest}.gguf")]);
    assert_eq!(std::fs::read(path("gguf")).unwrap(), bytes);

    // And once it is there it is not asked for again.
    agent.kill().await;
    Agent::start(&url, &digest, cache.path(), &[]).ready().await;
    assert_eq!(server.heads().len(), 3);
}

#[tokio::test]
async fn an_agent_that_is_told_to_end_while_it_downloads_does() {
    let (bytes, cache) = (model(), tempfile::tempdir().unwrap());
    let server = slow(bytes.clone()).await;
    let url = format!("http://{}/m.gguf", server.address);
    let mut agent = Agent::start(&url, &sha256(&bytes), cache.path(), &[]);
    agent.until("it asked", |_| server.heads().len() == 1).await;
    let pid = rustix::process::Pid::from_raw(agent.child.id().unwrap() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let status = tokio::time::timeout(LIMIT, agent.child.wait()).await.expect("it does not end").unwrap();
    assert_eq!(status.code(), Some(0), "{}", agent.log());
}

#[tokio::test]
async fn agents_of_a_node_share_one_download() {
    let (bytes, cache) = (model(), tempfile::tempdir().unwrap());
    let server = Server::file(bytes.clone()).await;
    let url = format!("http://{}/m.gguf", server.address);
    let start = || Agent::start(&url, &sha256(&bytes), cache.path(), &[]);
    let mut agents = [start(), start(), start()];
    for agent in &mut agents {
        agent.ready().await;
    }
    assert_eq!(server.heads().len(), 1);
}

#[tokio::test]
async fn an_agent_without_a_model_says_why_in_the_words_of_the_condition() {
    let bytes = model();
    let missing = answer("404 Not Found", "content-length: 0\r\n", b"");
    let busy = answer("503 Service Unavailable", "content-length: 0\r\n", b"");
    for (answer, flags, reason) in [
        (whole(b"another file"), &[][..], "DigestMismatch"),
        (missing, &[], "NotFound"),
        (whole(&bytes), &["--cache-limit", "1Ki"], "NoSpace"),
        (busy, &["--pull-patience", "0"], "Unreachable"),
    ] {
        let (server, cache) = (Server::answers(vec![answer]).await, tempfile::tempdir().unwrap());
        let url = format!("http://{}/m.gguf?sig=hunter2", server.address);
        let agent = Agent::start(&url, &sha256(&bytes), cache.path(), flags);
        let log = agent.folder.path().join("log");
        let log = std::fs::File::open(log).unwrap();
        let said = agent.termination().await;
        assert_eq!(said["reason"], reason, "{said}");
        let log = std::io::read_to_string(log).unwrap();
        assert!(!said.to_string().contains("hunter2") && !log.contains("hunter2"), "{said} {log}");
        assert_eq!(names(cache.path()).iter().filter(|n| n.ends_with(".gguf")).count(), 0);
    }
}
