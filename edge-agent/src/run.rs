//! The program: bind, fetch, load, serve, drain.

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::json;
use terrace_contract::status::{AgentFailure, ModelStatus};
use terrace_identity::{Identities, IdentityStore, serve, serve_plain};
use terrace_telemetry::time::now_s;
use terrace_telemetry::{Gate, Health, Metrics, admin, ports, shutdown};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::args::Args;
use crate::device::{Choice, Target, choose, granted_cores};
use crate::engine::{Engine, EngineConfig, EngineHandle, Event, GenerateRequest};
use crate::failure::Failure;
use crate::grammar::Grammars;
use crate::least;
use crate::model::{LoadError, LoadOptions, LoadedModel};
use crate::pull::{self, Model, Progress, STALL, Source};
use crate::server::{self, Agent, Meters};

/// A loop that has not moved for so long is stuck: no step takes nearly as long.
const STALLED: Duration = Duration::from_secs(30);
/// Between two looks at the gauges.
const GAUGES: Duration = Duration::from_secs(1);
/// For answers that are computed and not yet sent.
const FLUSH: Duration = Duration::from_secs(5);

/// Runs until a signal. Every error is why it could not serve.
///
/// # Errors
/// [`Failure`].
pub async fn run(args: Args) -> Result<(), Failure> {
    if args.end_with_parent {
        shutdown::end_with_parent().map_err(Failure::configuration)?;
    }
    let signal = shutdown::on_signal().map_err(Failure::configuration)?;
    let (health, metrics) = (Health::new(), Metrics::new());
    let meters = Meters::new(&metrics);
    let model_gate = health.gate("model", "not loaded yet");
    let doors = Doors::open(&args, &health, &signal).await?;

    let admin_end = CancellationToken::new();
    let admin_listener = admin::bind("--admin-listen", args.admin_listen).await.map_err(Failure::configuration)?;
    let admin_address = admin_listener.local_addr().map_err(Failure::configuration)?;
    let probes =
        tokio::spawn(admin::serve(admin_listener, admin::router(health.clone(), metrics.clone()), admin_end.clone()));

    // The model's file stays locked against eviction for as long as it is served.
    let (agent, _model) = tokio::select! {
        ready = start(&args, &model_gate, meters.clone()) => ready?,
        () = signal.cancelled() => return Ok(()),
    };
    let agent = Arc::new(agent);
    let engine = agent.engine.clone();
    meters.loaded(&metrics, &agent.model.name, engine.load().total_kv_blocks);
    let live = engine.clone();
    health.liveness("engine", move || live.alive(STALLED));
    let identities = doors.identities.clone();
    let addresses = doors.addresses(admin_address);
    let end = CancellationToken::new();
    let mut serving = doors.serve(&agent, metrics, &end);
    model_gate.open();
    if let Some(path) = &args.port_file {
        let write = ports::write(path, &addresses);
        write.map_err(|e| Failure::configuration(format!("cannot write --port-file {}: {e}", path.display())))?;
    }
    tracing::info!(
        listen = addresses["listen"].as_str(), plain = addresses["plain"].as_str(), gateway = addresses["gateway"].as_str(),
        admin = %admin_address,
        model = agent.model.name, format = agent.model.format, device = agent.device.detail, "serving"
    );

    let gauges = async {
        loop {
            let left = identities.as_ref().map(|i| i.not_after().duration_since(SystemTime::now()).unwrap_or_default());
            meters.observe(&engine.load(), engine.stats(), left);
            tokio::time::sleep(GAUGES).await;
        }
    };
    tokio::select! { () = signal.cancelled() => {}, () = gauges => {} }

    model_gate.close("draining");
    drain(&engine, args.drain_timeout).await;
    end.cancel();
    while serving.join_next().await.is_some() {}
    admin_end.cancel();
    // An idle probe connection must not hold the end up.
    let _ = tokio::time::timeout(Duration::from_secs(1), probes).await;
    tracing::info!("ended");
    Ok(())
}

/// Finishes what runs, for as long as it may take.
async fn drain(engine: &EngineHandle, timeout: Duration) {
    engine.drain();
    if tokio::time::timeout(timeout, engine.drained()).await.is_err() {
        tracing::warn!(seconds = timeout.as_secs(), "requests were still running at the end of --drain-timeout");
        engine.stop();
        let _ = tokio::time::timeout(FLUSH, engine.drained()).await;
    }
}

