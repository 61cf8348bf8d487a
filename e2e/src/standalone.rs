//! Layer 2: `terrace up` with the quick start, asked through the openai packages for Python and Node.

use std::process::{ExitCode, Stdio};

use anyhow::Context;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::client::{self, Question, nonce};
use crate::steps::Steps;
use crate::wait::secs;
use crate::{Place, shell};

/// A running `terrace up`; it is told to end, as Ctrl-C would, when it is stopped.
struct Up {
    child: Child,
    url: String,
}

impl Up {
    async fn start(place: &Place) -> anyhow::Result<Up> {
        let folder = tempfile::tempdir()?;
        let ports = folder.path().join("ports.json");
        let mut command = Command::new(place.program("terrace")?);
        command.args([
            "up",
            "-f",
            &place.arg("examples/quickstart"),
            "--listen",
            "127.0.0.1:0",
            "--port-file",
            &ports.display().to_string(),
        ]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).kill_on_drop(true);
        let mut child = command.spawn().context("cannot start terrace up")?;
        // Its output is read on, so that it never waits for us.
        if let Some(stdout) = child.stdout.take() {
            tokio::spawn(async move {
                let mut lines = BufReader::new(stdout).lines();
                while let Ok(Some(_)) = lines.next_line().await {}
            });
        }
        let url = crate::wait::until("terrace up", secs(90), async || {
            let text = tokio::fs::read_to_string(&ports).await.context("no port file yet")?;
            let ports: Value = serde_json::from_str(&text)?;
            Ok(format!("http://{}/v1", ports["listen"].as_str().context("the port file has no `listen`")?))
        })
        .await?;
        Ok(Up { child, url })
    }

    async fn stop(mut self) -> anyhow::Result<()> {
        let pid = self.child.id().context("terrace up has ended by itself")?.to_string();
        let mut children = Command::new("pgrep");
        children.args(["--parent", &pid]);
        let children = shell::run(children, None, secs(5)).await.context("terrace up has no children")?;
        let mut kill = Command::new("kill");
        kill.args(["-INT", &pid]);
        shell::run(kill, None, secs(5)).await?;
        let ended = tokio::time::timeout(secs(20), self.child.wait()).await;
        let status = ended.context("terrace up did not end within 20 s of Ctrl-C")??;
        anyhow::ensure!(matches!(status.code(), Some(0 | 130)), "terrace up ended with {status}");
        let left: Vec<_> = children.lines().filter(|c| std::path::Path::new("/proc").join(c).exists()).collect();
        anyhow::ensure!(left.is_empty(), "children {left:?} of {children:?} are still there");
        Ok(())
    }
}

