//! Puts a router together and takes it down again.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use arc_swap::ArcSwap;
use serde::Serialize;
use terrace_identity::net::{Listen, Network};
use terrace_identity::{Identities, IdentityStore};
use terrace_telemetry::admin::BindError;
use terrace_telemetry::{Health, Metrics, Spans, admin, ports};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::app::App;
use crate::args::Args;
use crate::decisions::Decisions;
use crate::dispatch::connect::Connector;
use crate::dispatch::credentials::Credentials;
use crate::egress;
use crate::egress::Egress;
use crate::fleet::accept::Wanted;
use crate::fleet::source::{self, Receiver, Stream};
use crate::fleet::{Fleet, dns, poll};
use crate::ledger::Ledger;
use crate::ledger::poster::Poster;
use crate::ledger::spend::Spend;
use crate::metrics::RouterMetrics;
use crate::outside::Outside;
use crate::sense::chain::Chains;
use crate::sense::session::Sessions;
use crate::sense::token::Tokens;
use crate::server;
use crate::server::keys::{self, Keys};
use crate::server::tls;

/// How often gauges are written and connections of gone tiers are dropped.
const HOUSEKEEPING: Duration = Duration::from_secs(1);
/// How often a router that is not ready yet is looked at by who waits for that.
const LOOK: Duration = Duration::from_millis(10);
/// How long a probe that is being answered may still take at the very end.
const PROBES_GRACE: Duration = Duration::from_secs(1);

/// Where a router listens.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Addresses {
    /// For clients.
    pub listen: SocketAddr,
    /// For probes and metrics.
    pub admin: SocketAddr,
}

/// A router that runs.
pub struct Running {
    /// Where it listens.
    pub addresses: Addresses,
    /// Its metrics, as text: what the admin port shows.
    pub metrics: Metrics,
    /// What its requests share: what is in flight, what became of them.
    pub app: Arc<App>,
    health: Health,
    shutdown: CancellationToken,
    clients: JoinHandle<()>,
    admin: JoinHandle<()>,
    background: TaskTracker,
    /// Ends the background once the last request has: snapshots are followed and reports sent until then.
    stop: CancellationToken,
    end: CancellationToken,
}

impl Running {
    /// Writes where it listens to `file` as soon as requests are answered: whoever waits for the file may ask at once. Not
    /// at all if it is told to stop before.
    ///
    /// # Errors
    /// The file cannot be written.
    pub async fn announce(&self, file: &Path) -> anyhow::Result<()> {
        while self.health.not_ready().is_some() {
            tokio::select! {
                () = self.shutdown.cancelled() => return Ok(()),
                () = tokio::time::sleep(LOOK) => {}
            }
        }
        ports::write(file, &self.addresses)
            .with_context(|| format!("cannot write the port file {} (--port-file)", file.display()))
    }

    /// Waits until it was told to stop and requests in flight have ended.
    pub async fn ended(self) {
        // A panic in a server is logged by the runtime; there is nothing left to do about it here.
        let _ = self.clients.await;
        self.stop.cancel();
        self.background.close();
        self.background.wait().await;
        self.end.cancel();
        let _ = self.admin.await;
    }
}

/// Starts a router. It stops when `shutdown` is cancelled. Its traces go to `spans`.
///
/// # Errors
/// A sentence that names what cannot be used: a port, a certificate, a folder.
pub async fn start(args: Args, shutdown: CancellationToken, spans: Option<Spans>) -> anyhow::Result<Running> {
    start_in(Outside::default(), args, shutdown, spans).await
}