/// The listeners, bound before the model is there so that a port in use is said at once.
struct Doors {
    routers: Option<TcpListener>,
    local: Option<TcpListener>,
    gateway: Option<TcpListener>,
    identities: Option<Identities>,
}

impl Doors {
    async fn open(args: &Args, health: &Health, signal: &CancellationToken) -> Result<Self, Failure> {
        let (mut routers, mut identities) = (None, None);
        if let Some(address) = args.router_listen() {
            let store = IdentityStore::load(&args.identity_dir)
                .map_err(|e| Failure::configuration(format!("{e} (--identity-dir {})", args.identity_dir.display())))?;
            let seen = store.identities();
            identities = Some(seen.clone());
            health.readiness("identity", move || seen.check_clock(SystemTime::now()).map_err(|e| e.to_string()));
            tokio::spawn(store.follow(signal.clone()));
            routers = Some(admin::bind("--listen", address).await.map_err(Failure::configuration)?);
        }
        let bind = async |flag, address: Option<SocketAddr>| match address {
            Some(address) => admin::bind(flag, address).await.map(Some).map_err(Failure::configuration),
            None => Ok(None),
        };
        let local = bind("--plain-listen", args.plain_listen).await?;
        let gateway = bind("--gateway-listen", args.gateway_listen).await?;
        Ok(Self { routers, local, gateway, identities })
    }

    fn addresses(&self, admin: SocketAddr) -> serde_json::Value {
        let address = |l: &Option<TcpListener>| l.as_ref().and_then(|l| l.local_addr().ok()).map(|a| a.to_string());
        let (routers, local, gateway) = (address(&self.routers), address(&self.local), address(&self.gateway));
        let listen = routers.or_else(|| local.clone()).or_else(|| gateway.clone());
        json!({"listen": listen, "plain": local, "gateway": gateway, "admin": admin.to_string()})
    }

    fn serve(self, agent: &Arc<Agent>, metrics: Metrics, end: &CancellationToken) -> JoinSet<()> {
        let app = server::router(agent.clone());
        let mut serving = JoinSet::new();
        if let (Some(listener), Some(identities)) = (self.routers, self.identities) {
            serving.spawn(serve(listener, identities, app.clone(), end.clone(), FLUSH));
        }
        if let Some(listener) = self.local {
            serving.spawn(serve_plain(listener, app, end.clone(), FLUSH));
        }
        if let Some(listener) = self.gateway {
            let app = server::gateway(agent.clone(), metrics);
            serving.spawn(serve_plain(listener, app, end.clone(), FLUSH));
        }
        serving
    }
}

/// From flags to an engine that has made its first token.
async fn start(args: &Args, gate: &Gate, meters: Meters) -> Result<(Agent, Model), Failure> {
    let Choice { target, status: device } = device(args).await?;
    gate.close("fetching the model");
    let file = obtain(args, gate).await?;
    gate.close("loading the model");
    let options = LoadOptions {
        context_tokens: Some(args.context_tokens),
        max_sequences: args.max_sequences,
        kv_cache_bytes: args.kv_cache.map(|size| size.0),
        threads: args.threads.map(|n| n as usize),
        target,
    };
    let path = file.path().to_owned();
    let (opened, granted) = (path.clone(), options.clone());
    let loaded = tokio::task::spawn_blocking(move || LoadedModel::open(&opened, &granted))
        .await
        .map_err(|_| loading_failed(&path, target))?
        .map_err(|e| match e {
            // Without a limit of its own the cache is as long as the context, which then is shorter than a block.
            LoadError::KvCache { .. } if options.kv_cache_bytes.is_none() => least::too_short(0, None, &options),
            LoadError::KvCache { .. } => Failure::configuration(format!("{e} (--kv-cache)")),
            LoadError::Memory { .. } => Failure::configuration(e.to_string()),
            e => Failure::new(AgentFailure::InvalidModel, format!("{}: {e}", path.display())),
        })?;
    least::check(&loaded, &options)?;
    let model = ModelStatus {
        name: args.model_name.clone().unwrap_or_else(|| loaded.info.name.clone()),
        digest: format!("sha256:{}", file.sha256()),
        format: loaded.info.format.clone(),
        parameters: loaded.info.parameters.clone(),
        context_tokens: loaded.info.context_tokens,
    };
    let config =
        EngineConfig { max_sequences: args.max_sequences, queue_limit: args.queue_limit, ..EngineConfig::default() };
    let engine = Engine::start(loaded, config).map_err(Failure::configuration)?;
    gate.close("making the first token");
    first_token(&engine).await?;
    let host = || rustix::system::uname().nodename().to_string_lossy().into_owned();
    let agent = Agent {
        grammars: Grammars::new(engine.tokenizer().clone()),
        engine,
        model,
        device,
        pod_uid: std::env::var("POD_UID").unwrap_or_default(),
        node: std::env::var("NODE_NAME").unwrap_or_else(|_| host()),
        created: now_s(),
        meters,
    };
    Ok((agent, file))
}

