//! The clients that users have, against a router's process: openai (Python and Node), anthropic, LangChain, LiteLLM, curl.

use std::process::{Output, Stdio};
use std::time::Duration;

use terrace_contract::policy::{Access, KeyRule};
use terrace_contract::tier::Feature;
use terrace_contract::trust::Boundary;
use tokio::process::Command;

use crate::support::{Act, Scripted, World, play, process};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const KEY: &str = "sk-of-the-tests";
/// Until a client that hangs has failed: LiteLLM takes many seconds to be imported on a busy machine.
const LIMIT: Duration = Duration::from_secs(240);

/// A router with one tier that does whatever it is asked, and a key; what a client of it printed.
async fn drive(program: &str, arguments: impl FnOnce(&str) -> Vec<String>) -> Output {
    let tier = Scripted::new("small", 8, Act::Play);
    let mut world = World::new();
    world.agents("edge", Boundary::Device, &[&tier]).await;
    world.can("edge", &[Feature::Tools, Feature::Logprobs, Feature::JsonSchema, Feature::Embeddings]);
    let rule = KeyRule { name: "ci".into(), ..KeyRule::default() };
    world.snapshot.policy.access = Access::ApiKeys { keys: vec![rule] };
    std::fs::write(world.path("api-keys/ci"), KEY).unwrap();
    let router = process::start(&mut world).await;
    let child = Command::new(program)
        .args(arguments(&format!("http://{}/v1", router.listen)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap_or_else(|e| panic!("{program} cannot be run ({e}): scripts/tools.sh makes what is needed"));
    let ended = tokio::time::timeout(LIMIT, child.wait_with_output()).await;
    let output = ended.unwrap_or_else(|_| panic!("{program} does not end")).unwrap();
    assert!(tier.count() > 0, "nothing reached the tier: {output:?}");
    output
}

async fn script(program: &str, script: &str) {
    let arguments = |base: &str| vec![format!("{ROOT}/{script}"), base.to_owned(), KEY.to_owned()];
    let output = drive(program, arguments).await;
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(said.trim().lines().last(), Some("ok"));
}

async fn python(name: &str) {
    script(&format!("{ROOT}/.venv/bin/python"), &format!("router-pod/tests/router/clients/{name}")).await;
}

#[tokio::test]
async fn the_openai_package_for_python() {
    python("openai_sdk.py").await;
}

#[tokio::test]
async fn the_openai_package_for_node() {
    script("node", "e2e/clients/router.mjs").await;
}

#[tokio::test]
async fn the_anthropic_package() {
    python("anthropic_sdk.py").await;
}

#[tokio::test]
async fn langchain() {
    python("langchain_sdk.py").await;
}

#[tokio::test]
async fn litellm() {
    python("litellm_sdk.py").await;
}

#[tokio::test]
async fn curl() {
    for (path, body, want) in [
        ("/chat/completions", r#"{"model": "auto", "messages": [{"role": "user", "content": "hi"}]}"#, play::TEXT),
        (
            "/chat/completions",
            r#"{"model": "auto", "stream": true, "messages": [{"role": "user", "content": "hi"}]}"#,
            "data: [DONE]",
        ),
        (
            "/messages",
            r#"{"model": "auto", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}"#,
            play::TEXT,
        ),
        (
            "/messages",
            r#"{"model": "auto", "max_tokens": 9, "stream": true, "messages": [{"role": "user", "content": "hi"}]}"#,
            "event: message_stop",
        ),
        ("/responses", r#"{"model": "auto", "input": "hi"}"#, play::TEXT),
        ("/responses", r#"{"model": "auto", "input": "hi", "stream": true}"#, "event: response.completed"),
        ("/embeddings", r#"{"model": "auto", "input": "hi"}"#, r#""embedding":[0.0,1.0]"#),
    ] {
        let arguments = |base: &str| {
            let key = format!("x-api-key: {KEY}");
            ["-sS", "--fail", "--no-buffer", "-H", "content-type: application/json", "-H", &key, "-d", body]
                .into_iter()
                .map(str::to_owned)
                .chain([format!("{base}{path}")])
                .collect()
        };
        let output = drive("curl", arguments).await;
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains(want), "{path}: {said} {output:?}");
    }
}
