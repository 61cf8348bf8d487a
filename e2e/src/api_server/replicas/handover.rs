//! The lease changes hands: from a holder that is cut off, and from one that is killed in the middle of its work.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::objects::{self, path};
use super::pair::Pair;
use super::proxy::Fault;
use super::writes::PAIR;
use super::{lines, quick_start, quiet, terrace};
use crate::steps::Steps;
use crate::wait::{self, secs};

/// A lease lasts so long without renewal.
const LASTS: Duration = Duration::from_secs(15);
/// Both look at it this often: the last renewal may be seen that late, and that it has run out as well.
const PERIOD: Duration = Duration::from_secs(2);
/// What a busy machine may add.
const SLACK: Duration = Duration::from_secs(3);

/// Cut off, then killed.
pub(super) async fn steps(pair: &mut Pair<'_>, steps: &mut Steps) {
    let took =
        steps.step("a holder that is cut off stops writing before the other begins", secs(90), cut_off(pair)).await;
    if let Some(took) = took {
        steps.note(&format!("the other replica wrote {took:.1?} after the holder was cut off"));
    }
    let took = steps
        .step(
            "a holder that is killed is followed within the lease's time, and its work is finished",
            secs(120),
            killed(pair),
        )
        .await;
    if let Some(took) = took {
        steps.note(&format!("the other replica held the lease {took:.1?} after the holder was killed"));
    }
}

async fn cut_off(pair: &mut Pair<'_>) -> anyhow::Result<Duration> {
    let holder = pair.settled().await?;
    let other = 1 - holder;
    quiet(&pair.audit, 0, secs(2)).await?;
    let mark = pair.audit.mark()?;
    let start = Instant::now();
    pair.proxy(holder).set(Fault::Silent);
    let tier = path(objects::TERRACE, PAIR, "tiers/edge");
    let changed = pair.rest.patch(&tier, &json!({"spec": {"region": "elsewhere"}})).await?;
    wait::until("the other replica to write", LASTS + 2 * PERIOD + SLACK, async || {
        // In this order: between the two questions the holder can only stop.
        let (others, holders) = (pair.leads(other).await?, pair.leads(holder).await?);
        if others && holders {
            // Not the state that is waited for, and none that may be passed through.
            return Ok(Err(anyhow::anyhow!("both replicas say that they write")));
        }
        ensure!(others, "it does not yet");
        Ok(Ok(()))
    })
    .await??;
    let took = start.elapsed();
    wait::until("the change to be accepted", secs(10), async || {
        let now = terrace(&pair.rest, PAIR, "tiers/edge").await?;
        ensure!(now["status"]["observedGeneration"] == changed["metadata"]["generation"], "{}", now["status"]);
        Ok(())
    })
    .await?;
    pair.proxy(holder).set(Fault::None);
    ensure!(pair.settled().await? == other, "it took the lease back");
    quiet(&pair.audit, mark, secs(2)).await?;
    let late: Vec<_> = pair
        .audit
        .writes(mark)?
        .into_iter()
        .filter(|r| pair.operator(holder).is_ok_and(|o| o.token == r.token))
        .collect();
    ensure!(late.is_empty(), "it wrote after it was cut off:\n{}", lines(&late));
    Ok(took)
}

async fn killed(pair: &mut Pair<'_>) -> anyhow::Result<Duration> {
    quick_start(pair.place, pair.server, "handover-calm").await?;
    let holder = pair.settled().await?;
    quiet(&pair.audit, 0, secs(2)).await?;
    let wanted = objects::of(&pair.rest, "handover-calm").await?;
    // In the middle: after the eighth write of what it makes of the quick start.
    pair.proxy(holder).arm(Fault::Stop("/namespaces/handover-work/".into(), 8));
    quick_start(pair.place, pair.server, "handover-work").await?;
    pair.proxy(holder).stopped().await?;
    let start = Instant::now();
    let dead = pair.take(holder)?;
    let token = dead.token.clone();
    dead.kill().await?;
    let last = time(&pair.lease().await?, "renewTime")?;
    let limit = LASTS + 2 * PERIOD;
    wait::until("the other replica to hold the lease", limit + SLACK, async || {
        ensure!(pair.holder().await? != holder, "it does not yet");
        Ok(())
    })
    .await?;
    let took = start.elapsed();
    let taken = time(&pair.lease().await?, "acquireTime")?;
    let silent = Duration::try_from(taken.duration_since(last))?;
    ensure!(silent >= LASTS, "the lease was taken {silent:?} after it was renewed");
    wait::until("the work to be finished", secs(30), async || {
        match objects::difference(&wanted, &objects::of(&pair.rest, "handover-work").await?) {
            None => Ok(()),
            Some(difference) => anyhow::bail!("{difference}"),
        }
    })
    .await?;
    let made: Vec<_> =
        pair.audit.writes(0)?.into_iter().filter(|r| r.namespace == "handover-work" && r.code < 300).collect();
    let before = made.iter().filter(|r| r.token == token).count();
    ensure!(before == 8 && made.len() >= 21, "{before} writes of {} were the first holder's", made.len());
    // It comes back and finds the lease held.
    pair.proxy(holder).set(Fault::None);
    pair.run(holder).await?;
    pair.operator(holder)?.ready().await?;
    ensure!(pair.settled().await? != holder, "it took the lease back");
    Ok(took)
}

fn time(lease: &Value, field: &str) -> anyhow::Result<Timestamp> {
    Ok(lease["spec"][field].as_str().with_context(|| format!("the Lease has no {field}"))?.parse()?)
}
