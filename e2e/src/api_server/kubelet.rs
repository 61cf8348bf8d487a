//! What a scheduler and kubelets would say of pods: nodes here are records that nobody runs.

use serde_json::{Value, json};

use super::rest::Rest;
use crate::wait::{self, secs};

/// The only node.
const NODE: &str = "n1";

/// Makes the node.
pub(super) async fn node(rest: &Rest) -> anyhow::Result<()> {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE, "labels": {"kubernetes.io/hostname": NODE}}});
    rest.post("/api/v1/nodes", &node).await?;
    // The API server holds a new node for not ready until its kubelet says otherwise.
    rest.patch(&format!("/api/v1/nodes/{NODE}"), &json!({"spec": {"taints": null}})).await.map(drop)
}

/// Waits for `count` pods in a namespace, binds them to the node and says that they are ready.
pub(super) async fn run(rest: &Rest, namespace: &str, count: usize) -> anyhow::Result<Vec<Value>> {
    let all = format!("/api/v1/namespaces/{namespace}/pods");
    let pods = wait::until("the pods", secs(40), async || {
        let list = rest.get(&all).await?;
        let pods = list["items"].as_array().cloned().unwrap_or_default();
        anyhow::ensure!(pods.len() == count, "{} pods, not {count}", pods.len());
        Ok(pods)
    })
    .await?;
    for (at, pod) in pods.iter().enumerate() {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let target = json!({"apiVersion": "v1", "kind": "Node", "name": NODE});
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target});
        rest.post(&format!("{all}/{name}/binding"), &binding).await?;
        // An address of the loopback: whoever asks there is refused at once.
        state(rest, namespace, name, &format!("127.9.0.{}", at + 1), true).await?;
    }
    Ok(pods)
}

/// Says that a pod runs at this address, and whether it is ready.
pub(super) async fn state(rest: &Rest, namespace: &str, name: &str, ip: &str, ready: bool) -> anyhow::Result<()> {
    let now = jiff::Timestamp::from_second(jiff::Timestamp::now().as_second())?.to_string();
    let condition = |kind: &str, holds: bool| {
        let holds = if holds { "True" } else { "False" };
        json!({"type": kind, "status": holds, "lastTransitionTime": now})
    };
    let conditions = [condition("PodScheduled", true), condition("ContainersReady", ready), condition("Ready", ready)];
    let status = json!({"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "conditions": conditions});
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/status");
    rest.patch(&path, &json!({"status": status})).await.map(drop)
}
