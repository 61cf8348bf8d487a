//! What routers have of two replicas: either one's snapshots, within a second of a change, and a place for their reports.

use std::time::Duration;

use anyhow::{Context, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use jiff::Timestamp;
use serde_json::Value;
use terrace_contract::SCHEMA_VERSION;
use terrace_contract::names::{REPORT_PATH, snapshot_path};
use terrace_contract::report::{Count, Outcome, Reachability, Report, Usage};
use terrace_contract::snapshot::Snapshot;
use terrace_contract::spent::{DAY_US, Spent, Taken};
use terrace_contract::trust::Class;
use terrace_identity::store::Material;
use terrace_identity::{Caller, Identities, Identity, IdentityStore, signing};
use terrace_wire::sse::Decoder;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::pair::Pair;
use super::writes::PAIR;
use super::{condition, objects, terrace};
use crate::shell;
use crate::steps::Steps;
use crate::wait::{self, secs};

/// Changes that are measured.
const CHANGES: usize = 25;
/// A change reaches a router within this.
const SOON: Duration = Duration::from_secs(1);
/// Requests that each router says it served.
const SERVED: u64 = 7;
/// Micro-units that each says it spent.
const SPENT: u64 = 3;

/// Snapshots and reports.
pub(super) async fn steps(pair: &mut Pair<'_>, steps: &mut Steps) {
    let read = async {
        let mut streams = [Stream::open(pair, 0).await?, Stream::open(pair, 1).await?];
        let mut revisions = Vec::new();
        for stream in &mut streams {
            revisions.push(stream.until(|_| true).await?.1.revision);
        }
        let status = terrace(&pair.rest, PAIR, "routingpolicies/assistant").await?["status"].clone();
        let shown = status["routers"]["revision"].as_str().unwrap_or_default().to_owned();
        ensure!(revisions == [shown.clone(), shown.clone()], "status shows {shown}, the replicas serve {revisions:?}");
        let caller = caller(pair, 0).await?;
        let other = caller.get(&snapshot_path(PAIR, "another")).await?.status();
        ensure!(other == StatusCode::FORBIDDEN, "the snapshot of another policy: {other}");
        Ok(streams)
    };
    let streams =
        steps.step("both replicas serve the same snapshot, to the policy's own routers", secs(40), read).await;
    if let Some(mut streams) = streams {
        let name = "a change reaches the routers of either replica within a second of kubectl apply";
        if let Some(mut took) = steps.step(name, secs(120), changes(pair, &mut streams)).await {
            took.sort_unstable();
            let at = |percent: usize| took[(took.len() * percent).div_ceil(100).saturating_sub(1)];
            let (many, half, most) = (took.len(), at(50), at(99));
            steps.note(&format!(
                "{CHANGES} changes reached both replicas' routers: {many} times, p50 {half:?}, p99 {most:?}"
            ));
        }
    }
    let forwarded = async {
        let holder = pair.settled().await?;
        let before = condition(&pair.rest, PAIR, "routingpolicies/assistant", "Reporting").await?;
        ensure!(before.0 == "Unknown", "a router has reported already: {before:?}");
        report(pair, 1 - holder).await
    };
    steps.step("a report to the replica without the lease shows up in status", secs(40), forwarded).await;
}

/// Changes the nearest tier again and again; for each replica, the time from when the API server took `kubectl apply`'s
/// request in until a router of that replica had the new snapshot.
async fn changes(pair: &Pair<'_>, streams: &mut [Stream]) -> anyhow::Result<Vec<Duration>> {
    let manifest = std::fs::read_to_string(pair.place.at("examples/quickstart/edge.yaml"))?;
    let mut took = Vec::new();
    for change in 0..CHANGES {
        let changed = manifest.replace("quality: {default: 40}", &format!("quality: {{default: {}}}", 41 + change));
        ensure!(changed != manifest, "examples/quickstart/edge.yaml has another quality");
        let mark = pair.audit.mark()?;
        let command = pair.server.command(&["--namespace", PAIR, "apply", "-o", "json", "-f", "-"]);
        let tier: Value = serde_json::from_str(&shell::run(command, Some(&changed), secs(20)).await?)?;
        let uid = tier["metadata"]["uid"].as_str().context("no UID")?;
        let generation = tier["metadata"]["generation"].as_i64().context("no generation")?;
        let taken = wait::until("kubectl's request in the API server's log", secs(5), async || {
            let all = pair.audit.since(mark)?;
            let ours =
                all.into_iter().find(|r| r.verb == "patch" && r.resource == "terrace.dev/tiers" && r.namespace == PAIR);
            Ok(ours.context("not there yet")?.received)
        })
        .await?;
        for stream in &mut *streams {
            let (arrived, _) =
                stream.until(|s| s.generations.tiers.get(uid).is_some_and(|known| *known >= generation)).await?;
            let micros = u64::try_from(arrived.as_microsecond() - taken.as_microsecond())?;
            took.push(Duration::from_micros(micros));
        }
    }
    let slow: Vec<_> = took.iter().filter(|took| **took >= SOON).collect();
    ensure!(slow.is_empty(), "{} of {} took a second or more: {slow:?}", slow.len(), took.len());
    Ok(took)
}

/// A report of each of the policy's routers to one replica; waits until status shows them.
pub(super) async fn report(pair: &Pair<'_>, to: usize) -> anyhow::Result<()> {
    let caller = caller(pair, to).await?;
    let policy = terrace(&pair.rest, PAIR, "routingpolicies/assistant").await?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut tiers = Vec::new();
    for tier in ["tiers/edge", "tiers/private"] {
        tiers.push(text(&terrace(&pair.rest, PAIR, tier).await?["metadata"]["uid"]));
    }
    let pods =
        pair.rest.get(&format!("/api/v1/namespaces/{PAIR}/pods?labelSelector=terrace.dev/policy=assistant")).await?;
    let pods = pods["items"].as_array().cloned().unwrap_or_default();
    ensure!(pods.len() == 2, "{} routers", pods.len());
    for pod in &pods {
        let now = u64::try_from(Timestamp::now().as_microsecond())?;
        let started = text(&pod["metadata"]["creationTimestamp"]).parse::<Timestamp>()?.as_microsecond();
        let report = Report {
            schema_version: SCHEMA_VERSION,
            policy_uid: text(&policy["metadata"]["uid"]),
            router_uid: text(&pod["metadata"]["uid"]),
            router: text(&pod["metadata"]["name"]),
            revision: text(&policy["status"]["routers"]["revision"]),
            refused: None,
            started_at_us: u64::try_from(started)?,
            sent_at_us: now,
            counts: vec![Count {
                tier: tiers[0].clone(),
                feature: "other".into(),
                class: Class::Internal,
                outcome: Outcome::Served,
                reason: "nearest".into(),
                forced: String::new(),
                requests: SERVED,
            }],
            latency: Vec::new(),
            usage: vec![Usage {
                tier: tiers[0].clone(),
                input_tokens: 0,
                output_tokens: 0,
                cost_micros: 0,
                failed_attempts: 0,
                attempts: 0,
            }],
            reachability: tiers
                .iter()
                .map(|tier| Reachability { tier: tier.clone(), reason: String::new(), saturated: 0 })
                .collect(),
            ledger: None,
            spent: Spent { day: now / DAY_US, by_router: [(text(&pod["metadata"]["uid"]), SPENT)].into() },
        };
        let mut request = Request::new(Full::new(Bytes::from(serde_json::to_vec(&report)?)));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = REPORT_PATH.parse()?;
        let answer = caller.call(request).await?;
        let status = answer.status();
        let said = answer.into_body().collect().await?.to_bytes();
        ensure!(status == StatusCode::OK, "{status}: {}", String::from_utf8_lossy(&said));
        let taken: Taken = serde_json::from_slice(&said)?;
        ensure!(
            taken.spent.by_router.get(&report.router_uid) == Some(&SPENT),
            "whichever replica takes a report says what was spent: {taken:?}"
        );
    }
    wait::until("status to show the reports", secs(20), async || {
        for (object, kind) in [
            ("routingpolicies/assistant", "Programmed"),
            ("routingpolicies/assistant", "Reporting"),
            ("tiers/edge", "Reachable"),
            ("tiers/private", "Reachable"),
        ] {
            let said = condition(&pair.rest, PAIR, object, kind).await?;
            ensure!(said.0 == "True", "{object}: {kind} {said:?}");
        }
        let status = terrace(&pair.rest, PAIR, "routingpolicies/assistant").await?["status"].clone();
        let traffic = &status["traffic"][0];
        ensure!(traffic["tier"] == "edge" && traffic["percent"] == 100, "traffic: {}", status["traffic"]);
        Ok(())
    })
    .await
}

/// A router of the policy, towards one replica: with the certificate of its Secret.
async fn caller(pair: &Pair<'_>, to: usize) -> anyhow::Result<Caller> {
    let identities = identities(pair).await?.0;
    let operator = Identity::operator(identities.identity().cluster());
    Ok(Caller::new(pair.operator(to)?.fleet.clone(), operator, identities))
}

/// The certificate of the policy's routers, and the key that they verify snapshots with.
async fn identities(pair: &Pair<'_>) -> anyhow::Result<(Identities, String)> {
    let secret = pair.rest.get(&objects::path("api/v1", PAIR, "secrets/assistant-router")).await?;
    let file = |name: &str| -> anyhow::Result<Vec<u8>> {
        Ok(BASE64.decode(secret["data"][name].as_str().with_context(|| format!("the Secret has no {name}"))?)?)
    };
    let material = Material { cert_pem: file("tls.crt")?, key_pem: file("tls.key")?, ca_pem: file("ca.crt")? };
    Ok((IdentityStore::from_material(material)?.identities(), String::from_utf8(file("snapshot.pub")?)?))
}

/// One open stream of snapshots.
struct Stream {
    read: mpsc::UnboundedReceiver<anyhow::Result<(Timestamp, Snapshot)>>,
    /// What was read last.
    last: Option<(Timestamp, Snapshot)>,
    reading: JoinHandle<()>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

impl Stream {
    async fn open(pair: &Pair<'_>, to: usize) -> anyhow::Result<Stream> {
        let caller = caller(pair, to).await?;
        let key = identities(pair).await?.1;
        let answer = caller.get(&snapshot_path(PAIR, "assistant")).await?;
        ensure!(answer.status() == StatusCode::OK, "the stream: {}", answer.status());
        let (told, read) = mpsc::unbounded_channel();
        let reading = tokio::spawn(async move {
            let (mut body, mut decoder) = (answer.into_body(), Decoder::new());
            // The connection is the caller's.
            let _caller = caller;
            while let Some(frame) = body.frame().await {
                let arrived = Timestamp::now();
                let events = frame
                    .map_err(anyhow::Error::from)
                    .and_then(|frame| Ok(decoder.push(&frame.into_data().unwrap_or_default())?));
                let events = match events {
                    Ok(events) => events,
                    Err(error) => return drop(told.send(Err(error))),
                };
                for event in events {
                    let snapshot = serde_json::from_str::<Snapshot>(&event.data).map_err(anyhow::Error::from);
                    let verified = snapshot.and_then(|snapshot| {
                        signing::verify(&snapshot, &key)?;
                        Ok((arrived, snapshot))
                    });
                    let _ = told.send(verified);
                }
            }
        });
        Ok(Stream { read, last: None, reading })
    }

    /// The first snapshot from the last one read on that is as wanted, and when it came.
    async fn until(&mut self, wanted: impl Fn(&Snapshot) -> bool) -> anyhow::Result<(Timestamp, Snapshot)> {
        if let Some(last) = self.last.as_ref().filter(|last| wanted(&last.1)) {
            return Ok(last.clone());
        }
        loop {
            let next =
                tokio::time::timeout(secs(10), self.read.recv()).await.context("no such snapshot within 10 s")?;
            let next = next.context("the stream has ended")??;
            self.last = Some(next.clone());
            if wanted(&next.1) {
                return Ok(next);
            }
        }
    }
}