/// The same with sockets, time and randomness of the caller's choice.
///
/// # Errors
/// As [`start`].
pub async fn start_in(
    outside: Outside,
    args: Args,
    shutdown: CancellationToken,
    spans: Option<Spans>,
) -> anyhow::Result<Running> {
    let clients = bind(&outside, "--listen", args.listen).await?;
    let admin_listener = bind(&outside, "--admin-listen", args.admin_listen).await?;
    let addresses = Addresses { listen: clients.local_addr()?, admin: admin_listener.local_addr()? };
    let store = IdentityStore::load(&args.identity_dir)?;
    let identities = store.identities();
    let Outside { clock, network, .. } = outside.clone();
    let metrics = Metrics::new();
    let router_metrics = Arc::new(RouterMetrics::register(&metrics));
    let app = Arc::new(app(&args, &identities, &outside, &router_metrics, spans).await?);

    let (background, stop) = (TaskTracker::new(), CancellationToken::new());
    background.spawn(store.follow(stop.clone()));
    background.spawn(poll::run(Arc::clone(&app.fleet), Arc::clone(&app.connector), clock, stop.clone()));
    background.spawn(dns::run(Arc::clone(&app.fleet), Arc::clone(&network), stop.clone()));
    background.spawn(keys::follow(args.api_keys_dir.clone(), Arc::clone(&app.keys), stop.clone()));
    background.spawn(housekeeping(Arc::clone(&app), identities.clone(), args.identity_dir.clone(), stop.clone()));
    follow_snapshots(&args, &app, &identities, &network, &background, &stop);

    let health = health(&app, &identities, &shutdown);
    let end = CancellationToken::new();
    let probes = admin::router(health.clone(), metrics.clone());
    let admin = tokio::spawn(terrace_identity::serve_plain(admin_listener, probes, end.clone(), PROBES_GRACE));
    let grace = Duration::from_secs(args.drain_timeout);
    let routes = server::routes(Arc::clone(&app));
    let clients = match &args.tls_dir {
        None => tokio::spawn(terrace_identity::serve_plain(clients, routes, shutdown.clone(), grace)),
        Some(dir) => {
            let certificate = Arc::new(ArcSwap::from_pointee(tls::read(dir)?));
            let metrics = Arc::clone(&app.metrics);
            background.spawn(tls::follow(dir.clone(), Arc::clone(&certificate), metrics, stop.clone()));
            let newest = move || Arc::clone(&certificate.load().config);
            tokio::spawn(terrace_identity::serve_tls(clients, newest, routes, shutdown.clone(), grace))
        }
    };
    tracing::info!(
        listen = %addresses.listen, admin = %addresses.admin, policy = %args.policy, namespace = %args.namespace,
        "the router is listening"
    );
    Ok(Running { addresses, metrics, app, health, shutdown, clients, admin, background, stop, end })
}

async fn bind(outside: &Outside, flag: &'static str, address: SocketAddr) -> Result<Box<dyn Listen>, BindError> {
    outside.network.listen(address).await.map_err(|source| BindError { flag, address, source })
}

async fn app(
    args: &Args,
    identities: &Identities,
    outside: &Outside,
    metrics: &Arc<RouterMetrics>,
    spans: Option<Spans>,
) -> anyhow::Result<App> {
    let Outside { network, clock, random } = outside.clone();
    let credentials = Arc::new(Credentials::new(&args.credentials_dir));
    let denied = own_addresses(args, &*network).await;
    let mut secret = [0u8; 32];
    random.fill(&mut secret)?;
    let egress = match &args.state_dir {
        None => Egress::default(),
        Some(dir) => egress::open(dir, &random)?,
    };
    Ok(App {
        clock,
        random,
        fleet: Arc::new(Fleet::new(&args.node_name, Arc::clone(&credentials))),
        connector: Arc::new(Connector::new(
            network,
            identities.clone(),
            Arc::clone(&credentials),
            args.allow_loopback,
            denied,
        )),
        credentials,
        keys: Arc::new(ArcSwap::from_pointee(Keys::read(&args.api_keys_dir).map(|(keys, _)| keys).unwrap_or_default())),
        rates: server::rate::Rates::default(),
        concurrency: server::rate::Concurrency::default(),
        arrivals: server::rate::Arrivals::default(),
        spans,
        ledger: Arc::new(Ledger::default()),
        metrics: Arc::clone(metrics),
        spend: Spend::open(&args.pod_uid, args.state_dir.as_deref(), clock.now_us()),
        egress,
        sessions: Sessions::new(&secret),
        chains: Chains::default(),
        tokens: Tokens::new(&common_secret(&args.identity_dir)?),
        retries: Mutex::default(),
        outputs: Mutex::default(),
        decisions: Decisions::new(args.decisions),
        prefix_secret: foldhash::quality::RandomState::default(),
    })
}