/// Runs the suite.
pub async fn run(place: &Place) -> anyhow::Result<ExitCode> {
    let mut steps = Steps::new("standalone", None);
    let Some(up) = steps.step("terrace up takes the quick start", secs(120), Up::start(place)).await else {
        return Ok(steps.end());
    };
    let ask = async |question: Question| {
        let mut command = Command::new(place.python()?);
        command.args(question.words(&place.arg("e2e/clients/ask.py")));
        client::answers(&shell::run(command, None, secs(120)).await?)?.pop().context("ask.py printed nothing")
    };
    steps
        .step("openai for Python gets a plain answer", secs(120), async {
            ask(Question::new(&up.url, &format!("What is the capital of France? {}", nonce())))
                .await?
                .from("edge")
                .map(drop)
        })
        .await;
    steps
        .step("openai for Python gets a streamed answer", secs(120), async {
            let answer = ask(Question::new(&up.url, &format!("Name three colours. {}", nonce())).streamed()).await?;
            anyhow::ensure!(answer.from("edge")?.chunks > 1 && answer.usage.is_some(), "{answer:?}");
            Ok(())
        })
        .await;
    steps
        .step("openai for Node gets both, and the models", secs(120), async {
            let mut node = Command::new("node");
            node.arg(place.at("e2e/clients/ask.mjs")).args([up.url.as_str(), "What is the capital of Italy?"]);
            let answer: Value = serde_json::from_str(&shell::run(node, None, secs(100)).await?)?;
            anyhow::ensure!(
                answer["plain"] == answer["streamed"] && answer["plain"].as_str().is_some_and(|t| !t.trim().is_empty()),
                "{answer}"
            );
            anyhow::ensure!(
                answer["models"].as_array().is_some_and(|m| m.iter().any(|m| m == "smollm2-135m-instruct")),
                "{answer}"
            );
            Ok(())
        })
        .await;
    steps
        .step("malformed JSON is refused with its place", secs(30), async {
            let mut curl = Command::new("curl");
            curl.args([
                "--silent",
                "--max-time",
                "10",
                "--write-out",
                "\n%{http_code}",
                "--header",
                "content-type: application/json",
                "--data",
                r#"{"model": "auto", "#,
            ]);
            curl.arg(format!("{}/chat/completions", up.url));
            let printed = shell::run(curl, None, secs(15)).await?;
            anyhow::ensure!(printed.ends_with("\n400") && printed.contains("invalid_request"), "{printed}");
            Ok(())
        })
        .await;
    steps
        .step("a body of 10 MiB is refused with the limit", secs(30), async {
            let file = tempfile::NamedTempFile::new()?;
            std::fs::write(file.path(), vec![b'x'; 10 << 20])?;
            let mut curl = Command::new("curl");
            curl.args([
                "--silent",
                "--max-time",
                "20",
                "--write-out",
                "\n%{http_code}",
                "--header",
                "content-type: application/json",
                "--header",
                "expect:",
            ]);
            curl.arg("--data-binary")
                .arg(format!("@{}", file.path().display()))
                .arg(format!("{}/chat/completions", up.url));
            let done = shell::output(curl, None, secs(25)).await?;
            anyhow::ensure!(
                done.stdout.ends_with("\n413") && done.stdout.contains("request_too_large"),
                "{}",
                done.stdout
            );
            Ok(())
        })
        .await;
    steps
        .step("a port in use is named", secs(60), async {
            let taken = up.url.trim_start_matches("http://").trim_end_matches("/v1").to_owned();
            let mut command = Command::new(place.program("terrace")?);
            command.args(["up", "-f", &place.arg("examples/quickstart"), "--listen", &taken]);
            let done = shell::output(command, None, secs(45)).await?;
            let said = done.stdout + &done.stderr;
            anyhow::ensure!(
                done.code != 0 && said.contains(&taken),
                "terrace up ended with {} and said: {said}",
                done.code
            );
            Ok(())
        })
        .await;
    steps
        .step("terrace ask prints tier, reasons and hops", secs(120), async {
            let mut command = Command::new(place.program("terrace")?);
            command.args(["ask", "--url", &up.url, "--max-tokens", "8", "Say hello."]);
            let printed = shell::run(command, None, secs(100)).await?;
            for part in ["edge", "attempt", "prefill", "decode"] {
                anyhow::ensure!(printed.contains(part), "no {part} in\n{printed}");
            }
            Ok(())
        })
        .await;
    steps.step("Ctrl-C ends it and every child", secs(40), up.stop()).await;
    steps
        .step("make up's command prints one answer and ends with 0", secs(150), async {
            let mut command = Command::new(place.program("terrace")?);
            command.args([
                "up",
                "-f",
                &place.arg("examples/quickstart"),
                "--listen",
                "127.0.0.1:0",
                "--ask",
                "What is the capital of France?",
            ]);
            let printed = shell::run(command, None, secs(140)).await?;
            for part in ["edge", "attempt", "prefill", "decode"] {
                anyhow::ensure!(printed.contains(part), "no {part} in\n{printed}");
            }
            Ok(())
        })
        .await;
    Ok(steps.end())
}
