//! Which replica writes, and that nothing is written when nothing changed: counted in the API server's audit log.

use std::collections::BTreeSet;

use anyhow::ensure;
use serde_json::json;

use super::super::audit::Request;
use super::pair::Pair;
use super::{condition, kubelet, lines, objects, quick_start, quiet, stream, terrace};
use crate::steps::Steps;
use crate::wait::{self, secs};

/// The namespace of these steps: its pods are ready.
pub(super) const PAIR: &str = "pair";
/// One agent of each tier, two routers.
const PODS: usize = 4;
/// The operator's kinds of watches: three of Terrace, eight of children, pods, nodes, namespaces; and Secrets once more.
const WATCHED: usize = 14;

/// The holder makes everything, the other one only watches.
pub(super) async fn one_writes(pair: &mut Pair<'_>, steps: &mut Steps) -> Option<()> {
    steps
        .step("of two replicas the holder of the lease writes, and the other watches", secs(120), async {
            kubelet::node(&pair.rest).await?;
            let mark = pair.audit.mark()?;
            quick_start(pair.place, pair.server, PAIR).await?;
            kubelet::run(&pair.rest, PAIR, PODS).await?;
            wait::until("the tiers to be ready", secs(40), async || {
                for tier in ["tiers/edge", "tiers/private"] {
                    let ready = condition(&pair.rest, PAIR, tier, "Ready").await?;
                    ensure!(ready.0 == "True", "{tier}: {ready:?}");
                }
                Ok(())
            })
            .await?;
            quiet(&pair.audit, mark, secs(2)).await?;
            let holder = pair.settled().await?;
            let (writes, watches) = (pair.operator(holder)?, pair.operator(1 - holder)?);
            let made = pair.audit.writes(mark)?;
            let by = |token: &str| made.iter().filter(|r| r.token == token).cloned().collect::<Vec<Request>>();
            let (ours, theirs) = (by(&writes.token), by(&watches.token));
            ensure!(theirs.is_empty(), "the replica without the lease wrote:\n{}", lines(&theirs));
            ensure!(
                ours.len() == made.len() && ours.len() >= 21,
                "the holder made {} of {} writes",
                ours.len(),
                made.len()
            );
            let seen: BTreeSet<String> = pair
                .audit
                .since(0)?
                .into_iter()
                // A request to watch is written down when it ends; each begins with a list.
                .filter(|r| r.token == watches.token && r.verb == "list")
                .map(|r| r.resource)
                .collect();
            ensure!(seen.len() == WATCHED, "the replica without the lease watches {seen:?}");
            for metric in ["terrace_children_written_total", "terrace_statuses_written_total"] {
                let counted = [writes.metric(metric, "").await?, watches.metric(metric, "").await?];
                ensure!(counted[0] > 0 && counted[1] == 0, "{metric}: {counted:?}");
            }
            Ok(())
        })
        .await
}

