//! Agents behind a stock inference gateway: the manifests of docs/gateways.md, two real agents with the small model,
//! the endpoint picker of the Gateway API Inference Extension with the configuration there, and Envoy, which asks it.

mod ask;
mod envoy;
mod fleet;
mod load;
mod picker;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, ensure};
use tokio::task::JoinSet;

use super::server::ApiServer;
use crate::client::nonce;
use crate::steps::Steps;
use crate::wait::{self, secs};
use crate::{Place, programs};
use ask::Client;
use envoy::Envoy;
use fleet::Fleet;
use load::Load;
use picker::Picker;

/// The namespace of these steps.
const SPACE: &str = "gateway";
/// Deployment, label and InferencePool of docs/gateways.md.
const POOL: &str = "small";
/// As many agents as the Deployment there asks for.
const AGENTS: usize = 2;

/// Which block of YAML in docs/gateways.md has the manifests, and which the picker's configuration.
const MANIFESTS: usize = 1;
const CONFIGURATION: usize = 2;

/// All that runs here.
struct Stage<'a> {
    fleet: Fleet<'a>,
    picker: Picker<'a>,
    envoy: Envoy,
    client: &'a Client,
}

/// From the manifests to an agent that dies.
pub(super) async fn steps(place: &Place, server: &ApiServer, steps: &mut Steps) -> Option<()> {
    let client = Client::new();
    let port = steps
        .step("the API server takes the InferencePool's kind and the manifests of docs/gateways.md", secs(60), async {
            let port = fleet::port()?;
            manifests(place, server, port).await?;
            Ok(port)
        })
        .await?;
    let mut stage = steps
        .step("the stock endpoint picker reads two agents by its defaults, and Envoy asks it", secs(240), async {
            let mut fleet = Fleet::new(place, server, port).await?;
            let picker = Picker::start(server, &client, &document(place, CONFIGURATION)?).await?;
            fleet.follow(AGENTS).await?;
            let seen = async {
                wait::until("the picker to have read both", secs(30), async || {
                    let fresh = picker.fresh().await?;
                    ensure!(fresh == AGENTS as f64, "{fresh} pods have fresh metrics");
                    Ok(())
                })
                .await?;
                Envoy::start(server, picker.grpc, &client).await
            };
            let envoy = seen.await.with_context(|| picker.tail())?;
            Ok(Stage { fleet, picker, envoy, client: &client })
        })
        .await?;
    steps.step("a question through the gateway is answered, whole and as a stream", secs(120), stage.answers()).await?;
    steps.step("questions are spread over both agents", secs(150), stage.spread()).await;
    steps.step("what begins alike goes to the agent that has computed it", secs(150), stage.affinity()).await;
    steps.step("while an agent is busy, what is new goes to the other", secs(150), stage.busy()).await;
    steps.step("the picker took everything in the agents' metrics", secs(10), stage.read()).await;
    steps.step("an agent is replaced under load, and no question fails", secs(240), stage.replaced()).await;
    steps.step("an agent that dies gets nothing, though its pod is still ready", secs(150), stage.dies()).await;
    Some(())
}

/// The kinds of the Inference Extension, as the module of the picker brings them, and the document's manifests.
async fn manifests(place: &Place, server: &ApiServer, port: u16) -> anyhow::Result<()> {
    let kinds = programs()?.join("crds").display().to_string();
    server.kubectl(&["apply", "--server-side", "-f", &kinds]).await?;
    let pool = "crd/inferencepools.inference.networking.k8s.io";
    server.kubectl(&["wait", "--for=condition=Established", "--timeout=20s", pool]).await?;
    server.kubectl(&["create", "namespace", SPACE]).await?;
    let yaml = document(place, MANIFESTS)?;
    // An HTTPRoute is for the gateway's own controller, whose kinds are not here.
    let ours = yaml.split("---\n").filter(|document| !document.contains("kind: HTTPRoute"));
    let ours: Vec<String> = ours
        .map(|document| document.replace("namespace: shop", &format!("namespace: {SPACE}")))
        .map(|document| document.replace("8000", &port.to_string()))
        .collect();
    ensure!(ours.len() == 3, "docs/gateways.md has {} manifests beside the HTTPRoute", ours.len());
    server.apply(&ours.join("---\n")).await.map(drop)
}