/// The lines above say what: burn ends a load by a panic where a GPU has no room.
fn loading_failed(path: &std::path::Path, target: Target) -> Failure {
    let path = path.display();
    if target == Target::Cpu {
        return Failure::new(AgentFailure::InvalidModel, format!("{path}: loading it failed"));
    }
    let why = "its memory may be too small for the weights and --kv-cache, or the driver failed: see the lines above";
    Failure::new(
        AgentFailure::DriverUnusable,
        format!("{path}: loading it on the GPU failed: {why}; or use --device cpu"),
    )
}

/// The device, before anything is fetched for it. Drivers take their time, so not on a thread of the server.
async fn device(args: &Args) -> Result<Choice, Failure> {
    if let Some(cpu) = args.cpu {
        cpu.choose().map_err(|e| Failure::configuration(format!("--cpu: {e}")))?;
    }
    let (wanted, cores) = (args.device, args.threads.map_or_else(granted_cores, |n| n as usize));
    let probed = tokio::task::spawn_blocking(move || choose(wanted, cores)).await;
    let choice = probed.unwrap_or_else(|_| Err("the driver ended the probe; see the lines above".into()));
    let choice = choice.map_err(|why| Failure::new(AgentFailure::DriverUnusable, why))?;
    if let Some(why) = &choice.status.fallback {
        tracing::info!(reason = why, "--device auto: no GPU is used");
    }
    Ok(choice)
}

/// The model's file, its digest checked.
async fn obtain(args: &Args, gate: &Gate) -> Result<Model, Failure> {
    if let (Some(url), Some(sha256), Some(cache_dir)) = (&args.model_url, &args.model_sha256, &args.cache_dir) {
        let source = Source {
            url: url.clone(),
            sha256: sha256.clone(),
            cache_dir: cache_dir.clone(),
            cache_limit: args.cache_limit.map(|size| size.0),
            spare: args.disk_reserve.unwrap_or_default(),
            token_file: args.model_token_file.clone(),
            ca_file: args.model_ca.clone(),
            bytes_per_second: args.pull_bytes_per_second.and_then(|size| NonZeroU64::new(size.0)),
            stall: STALL,
            patience: args.pull_patience,
        };
        let observe = |progress: Progress| {
            if matches!(progress, Progress::Waiting | Progress::Connecting { .. }) {
                tracing::info!("{progress}");
            }
            gate.close(progress.to_string());
        };
        return Ok(pull::fetch(&source, observe).await?);
    }
    let path = args.model.as_ref().ok_or_else(|| Failure::configuration("give --model or --model-url"))?;
    Ok(pull::local(path, args.model_sha256.as_deref()).await?)
}

/// One token, so that what is ready has worked once.
async fn first_token(engine: &EngineHandle) -> Result<(), Failure> {
    let broken = |why: String| Failure::new(AgentFailure::InvalidModel, format!("the model makes no token: {why}"));
    let prompt = engine.tokenizer().encode("Hello").map_err(|e| broken(e.to_string()))?;
    let (_, mut events) =
        engine.submit(GenerateRequest::new(prompt, 1)).map_err(|refused| broken(refused.to_string()))?;
    loop {
        match events.recv().await {
            Some(Event::Done(_)) => return Ok(()),
            Some(Event::Started { .. } | Event::Hidden(_) | Event::Piece(_)) => {}
            Some(Event::Failed(failure)) => return Err(broken(failure.to_string())),
            None => return Err(broken("the engine ended".into())),
        }
    }
}