/// Everything is looked at again: because it was touched, because a replica restarted, because the lease changed hands,
/// because both restarted. What the kinds say of themselves was true before and is true after: nothing is written.
pub(super) async fn second_pass(pair: &mut Pair<'_>, steps: &mut Steps) -> Option<()> {
    steps
        .step("when everything is touched and nothing changed, nothing is written", secs(90), async {
            let holder = pair.settled().await?;
            quiet(&pair.audit, 0, secs(2)).await?;
            let mark = pair.audit.mark()?;
            let passes = async || -> anyhow::Result<[u64; 3]> {
                let of = async |kind| pair.operator(holder)?.metric("terrace_reconciles_total", kind).await;
                Ok([of("\"Tier\"").await?, of("\"RoutingPolicy\"").await?, of("\"LatencyBudget\"").await?])
            };
            let before = passes().await?;
            let all = "tiers,routingpolicies,latencybudgets,serviceaccounts,secrets,configmaps,services,networkpolicies,poddisruptionbudgets,daemonsets,deployments,pods";
            pair.server.kubectl(&["--namespace", PAIR, "annotate", all, "--all", "example.com/touched=yes"]).await?;
            wait::until("another pass over each kind", secs(20), async || {
                let after = passes().await?;
                let more = [0, 1, 2].map(|kind| after[kind] - before[kind]);
                ensure!(more[0] >= 2 && more[1] >= 1 && more[2] >= 1, "{more:?} passes");
                Ok(())
            })
            .await?;
            quiet(&pair.audit, mark, secs(2)).await?;
            nothing_since(pair, mark)?;
            // What counts here does count: a change is written, and then nothing again.
            let tier = objects::path(objects::TERRACE, PAIR, "tiers/edge");
            let changed = pair.rest.patch(&tier, &json!({"spec": {"region": "there"}})).await?;
            wait::until("the change to be accepted", secs(20), async || {
                let now = terrace(&pair.rest, PAIR, "tiers/edge").await?;
                ensure!(now["status"]["observedGeneration"] == changed["metadata"]["generation"], "{}", now["status"]);
                Ok(())
            })
            .await?;
            ensure!(nothing_since(pair, mark).is_err(), "a change was accepted and no write was counted");
            Ok(())
        })
        .await;
    for (name, whom) in [
        ("a replica without the lease that restarts writes nothing", Whom::Other),
        ("a holder that ends hands the lease over, and the next one writes nothing", Whom::Holder),
        ("when both replicas crash and come back, nothing is written", Whom::Both),
    ] {
        steps.step(name, secs(120), restarted(pair, whom)).await;
    }
    Some(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Whom {
    Holder,
    Other,
    Both,
}

async fn restarted(pair: &mut Pair<'_>, whom: Whom) -> anyhow::Result<()> {
    let holder = pair.settled().await?;
    // What status says of routers is no older than what the routers say.
    stream::report(pair, holder).await?;
    let reporting = condition(&pair.rest, PAIR, "routingpolicies/assistant", "Reporting").await?;
    quiet(&pair.audit, 0, secs(2)).await?;
    let mark = pair.audit.mark()?;
    match whom {
        Whom::Other => {
            pair.take(1 - holder)?.stop().await?;
            pair.run(1 - holder).await?;
        }
        Whom::Holder => {
            pair.take(holder)?.stop().await?;
            wait::until("the other replica to write", secs(10), async || {
                ensure!(pair.leads(1 - holder).await?, "it does not yet");
                Ok(())
            })
            .await?;
            pair.run(holder).await?;
        }
        Whom::Both => {
            pair.take(holder)?.kill().await?;
            pair.take(1 - holder)?.kill().await?;
            pair.run(holder).await?;
            pair.run(1 - holder).await?;
        }
    }
    for at in 0..2 {
        pair.operator(at)?.ready().await?;
    }
    let now = pair.settled().await?;
    ensure!((now == holder) != (whom == Whom::Holder), "the lease is at {now}, it was at {holder}");
    stream::report(pair, now).await?;
    let mut objects = 0;
    for resource in ["tiers", "routingpolicies", "latencybudgets"] {
        let list = pair.rest.get(&format!("/{}/{resource}", objects::TERRACE)).await?;
        objects += list["items"].as_array().map_or(0, Vec::len);
    }
    wait::until("a pass over everything", secs(30), async || {
        let passes = pair.operator(now)?.metric("terrace_reconciles_total", "").await?;
        ensure!(passes >= objects as u64, "{passes} passes over {objects} objects");
        Ok(())
    })
    .await?;
    quiet(&pair.audit, mark, secs(2)).await?;
    nothing_since(pair, mark)?;
    let after = condition(&pair.rest, PAIR, "routingpolicies/assistant", "Reporting").await?;
    ensure!(reporting.0 == "True" && after == reporting, "Reporting was {reporting:?} and is {after:?}");
    Ok(())
}

fn nothing_since(pair: &Pair<'_>, mark: u64) -> anyhow::Result<()> {
    let writes = pair.audit.writes(mark)?;
    ensure!(writes.is_empty(), "{} writes:\n{}", writes.len(), lines(&writes));
    Ok(())
}
