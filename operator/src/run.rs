//! Start, wiring, end. The admin port is there from the first moment and says what is missing; everything else
//! follows as soon as the API server lets it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::Api;
use kube::runtime::events::{Recorder, Reporter};
use kube::{Client, Config, ResourceExt};
use terrace_telemetry::admin;
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::agents::Agents;
use crate::apply::{Applier, MANAGER};
use crate::context::Context;
use crate::lease::{Elector, Leadership};
use crate::metrics::Metrics;
use crate::pki::{self, Pki};
use crate::report::{Fold, Reports};
use crate::settings::Settings;
use crate::snapshot::{Hub, Publisher};
use crate::triggers::Triggers;
use crate::watch::Health;
use crate::world::World;
use crate::{controller, report, snapshot, wiring};

/// How long open streams and requests may go on at the end.
const GRACE: Duration = Duration::from_secs(5);
/// How often what routers reported is folded into status.
const STATUS_PERIOD: Duration = Duration::from_secs(10);
/// Between tries while the API server does not let the operator begin.
const RETRY: Duration = Duration::from_secs(2);

/// An API server that says nothing for this long on a connection is not there.
const SILENCE: Duration = Duration::from_secs(90);

/// Runs the operator until `stop`.
///
/// # Errors
/// What cannot heal by itself: an address in use, no way to any API server.
pub async fn run(settings: Settings, stop: CancellationToken) -> anyhow::Result<()> {
    let admin_listener = admin::bind("--admin-listen", settings.admin_listen).await?;
    let fleet_listener = admin::bind("--fleet-listen", settings.fleet_listen).await?;
    let (fleet, admin_address) = (fleet_listener.local_addr()?, admin_listener.local_addr()?);
    tracing::info!(listen = %fleet, admin = %admin_address, "terrace-operator");
    if let Some(path) = &settings.port_file {
        let addresses = serde_json::json!({"listen": fleet.to_string(), "admin": admin_address.to_string()});
        terrace_telemetry::ports::write(path, &addresses)?;
    }

    let registry = terrace_telemetry::Metrics::new();
    let ready = terrace_telemetry::Health::new();
    let watches = Health::default();
    let began = ready.gate("start", "the fleet's authority is not loaded yet");
    let seen = watches.clone();
    ready.readiness("watches", move || seen.not_ready().map_or(Ok(()), Err));
    let end = CancellationToken::new();
    let admin = tokio::spawn(admin::serve(admin_listener, admin::router(ready, registry.clone()), end.clone()));

    let mut config = Config::infer().await?;
    // A connection that went silent, for example behind a router that forgot it, is given up. Watches say something
    // more often than this (`watch::LASTS`).
    config.read_timeout = Some(SILENCE);
    config.reset_reader_on_write = true;
    let client = Client::try_from(config)?;
    let begun = tokio::select! {
        () = stop.cancelled() => None,
        pki = begin(&client, &settings, &began) => Some(pki),
    };
    if let Some(pki) = begun {
        began.open();
        let metrics = Metrics::new(&registry);
        work(settings, client, Arc::new(pki), metrics, watches, fleet_listener, fleet, stop).await;
    }
    end.cancel();
    let _ = admin.await;
    Ok(())
}

/// Loads the fleet's trust, for as long as it takes; says once what is in the way.
async fn begin(client: &Client, settings: &Settings, gate: &terrace_telemetry::Gate) -> Pki {
    let mut said = String::new();
    loop {
        let tried = async {
            let namespaces: Api<Namespace> = Api::all(client.clone());
            let system = namespaces.get("kube-system").await.map_err(pki::Error::Cluster)?;
            pki::ensure(client.clone(), &settings.namespace, &system.uid().unwrap_or_default()).await
        };
        match tried.await {
            Ok(pki) => return pki,
            Err(error) => {
                let error = error.to_string();
                if said != error {
                    tracing::warn!(%error, "cannot begin; trying again");
                    gate.close(error.clone());
                    said = error;
                }
            }
        }
        tokio::time::sleep(RETRY).await;
    }
}

