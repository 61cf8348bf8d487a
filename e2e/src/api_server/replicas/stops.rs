//! The operator is stopped after its n-th write, for every n: what it leaves, another start takes up and ends where an
//! undisturbed run ends.

use anyhow::{Context, ensure};

use super::super::audit::{Audit, Request};
use super::super::process::{Operator, SYSTEM, Start};
use super::super::rest::Rest;
use super::super::server::{ApiServer, free_ports};
use super::objects::{self, Objects};
use super::proxy::{Fault, Proxy};
use super::{quick_start, quiet};
use crate::Place;
use crate::steps::Steps;
use crate::wait::{self, secs};

/// Children of the quick start, and one status each of its objects: fewer writes make no quick start.
const LEAST: u32 = 17 + 4;

/// One operator behind a proxy, and where an undisturbed run ends.
pub(super) struct Solo<'a> {
    place: &'a Place,
    pub server: &'a ApiServer,
    pub rest: Rest,
    pub audit: Audit,
    pub proxy: Proxy,
    /// Always the same: the Lease then knows the operator that comes back.
    port: u16,
    pub operator: Option<Operator>,
    pub undisturbed: Objects,
    /// Namespaces that were made.
    pub namespaces: Vec<String>,
}

impl<'a> Solo<'a> {
    async fn new(place: &'a Place, server: &'a ApiServer) -> anyhow::Result<Solo<'a>> {
        let rest = server.rest()?;
        let proxy = Proxy::start(rest.target()).await?;
        let [port] = free_ports()?;
        let (audit, namespaces) = (server.audit(), Vec::new());
        let undisturbed = Objects::new();
        Ok(Solo { place, server, rest, audit, proxy, port, operator: None, undisturbed, namespaces })
    }

    /// Starts the operator, as Kubernetes restarts a container: the same name, the same address.
    async fn start(&mut self) -> anyhow::Result<()> {
        let start =
            Start { account: "terrace-operator", name: "solo", through: Some(self.proxy.url()), port: self.port };
        self.operator = Some(Operator::start(self.place, self.server, start).await?);
        Ok(())
    }

    /// Kills it and lets requests through again.
    async fn crash(&mut self) -> anyhow::Result<()> {
        self.operator.take().context("no operator runs")?.kill().await?;
        self.proxy.set(Fault::None);
        Ok(())
    }

    /// The quick start in a new namespace.
    pub async fn quick_start(&mut self, namespace: &str) -> anyhow::Result<()> {
        self.namespaces.push(namespace.to_owned());
        quick_start(self.place, self.server, namespace).await
    }

    /// Waits until a namespace holds what an undisturbed run leaves.
    pub async fn converged(&self, namespace: &str) -> anyhow::Result<()> {
        wait::until("what an undisturbed run leaves", secs(60), async || {
            let have = objects::of(&self.rest, namespace).await?;
            match objects::difference(&self.undisturbed, &have) {
                None => Ok(()),
                Some(difference) => anyhow::bail!("{namespace}: {difference}"),
            }
        })
        .await
        .with_context(|| self.operator.as_ref().map(Operator::tail).unwrap_or_default())
    }

    /// One run that is stopped after its n-th write; whether it had that many.
    async fn stopped_after(&mut self, n: u32) -> anyhow::Result<bool> {
        let namespace = format!("nth-{n:02}");
        // Events are no part of what is compared; the quick start makes none.
        let mark = self.audit.mark()?;
        self.proxy.arm(Fault::Stop(format!("/namespaces/{namespace}/"), n));
        self.quick_start(&namespace).await?;
        let stopped = tokio::select! {
            stopped = self.proxy.stopped() => stopped.map(|()| true)?,
            done = self.converged(&namespace) => done.map(|()| false)?,
        };
        if stopped {
            // The log is written a moment after the answer.
            wait::until("as many writes in the API server's log", secs(5), async || {
                let ours = |r: &Request| r.namespace == namespace && r.code < 300;
                let writes = self.audit.writes(mark)?.into_iter().filter(ours).count();
                ensure!(writes == n as usize, "{writes} writes were carried out, not {n}");
                Ok(())
            })
            .await?;
            self.crash().await?;
            self.start().await?;
            self.converged(&namespace).await.with_context(|| format!("stopped after {n} writes"))?;
        }
        Ok(stopped)
    }
}

/// The operator's first write, then each of a convergence of the quick start.
pub(super) async fn steps<'a>(place: &'a Place, server: &'a ApiServer, steps: &mut Steps) -> Option<Solo<'a>> {
    let mut solo = steps
        .step(
            "stopped after its very first write, the fleet's authority, the operator comes back to it",
            secs(60),
            async {
                let mut solo = Solo::new(place, server).await?;
                first_write(&mut solo).await?;
                Ok(solo)
            },
        )
        .await?;
    steps
        .step("an undisturbed operator makes of the quick start what is compared with", secs(90), async {
            let mark = solo.audit.mark()?;
            solo.quick_start("undisturbed").await?;
            wait::until("every child and every status", secs(60), async || {
                let writes = solo.audit.writes(mark)?.into_iter().filter(|r| r.namespace == "undisturbed").count();
                ensure!(writes >= LEAST as usize, "{writes} writes");
                Ok(())
            })
            .await?;
            quiet(&solo.audit, mark, secs(3)).await?;
            solo.undisturbed = objects::of(&solo.rest, "undisturbed").await?;
            let workloads = ["daemonsets/edge-tier", "deployments/private-tier", "deployments/assistant-router"];
            for key in workloads {
                ensure!(solo.undisturbed.contains_key(key), "no {key}");
            }
            Ok(())
        })
        .await?;
    let last = steps
        .step(
            "stopped after its n-th write, for every n, another start ends where an undisturbed one does",
            secs(240),
            async {
                let mut n = 1;
                while solo.stopped_after(n).await? {
                    n += 1;
                }
                ensure!(n > LEAST, "only {} writes: this was no whole run", n - 1);
                Ok(n - 1)
            },
        )
        .await?;
    steps.note(&format!("the operator was stopped after each of {last} writes"));
    Some(solo)
}

/// Takes the authority away and stops the operator right after it made another.
async fn first_write(solo: &mut Solo<'_>) -> anyhow::Result<()> {
    let secret = format!("/api/v1/namespaces/{SYSTEM}/secrets/terrace-authority");
    solo.rest.patch(&secret, &serde_json::json!({"data": null})).await?;
    solo.proxy.arm(Fault::Stop(secret.clone(), 1));
    solo.start().await?;
    solo.proxy.stopped().await?;
    let made = solo.rest.get(&secret).await?["data"].clone();
    ensure!(made["ca.crt"].is_string() && made["ca.key"].is_string(), "the authority was not made");
    solo.crash().await?;
    solo.start().await?;
    solo.operator.as_ref().context("no operator")?.ready().await?;
    ensure!(solo.rest.get(&secret).await?["data"] == made, "it made another authority");
    // An older operator of this suite may have left other certificates behind; they are renewed before anything is compared.
    quiet(&solo.audit, 0, secs(2)).await
}