/// Addresses that no endpoint may have: the API server's and this policy's own Service's.
async fn own_addresses(args: &Args, network: &dyn Network) -> Vec<IpAddr> {
    let api_server = std::env::var("KUBERNETES_SERVICE_HOST").ok().and_then(|host| host.parse().ok());
    let mut own: Vec<IpAddr> = api_server.into_iter().collect();
    if args.operator.is_some() {
        // Outside a cluster there is no such name, and nothing to deny.
        let service = format!("{}.{}.svc", args.policy, args.namespace);
        if let Ok(found) = network.resolve(&service, 80).await {
            own.extend(found.iter().map(|address| address.ip()));
        }
    }
    own
}

fn follow_snapshots(
    args: &Args,
    app: &Arc<App>,
    identities: &Identities,
    network: &Arc<dyn Network>,
    background: &TaskTracker,
    shutdown: &CancellationToken,
) {
    let wanted = Wanted { namespace: args.namespace.clone(), name: args.policy.clone() };
    let (fleet, metrics) = (Arc::clone(&app.fleet), Arc::clone(&app.metrics));
    let receiver = Arc::new(Receiver::new(fleet, wanted, &args.identity_dir, metrics, app.clock));
    if let Some(file) = args.snapshot.clone() {
        background.spawn(source::follow_file(receiver, file, shutdown.clone()));
    } else if let Some(operator) = args.operator.clone() {
        let stream = Stream {
            receiver,
            network: Arc::clone(network),
            operator: operator.clone(),
            identities: identities.clone(),
            snapshot_dir: args.snapshot_dir.clone(),
            state_dir: args.state_dir.clone(),
        };
        background.spawn(stream.run(shutdown.clone()));
        let poster = Poster {
            network: Arc::clone(network),
            app: Arc::clone(app),
            router_uid: args.pod_uid.clone(),
            router: args.pod_name.clone(),
        };
        background.spawn(poster.run(operator, identities.clone(), shutdown.clone()));
    }
}

fn health(app: &Arc<App>, identities: &Identities, shutdown: &CancellationToken) -> Health {
    let health = Health::new();
    let fleet = Arc::clone(&app.fleet);
    health.readiness("no_policy", move || match fleet.in_use() {
        Some(_) => Ok(()),
        None => Err(fleet.refused().map_or_else(
            || "no snapshot of the policy has come yet".to_owned(),
            |why| format!("the snapshot was refused: {why}"),
        )),
    });
    let identities = identities.clone();
    health.readiness("certificate", move || identities.check_clock(SystemTime::now()).map_err(|e| e.to_string()));
    let shutdown = shutdown.clone();
    health.readiness("draining", move || {
        if shutdown.is_cancelled() { Err("told to stop; requests in flight are finished".to_owned()) } else { Ok(()) }
    });
    health
}

/// What the replicas of a policy have in common and nobody else: the private key of their certificate.
fn common_secret(identity_dir: &Path) -> anyhow::Result<Vec<u8>> {
    let path = identity_dir.join("tls.key");
    std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
}

async fn housekeeping(app: Arc<App>, identities: Identities, identity_dir: PathBuf, shutdown: CancellationToken) {
    let mut tick = tokio::time::interval(HOUSEKEEPING);
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return app.spend.keep(),
            _ = tick.tick() => {}
        }
        app.spend.keep();
        if let Ok(secret) = common_secret(&identity_dir) {
            app.tokens.renew(&secret);
        }
        let left = identities.not_after().duration_since(SystemTime::now()).unwrap_or_default();
        app.metrics.certificate_expiry.set(left.as_secs_f64());
        let Some(used) = app.fleet.in_use() else { continue };
        let age = app.fleet.policy_age_us(&used.snapshot, app.clock.now_us());
        app.metrics.snapshot_age.set(age as f64 / 1e6);
        app.connector.keep_only(|uid, generation| {
            used.tiers.iter().any(|tier| tier.uid == uid && tier.generation == generation)
        });
    }
}