#[expect(clippy::too_many_arguments, reason = "what was made in `run` is used up here, once")]
async fn work(
    settings: Settings,
    client: Client,
    pki: Arc<Pki>,
    metrics: Metrics,
    watches: Health,
    listener: TcpListener,
    fleet: SocketAddr,
    stop: CancellationToken,
) {
    let site = settings.site();
    let changed = Arc::new(Notify::new());
    let (triggers, queues) = Triggers::new();
    let world = wiring::watch_all(&client, &watches, &triggers, &changed, &stop);
    let address = SocketAddr::new(settings.pod_ip.unwrap_or(fleet.ip()), fleet.port()).to_string();
    let (elector, lease) = Elector::new(client.clone(), &settings.namespace, &settings.pod_name, &address);
    let hub = Arc::new(Hub::default());
    let reports = Arc::new(Mutex::new(Fold::default()));
    let agents = Agents::default();
    let context = Arc::new(Context {
        applier: Applier::new(client.clone(), world.live.clone()),
        events: Recorder::new(
            client.clone(),
            Reporter { controller: MANAGER.into(), instance: Some(settings.pod_name.clone()) },
        ),
        client,
        world: world.clone(),
        site: site.clone(),
        pki: pki.clone(),
        reports: reports.clone(),
        agents: agents.clone(),
        lease: lease.clone(),
        metrics: metrics.clone(),
        failures: Mutex::default(),
    });

    let mut tasks = JoinSet::new();
    for (kind, queue) in queues {
        tasks.spawn(controller::run(kind, context.clone(), queue, stop.clone()));
    }
    tasks.spawn(once_in_step(watches.clone(), stop.clone(), elector.run(stop.clone())));
    let follower = Follower { metrics, triggers: triggers.clone(), world: world.clone(), reports: reports.clone() };
    tasks.spawn(follower.run(lease.clone(), stop.clone()));
    let publisher = Publisher { world: world.clone(), pki: pki.clone(), hub: hub.clone(), site };
    tasks.spawn(once_in_step(watches, stop.clone(), publisher.run(changed.clone(), stop.clone())));
    tasks.spawn(tick(reports.clone(), world.clone(), triggers.clone(), lease.clone(), stop.clone()));
    tasks.spawn(ask_agents(agents, pki.clone(), world.clone(), triggers.clone(), lease.clone(), stop.clone()));
    {
        let (pki, stop) = (pki.clone(), stop.clone());
        tasks.spawn(async move { pki.keep_own(stop).await });
    }
    let app = snapshot::routes(hub, stop.clone())
        .merge(report::routes(Arc::new(intake(reports, lease, &pki, &world, &triggers))));
    tasks.spawn(terrace_identity::serve(listener, pki.identities(), app, stop.clone(), GRACE));
    while tasks.join_next().await.is_some() {}
}

/// Where reports come in. A router's first report, and one with another revision, is worth a look at once.
fn intake(
    fold: Arc<Mutex<Fold>>,
    lease: watch::Receiver<Leadership>,
    pki: &Pki,
    world: &Arc<World>,
    triggers: &Triggers,
) -> Reports {
    let (known, told, triggers) = (world.clone(), world.clone(), triggers.clone());
    let policy_of = move |uid: &str| {
        let policy = known.policies.all().into_iter().find(|p| p.metadata.uid.as_deref() == Some(uid))?;
        Some((policy.namespace().unwrap_or_default(), policy.name_any()))
    };
    let news = move |namespace: &str, name: &str| triggers.policy(&told, namespace, name);
    Reports {
        fold,
        lease,
        identities: pki.identities(),
        policy_of: Box::new(policy_of),
        news: Box::new(news),
        holder: tokio::sync::Mutex::default(),
    }
}

/// A task that begins once every watch has been in step: nothing is written, and no router is told anything, from a
/// part of the cluster.
async fn once_in_step(watches: Health, stop: CancellationToken, task: impl Future<Output = ()>) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = watches.in_step() => task.await,
    }
}

/// A replica that begins to write takes reports in anew and looks at everything.
struct Follower {
    metrics: Metrics,
    triggers: Triggers,
    world: Arc<World>,
    reports: Arc<Mutex<Fold>>,
}

impl Follower {
    async fn run(self, mut lease: watch::Receiver<Leadership>, stop: CancellationToken) {
        let mut mine = false;
        loop {
            let now = lease.borrow_and_update().mine;
            if now != std::mem::replace(&mut mine, now) {
                self.metrics.leads(now);
                if now {
                    *self.reports.lock().unwrap_or_else(PoisonError::into_inner) =
                        Fold::beginning(terrace_telemetry::time::now_us());
                    self.triggers.everything(&self.world);
                }
            }
            tokio::select! {
                () = stop.cancelled() => return,
                changed = lease.changed() => if changed.is_err() { return },
            }
        }
    }
}

/// Folds what was reported into status, and notices silence.
async fn tick(
    reports: Arc<Mutex<Fold>>,
    world: Arc<World>,
    triggers: Triggers,
    lease: watch::Receiver<Leadership>,
    stop: CancellationToken,
) {
    let mut early = true;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(STATUS_PERIOD) => {}
        }
        let policies = world.policies.all();
        let reported = {
            let mut fold = reports.lock().unwrap_or_else(PoisonError::into_inner);
            if !lease.borrow().mine {
                // Whoever writes next folds for itself; what is kept here would only grow old.
                *fold = Fold::default();
                early = true;
                continue;
            }
            if std::mem::replace(&mut early, fold.early(terrace_telemetry::time::now_us())) && !early {
                // What the last holder heard stood until now, also of those that have fallen silent.
                triggers.everything(&world);
            }
            fold.retain(|uid| policies.iter().any(|p| p.metadata.uid.as_deref() == Some(uid)));
            fold.policies()
        };
        for policy in policies.iter().filter(|p| p.uid().is_some_and(|uid| reported.contains(&uid))) {
            triggers.policy(&world, &policy.namespace().unwrap_or_default(), &policy.name_any());
        }
    }
}

async fn ask_agents(
    agents: Agents,
    pki: Arc<Pki>,
    world: Arc<World>,
    triggers: Triggers,
    lease: watch::Receiver<Leadership>,
    stop: CancellationToken,
) {
    let pods = || world.pods.state();
    let leads = || lease.borrow().mine;
    let news = |pod: &k8s_openapi::api::core::v1::Pod| triggers.pod(pod);
    agents.run(pki.identities(), pods, leads, news, stop).await;
}
