//! Faults of a running fleet, and how each is healed.

use serde_json::json;

use super::install::chart;
use super::{OUTSIDE, SHOP, SYSTEM, Scene};
use crate::conditions::condition;
use crate::wait::{self, secs};

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    /// A router's pod is deleted.
    RouterKilled,
    /// An agent's pod is deleted.
    AgentKilled,
    /// n2 is cut off until it is NotReady.
    NodeCut,
    /// The endpoint answers 429.
    Endpoint429,
    /// The endpoint answers 500.
    Endpoint500,
    /// The endpoint takes requests and never answers.
    EndpointStalls,
    /// The endpoint begins streams and cuts them.
    EndpointCuts,
    /// The operator's pod is deleted.
    OperatorRestarted,
    /// Helm changes a value of the operator's chart.
    HelmUpgrade,
}

impl Fault {
    /// All of them.
    pub(super) const ALL: [Fault; 9] = [
        Fault::RouterKilled,
        Fault::AgentKilled,
        Fault::NodeCut,
        Fault::Endpoint429,
        Fault::Endpoint500,
        Fault::EndpointStalls,
        Fault::EndpointCuts,
        Fault::OperatorRestarted,
        Fault::HelmUpgrade,
    ];

    /// The fault of a minute: each comes once in nine minutes, in an order that the seed decides.
    pub(super) fn of(minute: u64, seed: u64) -> Fault {
        let count = Self::ALL.len();
        let (round, at) = (minute / count as u64, (minute % count as u64) as usize);
        let mut order = Self::ALL;
        let mut dice = Dice(seed ^ round.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        for last in (1..count).rev() {
            order.swap(last, dice.below(last + 1));
        }
        order[at]
    }

    /// Its name in steps and figures.
    pub(super) fn name(self) -> &'static str {
        match self {
            Fault::RouterKilled => "a router killed",
            Fault::AgentKilled => "an agent killed",
            Fault::NodeCut => "a node cut off",
            Fault::Endpoint429 => "the endpoint answers 429",
            Fault::Endpoint500 => "the endpoint answers 500",
            Fault::EndpointStalls => "the endpoint stalls",
            Fault::EndpointCuts => "the endpoint cuts",
            Fault::OperatorRestarted => "the operator restarted",
            Fault::HelmUpgrade => "helm upgrades the operator",
        }
    }

    /// Makes it, and keeps it until half a minute is over where it is a state and no event.
    pub(super) async fn make(self, scene: &Scene<'_>, dice: &mut Dice) -> anyhow::Result<()> {
        match self {
            Fault::RouterKilled => kill(scene, SHOP, "terrace.dev/policy=assistant", dice).await,
            Fault::AgentKilled => {
                let tier = if dice.below(2) == 0 { "edge" } else { "private" };
                kill(scene, SHOP, &format!("terrace.dev/tier={tier}"), dice).await
            }
            Fault::OperatorRestarted => kill(scene, SYSTEM, "app.kubernetes.io/name=terrace-operator", dice).await,
            Fault::NodeCut => {
                scene.machine.run(&["ip", "link", "set", "v2", "down"], secs(5)).await?;
                node(scene, "Unknown").await
            }
            Fault::HelmUpgrade => {
                let level = format!("logLevel={}", if dice.below(2) == 0 { "debug" } else { "info" });
                chart(scene, "upgrade", &["--set", &level]).await.map(drop)
            }
            Fault::Endpoint429 => endpoint(scene, &json!({"status": 429})).await,
            Fault::Endpoint500 => endpoint(scene, &json!({"status": 500})).await,
            Fault::EndpointStalls => endpoint(scene, &json!({"mode": "stall"})).await,
            Fault::EndpointCuts => endpoint(scene, &json!({"mode": "cut"})).await,
        }
    }

    /// Whether it is a state that lasts until it is healed.
    pub(super) fn lasts(self) -> bool {
        matches!(
            self,
            Fault::NodeCut | Fault::Endpoint429 | Fault::Endpoint500 | Fault::EndpointStalls | Fault::EndpointCuts
        )
    }

