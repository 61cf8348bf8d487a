//! The refusal corpus of `crds/tests/corpus` through a real API server, and what only the operator can refuse, through the operator.

use anyhow::{Context, ensure};
use serde_json::Value;
use terrace_crds::corpus::{Case, Where, read};

use super::SHOP;
use super::server::ApiServer;
use crate::steps::Steps;
use crate::wait::{self, secs};
use crate::{Place, conditions, shell};

/// The corpus, with what it says of itself.
fn cases(place: &Place) -> anyhow::Result<Vec<Case>> {
    let cases = read(&place.at("crds/tests/corpus"))?;
    ensure!(cases.len() > 80, "only {} cases", cases.len());
    Ok(cases)
}

/// What the API server refuses at apply.
pub(super) async fn refused_at_apply(place: &Place, server: &ApiServer, steps: &mut Steps) -> Option<()> {
    steps
        .step("it refuses the corpus, each case with its way out", secs(240), async {
            let mut wrong = Vec::new();
            for case in cases(place)? {
                if let Err(error) = at_apply(server, &case).await {
                    wrong.push(format!("{}: {error:#}", case.name));
                }
            }
            ensure!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
            Ok(())
        })
        .await
}

async fn at_apply(server: &ApiServer, case: &Case) -> anyhow::Result<()> {
    let (last, before) = case.documents.split_last().context("no document")?;
    // A change needs what it changes; what merely stands beside needs no place in the store here.
    for document in before {
        apply(server, document).await.context("what comes first is not taken")?;
    }
    let done = shell::output(server.command(&["apply", "-f", "-"]), Some(last), secs(20)).await;
    for document in &case.documents {
        delete(server, document).await;
    }
    let done = done?;
    let said = done.stdout + &done.stderr;
    match case.refused_by {
        Where::ApiServer => ensure!(done.code != 0 && said.contains(&case.says), "wanted {:?}, got {said}", case.says),
        _ => ensure!(done.code == 0, "the API server must take it; it said {said}"),
    }
    Ok(())
}

/// What the operator refuses in status.
pub(super) async fn refused_in_status(place: &Place, server: &ApiServer, steps: &mut Steps) -> Option<()> {
    steps
        .step("the operator refuses in status what only it can see", secs(400), async {
            let mut wrong = Vec::new();
            for case in cases(place)?.into_iter().filter(|case| case.refused_by != Where::ApiServer) {
                if let Err(error) = in_status(server, &case).await {
                    wrong.push(format!("{}: {error:#}", case.name));
                }
            }
            ensure!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
            Ok(())
        })
        .await
}

async fn in_status(server: &ApiServer, case: &Case) -> anyhow::Result<()> {
    let condition = if case.refused_by == Where::ResolvedRefs { "ResolvedRefs" } else { "Accepted" };
    let mut object = String::new();
    for document in &case.documents {
        // Kubernetes knows ages in whole seconds, and the oldest wins: each object is made in a second of its own.
        let made = second();
        object = apply(server, document).await?;
        wait::until("the next second", secs(2), async || {
            ensure!(second() > made, "still {made}");
            Ok(())
        })
        .await?;
    }
    let result = wait::until(condition, secs(15), async || {
        let words = ["--namespace", SHOP, "get", object.trim(), "-o", "json"];
        let object: Value = serde_json::from_str(&server.kubectl(&words).await?)?;
        let now = conditions::condition(&object, condition).with_context(|| format!("no {condition} yet"))?;
        let text = |field: &str| now[field].as_str().unwrap_or_default();
        ensure!(
            text("status") == "False" && text("reason") == case.reason && text("message").contains(&case.says),
            "wanted {}: {:?}, got {now}",
            case.reason,
            case.says
        );
        Ok(())
    })
    .await;
    for document in &case.documents {
        delete(server, document).await;
    }
    result
}

fn second() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// Applies one document; its `kind/name`.
async fn apply(server: &ApiServer, document: &str) -> anyhow::Result<String> {
    shell::run(server.command(&["apply", "-o", "name", "-f", "-"]), Some(document), secs(20)).await
}

/// Deletes one document's object, if it is there; what cannot even be read was never there.
async fn delete(server: &ApiServer, document: &str) {
    let words = ["delete", "--ignore-not-found", "--wait=true", "--timeout=10s", "-f", "-"];
    let _ = shell::output(server.command(&words), Some(document), secs(20)).await;
}
