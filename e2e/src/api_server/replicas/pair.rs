//! Two replicas of the operator with one Lease, each with its own proxy and its own token of the chart's account.

use anyhow::{Context, ensure};

use super::super::audit::Audit;
use super::super::process::{Operator, SYSTEM, Start};
use super::super::rest::Rest;
use super::super::server::{ApiServer, free_ports};
use super::proxy::Proxy;
use super::{handover, ownership, stream, writes};
use crate::Place;
use crate::steps::Steps;
use crate::wait::{self, secs};

/// Both replicas.
pub(super) struct Pair<'a> {
    pub place: &'a Place,
    pub server: &'a ApiServer,
    pub rest: Rest,
    pub audit: Audit,
    replicas: [Replica; 2],
}

/// One replica, running or not.
struct Replica {
    name: &'static str,
    proxy: Proxy,
    /// Always the same: it comes back as a container that is restarted in its pod.
    port: u16,
    operator: Option<Operator>,
}

/// All that is to be shown of two replicas.
pub(in super::super) async fn steps(place: &Place, server: &ApiServer, steps: &mut Steps) -> Option<()> {
    let mut pair = steps
        .step("two replicas become ready, and one of them holds the lease", secs(90), Pair::start(place, server))
        .await?;
    writes::one_writes(&mut pair, steps).await?;
    stream::steps(&mut pair, steps).await;
    writes::second_pass(&mut pair, steps).await;
    ownership::steps(&mut pair, steps).await;
    handover::steps(&mut pair, steps).await;
    steps.step("both end with 0 on SIGTERM", secs(40), pair.end()).await
}

impl<'a> Pair<'a> {
    async fn start(place: &'a Place, server: &'a ApiServer) -> anyhow::Result<Pair<'a>> {
        let rest = server.rest()?;
        let [first, second] = free_ports()?;
        let replica = async |name, port| {
            anyhow::Ok(Replica { name, proxy: Proxy::start(rest.target()).await?, port, operator: None })
        };
        let replicas = [replica("replica-a", first).await?, replica("replica-b", second).await?];
        let mut pair = Pair { place, server, audit: server.audit(), replicas, rest };
        for at in 0..2 {
            pair.run(at).await?;
        }
        for at in 0..2 {
            pair.operator(at)?.ready().await?;
        }
        pair.settled().await?;
        Ok(pair)
    }

    /// Starts one that does not run.
    pub async fn run(&mut self, at: usize) -> anyhow::Result<()> {
        let Replica { name, proxy, port, .. } = &self.replicas[at];
        let start = Start { account: "terrace-operator", name, through: Some(proxy.url()), port: *port };
        self.replicas[at].operator = Some(Operator::start(self.place, self.server, start).await?);
        Ok(())
    }

    /// One that runs.
    pub fn operator(&self, at: usize) -> anyhow::Result<&Operator> {
        self.replicas[at].operator.as_ref().with_context(|| format!("{} does not run", self.replicas[at].name))
    }

    /// What is between it and the API server.
    pub fn proxy(&self, at: usize) -> &Proxy {
        &self.replicas[at].proxy
    }

    /// Takes one out, to end it.
    pub fn take(&mut self, at: usize) -> anyhow::Result<Operator> {
        self.replicas[at].operator.take().with_context(|| format!("{} does not run", self.replicas[at].name))
    }

    /// Whether one says that it writes.
    pub async fn leads(&self, at: usize) -> anyhow::Result<bool> {
        Ok(self.operator(at)?.metric("terrace_leader", "").await? == 1)
    }

    /// Waits until one of two that run holds the lease, and says so itself, and the other does not; which one.
    pub async fn settled(&self) -> anyhow::Result<usize> {
        wait::until("one replica that writes", secs(30), async || {
            let holder = self.holder().await?;
            let leads = [self.leads(0).await?, self.leads(1).await?];
            ensure!(
                leads[holder] && !leads[1 - holder],
                "the lease is {}'s, they say {leads:?}",
                self.replicas[holder].name
            );
            Ok(holder)
        })
        .await
    }

    /// Who holds the lease, as its record says.
    pub async fn holder(&self) -> anyhow::Result<usize> {
        let lease = self.lease().await?;
        let identity = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
        let named = |r: &Replica| identity.starts_with(&format!("{}@", r.name));
        self.replicas.iter().position(named).with_context(|| format!("the lease is {identity:?}'s"))
    }

    /// The Lease.
    pub async fn lease(&self) -> anyhow::Result<serde_json::Value> {
        self.rest.get(&format!("/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/terrace-operator")).await
    }

    async fn end(mut self) -> anyhow::Result<()> {
        for at in 0..2 {
            self.take(at)?.stop().await?;
        }
        Ok(())
    }
}
