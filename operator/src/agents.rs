//! What running agents say of themselves: digest, format, device. Asked by the replica that writes, soon after a pod
//! becomes ready and once a minute after that.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::StreamExt;
use http_body_util::{BodyExt, Limited};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use terrace_contract::check_version;
use terrace_contract::names::AGENT_PORT;
use terrace_contract::status::AgentStatus;
use terrace_identity::{Caller, Identities, Identity};
use tokio_util::sync::CancellationToken;

use crate::labels;
use crate::snapshot::ready;

const PATH: &str = "/terrace/status";
/// How often it is looked whom to ask.
const PERIOD: Duration = Duration::from_secs(2);
/// How long an answer is good for.
const FRESH: Duration = Duration::from_secs(60);
/// How long one answer may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Agents asked at once.
const AT_ONCE: usize = 16;
/// A status is a few hundred bytes.
const LIMIT: usize = 64 << 10;

/// Answers by pod UID, with when they were asked for.
#[derive(Debug, Clone, Default)]
pub struct Agents(Arc<Mutex<HashMap<String, (Instant, Option<AgentStatus>)>>>);

impl Agents {
    /// What these pods said, of those that are ready.
    pub fn of(&self, pods: &[Arc<Pod>]) -> Vec<AgentStatus> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pods.iter()
            .filter(|pod| ready(pod))
            .filter_map(|pod| known.get(pod.metadata.uid.as_deref()?)?.1.clone())
            .collect()
    }

    /// Asks until `stop`, while `leads`; `news` is called with a pod whose model or device is not what it was.
    pub async fn run(
        self,
        identities: Identities,
        pods: impl Fn() -> Vec<Arc<Pod>>,
        leads: impl Fn() -> bool,
        news: impl Fn(&Pod),
        stop: CancellationToken,
    ) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(PERIOD) => {}
            }
            if !leads() {
                continue;
            }
            let all = pods();
            self.forget(&all);
            let due: Vec<Arc<Pod>> = all.into_iter().filter(|pod| self.due(pod)).collect();
            let answers = futures::stream::iter(due).map(|pod| {
                let identities = identities.clone();
                async move {
                    let answer = tokio::time::timeout(TIMEOUT, ask(&pod, identities)).await.unwrap_or(None);
                    (pod, answer)
                }
            });
            let mut answers = std::pin::pin!(answers.buffer_unordered(AT_ONCE));
            while let Some((pod, answer)) = answers.next().await {
                if self.keep(&pod, answer) {
                    news(&pod);
                }
            }
        }
    }

    fn due(&self, pod: &Pod) -> bool {
        let Some(uid) = pod.metadata.uid.as_deref() else { return false };
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pod.labels().contains_key(labels::TIER)
            && ready(pod)
            && known
                .get(uid)
                .is_none_or(|(asked, answer)| asked.elapsed() > if answer.is_some() { FRESH } else { TIMEOUT })
    }

    /// Keeps an answer; whether it says something new.
    fn keep(&self, pod: &Pod, answer: Option<AgentStatus>) -> bool {
        let Some(uid) = pod.uid() else { return false };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known.get(&uid).and_then(|(_, answer)| answer.clone());
        let facts = |a: &AgentStatus| (a.model.clone(), a.device.clone());
        let new = answer.is_some() && answer.as_ref().map(facts) != before.as_ref().map(facts);
        known.insert(uid, (Instant::now(), answer.or(before)));
        new
    }

    fn forget(&self, pods: &[Arc<Pod>]) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|uid, _| pods.iter().any(|pod| pod.metadata.uid.as_deref() == Some(uid)));
    }
}

async fn ask(pod: &Pod, identities: Identities) -> Option<AgentStatus> {
    let address = pod.status.as_ref()?.pod_ip.clone()?;
    let host =
        if address.contains(':') { format!("[{address}]:{AGENT_PORT}") } else { format!("{address}:{AGENT_PORT}") };
    let tier = pod.labels().get(labels::TIER)?;
    let cluster = identities.identity().cluster().to_owned();
    let expected = Identity::tier(&cluster, &pod.namespace()?, tier);
    let answer = match Caller::new(host, expected, identities).get(PATH).await {
        Ok(answer) if answer.status().is_success() => answer,
        Ok(answer) => {
            tracing::debug!(pod = %pod.name_any(), status = %answer.status(), "an agent does not say its status");
            return None;
        }
        Err(error) => {
            tracing::debug!(pod = %pod.name_any(), %error, "an agent cannot be asked for its status");
            return None;
        }
    };
    let body = Limited::new(answer.into_body(), LIMIT).collect().await.ok()?.to_bytes();
    let status: AgentStatus = serde_json::from_slice(&body).ok()?;
    check_version(status.schema_version).ok().map(|()| status)
}
