//! `terrace-e2e faults`: mixed traffic on the two-node cluster for so many minutes, one fault in each.
//!
//! Held at the end: every request that is not a stream was answered, since for each class some tier that it may use is
//! whole at any time; nothing that may not leave the network reached the endpoint, and what may did.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Deserialize;
use serde_json::{Value, json};

use super::fault::{Dice, Fault};
use super::machine::Machine;
use super::{KEY, OUTSIDE, SHOP, Scene, git, install, privacy};
use crate::steps::Steps;
use crate::wait::{self, secs};
use crate::{Place, shell};

/// What a run is told.
#[derive(Debug, Clone, Copy)]
pub struct Soak {
    /// How many minutes, and so how many faults.
    pub minutes: u64,
    /// Decides which fault comes when, and what clients ask.
    pub seed: u64,
    /// Leave the cluster running.
    pub keep: bool,
}

/// How long a fault that is a state lasts at least.
const LASTS: Duration = secs(25);
/// How long a fault may take to make and to heal.
const FAULT_LIMIT: Duration = secs(400);

/// One request, as `traffic.py` notes it.
#[derive(Debug, Clone, Deserialize, serde::Serialize)]
struct Asked {
    at: f64,
    kind: String,
    ok: bool,
    took: f64,
    #[serde(default)]
    begun: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tier: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    code: Option<String>,
}

/// One minute's fault: what, and from when to when, seconds.
#[derive(Debug, Clone, serde::Serialize)]
struct Happened {
    fault: &'static str,
    from: f64,
    healed: f64,
}

/// Runs it.
pub async fn run(place: &Place, soak: Soak) -> anyhow::Result<ExitCode> {
    let mut steps = Steps::new("faults", None);
    steps.note(&format!("{} minutes, seed {}", soak.minutes, soak.seed));
    let Some(machine) =
        steps.step("two nodes are Ready and DNS answers", secs(460), Machine::up(place, soak.keep)).await
    else {
        return Ok(steps.end());
    };
    let tag = shell::run(git(place), None, secs(10)).await?.trim().to_owned();
    let scene = Scene { place, machine, tag };
    if install::steps(&scene, &mut steps).await.is_some() && privacy::third_tier(&scene, &mut steps).await.is_some() {
        hour(&scene, &mut steps, soak).await?;
    }
    if steps.failures() > 0 {
        std::fs::write(place.at("target/e2e/faults-evidence.txt"), scene.machine.evidence().await)?;
        steps.note("what the cluster knew at the end: target/e2e/faults-evidence.txt; logs: target/e2e/cluster/log");
    }
    scene.machine.down().await?;
    Ok(steps.end())
}

async fn hour(scene: &Scene<'_>, steps: &mut Steps, soak: Soak) -> anyhow::Result<()> {
    let (log, stop) = (scene.place.at("target/e2e/traffic.jsonl"), scene.place.at("target/e2e/traffic.stop"));
    // Left by a run that was interrupted, or not there.
    let _ = std::fs::remove_file(&stop);
    let traffic = traffic(scene, &log, &stop, soak);
    let faults = async {
        let happened = minutes(scene, steps, soak).await;
        std::fs::write(&stop, "")?;
        anyhow::Ok(happened)
    };
    // Whoever fails first ends the other: without traffic the rest would show nothing.
    let ((), happened) = tokio::try_join!(traffic, faults)?;
    let asked = read(&log)?;
    let received = steps.step("the endpoint says what it received", secs(60), received(scene)).await;
    let document = figures(soak, &asked, &happened, received);
    std::fs::create_dir_all(scene.place.at("target/bench"))?;
    std::fs::write(scene.place.at("target/bench/soak-cluster.json"), serde_json::to_vec_pretty(&document)?)?;
    judge(steps, &asked, received).await;
    steps.note(&format!("{}: target/bench/soak-cluster.json", document["requests"]));
    Ok(())
}

/// The clients, on n1, until the file is there.
async fn traffic(scene: &Scene<'_>, log: &Path, stop: &Path, soak: Soak) -> anyhow::Result<()> {
    let address = scene.machine.address(SHOP, "assistant").await?;
    let (python, script) = (scene.place.python()?, scene.place.arg("e2e/clients/traffic.py"));
    let (url, seed) = (format!("http://{address}/v1"), soak.seed.to_string());
    let (log, stop) = (log.display().to_string(), stop.display().to_string());
    let words = [&*python, &script, "--base-url", &url, "--key", KEY, "--out", &log, "--stop", &stop, "--seed", &seed];
    scene.machine.on("n1", &words, secs(60 * soak.minutes + 600) + FAULT_LIMIT).await.map(drop)
}

