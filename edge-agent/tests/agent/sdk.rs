//! The clients that users have: the openai packages for Python and Node, through the plain door.

use std::process::Stdio;

use tokio::process::Command;

use crate::support::{Agent, LIMIT, MODEL};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Runs a program that drives the agent and says `ok`.
pub async fn drive(program: &str, script: &str) {
    let Some(agent) = Agent::start(&["--max-sequences", "4"]).await else { return };
    let child = Command::new(program)
        .arg(format!("{ROOT}/{script}"))
        .args([format!("http://{}/v1", agent.plain), MODEL.to_owned()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap_or_else(|e| panic!("{program} cannot be run ({e}): scripts/tools.sh makes what is needed"));
    let output = tokio::time::timeout(LIMIT, child.wait_with_output()).await.expect("it does not end").unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(said.trim(), "ok");
}

/// The Python that has the openai package.
pub fn python() -> String {
    format!("{ROOT}/.venv/bin/python")
}

#[tokio::test]
async fn the_openai_package_for_python_gets_all_that_it_can_ask_for() {
    drive(&python(), "edge-agent/tests/agent/sdk.py").await;
}

/// Forty schemas and more; the judge is Python's jsonschema.
#[tokio::test]
async fn schemas_from_libraries_and_guides_are_kept_to() {
    drive(&python(), "edge-agent/tests/agent/schemas.py").await;
}

#[tokio::test]
async fn the_openai_package_for_node_gets_all_that_it_can_ask_for() {
    drive("node", "e2e/clients/agent.mjs").await;
}