/// The n-th block of YAML in docs/gateways.md: what is written there is what runs here.
fn document(place: &Place, n: usize) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(place.at("docs/gateways.md"))?;
    let yaml = text.split("```yaml\n").nth(n).and_then(|rest| rest.split("```").next());
    yaml.map(str::to_owned).with_context(|| format!("docs/gateways.md has no block {n} of YAML"))
}

/// Text that fills a block of the picker's hashes by itself, so that no two questions begin alike.
fn fresh() -> String {
    format!("{} {} {} {} What is a", nonce(), nonce(), nonce(), nonce())
}

impl Stage<'_> {
    /// Ends in failure with what picker and Envoy said last.
    fn told(&self) -> String {
        format!("{}\n{}", self.picker.tail(), self.envoy.tail())
    }

    fn ips(&self) -> BTreeSet<String> {
        self.fleet.agents.iter().map(|agent| agent.ip.clone()).collect()
    }

    async fn answers(&self) -> anyhow::Result<()> {
        let said = self.client.chat(&self.envoy.address, "What is the capital of France?").await?;
        let answer = said.answer().with_context(|| self.told())?;
        ensure!(self.ips().contains(&said.by), "by {}", said.by);
        let content = answer["choices"][0]["message"]["content"].as_str().unwrap_or_default();
        ensure!(!content.is_empty() && answer["model"] == fleet::MODEL, "{answer}");
        let (by, events) = self.client.stream(&self.envoy.address, &fresh()).await?;
        ensure!(events.len() > 2 && events.last().is_some_and(|e| e == "[DONE]"), "by {by}: {events:?}");
        // An agent's refusal comes through as it is.
        let said = self.client.chat(&self.envoy.address, &"far too long ".repeat(9000)).await?;
        ensure!(said.status == 422 && said.text().contains("context_too_long"), "{} {}", said.status, said.text());
        Ok(())
    }

    async fn spread(&self) -> anyhow::Result<()> {
        // What an agent held a moment ago would send all of them to the other.
        self.idle().await?;
        let mut by: BTreeMap<String, u32> = BTreeMap::new();
        // Between idle agents the picker draws. Twelve at once fill a queue, which it sees; the waves leave no room for chance.
        for _wave in 0..3 {
            let mut asked = JoinSet::new();
            for _ in 0..12 {
                let (client, address) = (self.client.clone(), self.envoy.address.clone());
                asked.spawn(async move { client.chat(&address, &fresh()).await });
            }
            while let Some(said) = asked.join_next().await {
                let said = said??;
                said.answer().with_context(|| self.told())?;
                *by.entry(said.by).or_default() += 1;
            }
            if by.len() == AGENTS {
                break;
            }
        }
        ensure!(by.keys().eq(self.ips().iter()), "{by:?}");
        Ok(())
    }

    /// Waits until the picker has read that nobody does anything.
    async fn idle(&self) -> anyhow::Result<()> {
        wait::until("the picker to see idle agents", secs(40), async || {
            let mut figures = Vec::new();
            for figure in ["queue_size", "running_requests", "kv_cache_utilization"] {
                figures.push((figure, self.picker.average(figure).await?));
            }
            ensure!(figures.iter().all(|(_, value)| *value == 0.0), "{figures:?}");
            Ok(())
        })
        .await
    }

    /// Eleven of the picker's blocks and more of an agent's are the same in each question.
    async fn affinity(&self) -> anyhow::Result<()> {
        let beginning = format!("{} {}", fresh(), "The quick brown fox jumps over the lazy dog. ".repeat(16));
        let first = self.client.chat(&self.envoy.address, &format!("{beginning} Question 0")).await?;
        first.answer()?;
        for n in 1..=6 {
            let said = self.client.chat(&self.envoy.address, &format!("{beginning} Question {n}")).await?;
            let usage = &said.answer()?["usage"];
            ensure!(said.by == first.by, "question {n} went to {}, not to {}", said.by, first.by);
            let found = usage["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap_or_default();
            ensure!(found >= 128, "question {n} found {found} tokens computed: {usage}");
        }
        let hits = self.picker.sample("inference_extension_prefix_indexer_hit_bytes_sum", "").await?;
        ensure!(hits >= 6.0 * 640.0, "the picker counts {hits} bytes");
        Ok(())
    }

    /// Waits until the picker knows nothing of a pod.
    async fn left_out(&self, pod: &str) -> anyhow::Result<()> {
        wait::until("the picker to leave it out", secs(20), async || {
            ensure!(!self.picker.knows(pod).await?, "{pod} is still known");
            Ok(())
        })
        .await
    }

    async fn busy(&self) -> anyhow::Result<()> {
        let [busy, other] = &self.fleet.agents[..] else { anyhow::bail!("two agents are wanted") };
        let held = self.client.hold(&busy.address, 4).await?;
        wait::until("the picker to see one that runs and three that wait", secs(40), async || {
            let (queue, running) =
                (self.picker.queue(&busy.pod).await?, self.picker.average("running_requests").await?);
            let cache = self.picker.average("kv_cache_utilization").await?;
            ensure!(queue == 3.0 && running == 0.5 && cache > 0.0, "{queue} wait, {running} run on average, {cache}");
            Ok(())
        })
        .await?;
        for n in 0..8 {
            let said = self.client.chat(&self.envoy.address, &fresh()).await?;
            said.answer().with_context(|| self.told())?;
            ensure!(said.by == other.ip, "question {n} went to {}, which is busy", said.by);
        }
        let queue = self.picker.queue(&busy.pod).await?;
        ensure!(queue >= 1.0, "the busy agent was none any more: {queue} wait");
        drop(held);
        self.idle().await
    }

    async fn read(&mut self) -> anyhow::Result<()> {
        self.picker.lives()?;
        let complaints = self.picker.complaints()?;
        ensure!(complaints.is_empty(), "{}", complaints.join("\n"));
        Ok(())
    }

    /// As a rolling update does: the pod goes, the picker knows, then the process is told to end.
    async fn replaced(&mut self) -> anyhow::Result<()> {
        let load = Load::start(self.client, &self.envoy.address);
        load.answered_by(&self.ips()).await?;
        self.fleet.delete(0).await?;
        let gone = self.fleet.agents.remove(0);
        self.left_out(&gone.pod).await?;
        gone.stop().await?;
        self.fleet.follow(AGENTS).await?;
        load.answered_by(&self.ips()).await?;
        let (answered, failed) = load.end().await?;
        ensure!(failed.is_empty(), "{} of {answered} failed: {failed:?}\n{}", failed.len(), self.told());
        Ok(())
    }

    /// At first nobody has told the API server: what the picker goes by is that the metrics are old.
    async fn dies(&mut self) -> anyhow::Result<()> {
        let dead = self.fleet.agents.remove(0);
        let (pod, ip) = (dead.pod.clone(), dead.ip.clone());
        dead.kill().await?;
        wait::until("its metrics to be old", secs(20), async || {
            let fresh = self.picker.fresh().await?;
            ensure!(fresh == 1.0, "{fresh} pods have fresh metrics");
            Ok(())
        })
        .await?;
        ensure!(self.picker.knows(&pod).await?, "{pod} is no longer ready: nothing is shown");
        for _ in 0..8 {
            let said = self.client.chat(&self.envoy.address, &fresh()).await?;
            said.answer().with_context(|| format!("{ip} is dead\n{}", self.told()))?;
        }
        self.fleet.not_ready(&pod, &ip).await?;
        self.left_out(&pod).await?;
        self.client.chat(&self.envoy.address, &fresh()).await?.answer().map(drop)
    }
}
