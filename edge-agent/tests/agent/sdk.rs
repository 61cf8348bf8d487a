//! The client that users have: the openai Python package, through the plain door.

use std::process::Stdio;

use tokio::process::Command;

use crate::support::{Agent, LIMIT, MODEL};

#[tokio::test]
async fn the_openai_package_gets_whole_and_streamed_answers_and_typed_errors() {
    let Some(agent) = Agent::start(&[]).await else { return };
    let python = concat!(env!("CARGO_MANIFEST_DIR"), "/../.venv/bin/python");
    let child = Command::new(python)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/agent/sdk.py"))
        .args([format!("http://{}/v1", agent.plain), MODEL.to_owned()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap_or_else(|e| panic!("{python} cannot be run ({e}): scripts/tools.sh makes it"));
    let output = tokio::time::timeout(LIMIT, child.wait_with_output()).await.expect("it does not end").unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(said.trim(), "ok");
}