/// A fault each minute, one after the other; each is a step that passes once the fleet is whole again.
async fn minutes(scene: &Scene<'_>, steps: &mut Steps, soak: Soak) -> Vec<Happened> {
    let (began, mut dice) = (Instant::now(), Dice(soak.seed));
    let mut happened = Vec::new();
    for minute in 0..soak.minutes {
        let fault = Fault::of(minute, soak.seed);
        let from = began.elapsed();
        let one = async {
            fault.make(scene, &mut dice).await?;
            if fault.lasts() {
                wait::latency(LASTS.saturating_sub(began.elapsed().saturating_sub(from))).await;
            }
            fault.heal(scene).await
        };
        let _ = steps.step(&format!("minute {}: {}", minute + 1, fault.name()), FAULT_LIMIT, one).await;
        happened.push(Happened {
            fault: fault.name(),
            from: from.as_secs_f64(),
            healed: began.elapsed().as_secs_f64(),
        });
        // The rest of its minute is without a fault.
        wait::latency(secs(60 * (minute + 1)).saturating_sub(began.elapsed())).await;
    }
    happened
}

fn read(log: &Path) -> anyhow::Result<Vec<Asked>> {
    let text = std::fs::read_to_string(log).with_context(|| format!("no traffic in {}", log.display()))?;
    text.lines().map(|line| serde_json::from_str(line).context("traffic.py's line")).collect()
}

/// Bodies at the endpoint that may not leave, and that may.
async fn received(scene: &Scene<'_>) -> anyhow::Result<(u64, u64)> {
    let control = format!("http://{}:9090/received", scene.machine.address(OUTSIDE, "cloud").await?);
    let mut counts = Vec::new();
    for word in ["kept-inside", "may-leave"] {
        let said = scene.machine.http(&[&format!("{control}?contains={word}")]).await?;
        counts.push(said["bodies"].as_u64().context("the endpoint did not say how many bodies came")?);
    }
    Ok((counts[0], counts[1]))
}

async fn judge(steps: &mut Steps, asked: &[Asked], received: Option<(u64, u64)>) {
    let lost: Vec<&Asked> = asked.iter().filter(|a| !a.ok && a.kind != "streamed").collect();
    let _ = steps
        .step("every request that is no stream was answered", secs(1), async {
            anyhow::ensure!(!asked.is_empty(), "nothing was asked");
            anyhow::ensure!(lost.is_empty(), "{} were not, the first: {:?}", lost.len(), lost.first());
            Ok(())
        })
        .await;
    let _ = steps
        .step("every stream that failed had begun", secs(1), async {
            let late = asked.iter().find(|a| a.kind == "streamed" && !a.ok && !a.begun);
            anyhow::ensure!(late.is_none(), "{late:?}");
            Ok(())
        })
        .await;
    let Some((inside, outside)) = received else { return };
    let _ = steps
        .step("nothing sensitive reached the endpoint, and what may leave did", secs(1), async {
            anyhow::ensure!(inside == 0, "{inside} sensitive bodies reached the endpoint");
            anyhow::ensure!(outside > 0, "nothing reached the endpoint: it says nothing that nothing sensitive did");
            Ok(())
        })
        .await;
}

/// What happened, as figures: requests by kind and tier, the lost ones with the fault that was there, times.
fn figures(soak: Soak, asked: &[Asked], happened: &[Happened], received: Option<(u64, u64)>) -> Value {
    let mut kinds: BTreeMap<&str, Vec<&Asked>> = BTreeMap::new();
    for one in asked {
        kinds.entry(&one.kind).or_default().push(one);
    }
    let kinds: BTreeMap<&str, Value> = kinds.into_iter().map(|(kind, all)| (kind, kind_of(&all))).collect();
    let during = |at: f64| happened.iter().find(|h| (h.from..h.healed).contains(&at)).map_or("none", |h| h.fault);
    let failed: Vec<Value> =
        asked.iter().filter(|a| !a.ok).map(|a| json!({"request": a, "fault": during(a.at)})).collect();
    let (inside, outside) = received.unzip();
    json!({
        "bench": "soak-cluster", "minutes": soak.minutes, "seed": soak.seed,
        "command": format!("make soak-cluster MINUTES={} SEED={}", soak.minutes, soak.seed),
        "requests": asked.len(), "kinds": kinds, "failed": failed, "faults": happened,
        "sensitive_at_the_endpoint": inside, "public_at_the_endpoint": outside,
    })
}

fn kind_of(all: &[&Asked]) -> Value {
    let mut tiers: BTreeMap<&str, u32> = BTreeMap::new();
    for one in all.iter().filter(|a| a.ok) {
        *tiers.entry(one.tier.as_deref().unwrap_or("?")).or_default() += 1;
    }
    let mut took: Vec<f64> = all.iter().map(|a| a.took).collect();
    took.sort_by(f64::total_cmp);
    let at = |part: f64| took.get((took.len() as f64 * part) as usize);
    json!({"requests": all.len(), "failed": all.iter().filter(|a| !a.ok).count(), "tiers": tiers,
        "seconds": {"p50": at(0.5), "p99": at(0.99), "max": took.last()}})
}