    /// Ends it, and waits until the fleet is whole again.
    pub(super) async fn heal(self, scene: &Scene<'_>) -> anyhow::Result<()> {
        let machine = &scene.machine;
        match self {
            Fault::NodeCut => {
                machine.run(&["ip", "link", "set", "v2", "up"], secs(5)).await?;
                node(scene, "True").await?;
            }
            Fault::Endpoint429 | Fault::Endpoint500 | Fault::EndpointStalls | Fault::EndpointCuts => {
                endpoint(scene, &json!({})).await?;
            }
            // Pods of both versions are there until it is through.
            Fault::HelmUpgrade => {
                let of = ["kubectl", "--namespace", SYSTEM, "rollout", "status", "deployment/terrace-operator"];
                machine.run(&of, secs(180)).await?;
            }
            _ => {}
        }
        for tier in ["tier/edge", "tier/private"] {
            machine.condition(SHOP, tier, "Ready", secs(90)).await?;
        }
        machine.condition(SHOP, "routingpolicy/assistant", "Ready", secs(60)).await
    }
}

/// Numbers that a seed decides: SplitMix64, which is enough to choose.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    /// A number below `most`, which is not 0.
    pub(super) fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % most as u64) as usize
    }
}

/// Deletes one pod of a selector and waits until as many as before are Ready.
async fn kill(scene: &Scene<'_>, namespace: &str, selector: &str, dice: &mut Dice) -> anyhow::Result<()> {
    let machine = &scene.machine;
    let words = ["--namespace", namespace, "pods", "--selector", selector];
    let list = machine.get(&words).await?;
    let names: Vec<&str> =
        list["items"].as_array().into_iter().flatten().filter_map(|pod| pod["metadata"]["name"].as_str()).collect();
    anyhow::ensure!(!names.is_empty(), "no pod in {namespace} has {selector}");
    let chosen = names[dice.below(names.len())];
    machine.kubectl(&["--namespace", namespace, "delete", "pod", chosen, "--wait=false"]).await?;
    let (chosen, count) = (chosen.to_owned(), names.len());
    let what = format!("{count} Ready pods of {selector} without {chosen}");
    machine
        .until(&what, &words, secs(90), |list| {
            let items = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
            let ready = |pod: &&serde_json::Value| condition(pod, "Ready").is_some_and(|c| c["status"] == "True");
            let others = items.iter().filter(|pod| pod["metadata"]["name"] != chosen.as_str());
            others.filter(ready).count() >= count
        })
        .await
        .map(drop)
}

/// Tells the endpoint how to answer.
async fn endpoint(scene: &Scene<'_>, script: &serde_json::Value) -> anyhow::Result<()> {
    let url = format!("http://{}:9090/script", scene.machine.address(OUTSIDE, "cloud").await?);
    let body = script.to_string();
    let words = ["--request", "PUT", "--header", "content-type: application/json", "--data", &body, &url];
    wait::until("the endpoint to take its script", secs(30), async || scene.machine.http(&words).await).await.map(drop)
}

/// Waits until n2's condition Ready has this status.
pub(super) async fn node(scene: &Scene<'_>, ready: &str) -> anyhow::Result<()> {
    wait::until(&format!("n2 with Ready={ready}"), secs(60), async || {
        let node = scene.machine.get(&["node", "n2"]).await?;
        let now = condition(&node, "Ready").map(|c| &c["status"]);
        anyhow::ensure!(now.is_some_and(|s| s == ready), "Ready is {now:?}");
        Ok(())
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_comes_once_in_nine_minutes_and_a_seed_decides_the_order() {
        for (seed, round) in [(1, 0), (1, 3), (7, 0)] {
            let mut nine: Vec<Fault> = (0..9).map(|minute| Fault::of(round * 9 + minute, seed)).collect();
            assert_eq!(nine, (0..9).map(|minute| Fault::of(round * 9 + minute, seed)).collect::<Vec<_>>());
            nine.sort_unstable();
            assert_eq!(nine, Fault::ALL);
        }
        let order = |seed| (0..18).map(|minute| Fault::of(minute, seed)).collect::<Vec<_>>();
        assert_ne!(order(1), order(2));
    }
}
