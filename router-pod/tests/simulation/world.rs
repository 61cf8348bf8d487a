//! One seed: its hosts, its faults as they come, and what is left when all is quiet.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::Parser as _;
use terrace_identity::Identity;
use terrace_router::app::App;
use terrace_router::args::Args;
use terrace_router::clock::Clock;
use terrace_router::outside::Outside;
use terrace_router::random::Random;
use terrace_router::run;
use tokio_util::sync::CancellationToken;
use turmoil::Sim;

use crate::client::{self, Fate};
use crate::dice::Dice;
use crate::fleet::{EPOCH_US, Snapshots, event};
use crate::log::Log;
use crate::operator::Operator;
use crate::papers::{self, CLUSTER, NAMESPACE, POLICY, Papers, papers};
use crate::plan::{Fault, Plan};
use crate::sea::{self, CLIENTS, CLOUD, EDGE, NODE, OPERATOR, ROUTER, Sea, listen, now, pass};
use crate::tier::{Act, Tier};

/// The simulation's step; nothing takes less than this to cross a link.
const TICK: Duration = Duration::from_millis(2);
/// How long requests in flight have when the router is told to stop.
pub const GRACE: Duration = Duration::from_secs(8);
/// What a lost peer takes to be noticed: an agent pings each 5 s and waits as long for the answer.
const QUIET: Duration = Duration::from_secs(11);

/// One life of the router: from a start to its end.
pub struct Life {
    pub app: Arc<App>,
    pub stop: CancellationToken,
    pub started: Duration,
    pub drained: Option<Duration>,
    pub ended: Option<Duration>,
    pub killed: bool,
    /// Which snapshots it had in use, and since when.
    pub policies: Vec<(Duration, Arc<terrace_contract::snapshot::Snapshot>)>,
}

/// What is left of a seed.
pub struct Left {
    pub plan: Plan,
    pub fates: Vec<Fate>,
    pub tiers: Vec<Arc<Tier>>,
    pub operator: Arc<Operator>,
    pub lives: Vec<Life>,
    pub ledger: PathBuf,
    pub refused_snapshots: u64,
    pub log: Log,
    /// Simulated time in all.
    pub took: Duration,
    _state: tempfile::TempDir,
    _papers: Arc<Papers>,
}

/// What the hosts of a seed share.
#[derive(Clone)]
struct World {
    seed: u64,
    log: Log,
    lives: Arc<Mutex<Vec<Life>>>,
    /// How long after its end the next router starts; none: it does not end by itself.
    down: Arc<Mutex<Option<Duration>>>,
    state: PathBuf,
}

/// Runs a seed to its end.
pub fn run(seed: u64) -> Left {
    run_plan(seed, Plan::of(seed), &[])
}

/// Runs a plan to its end, with tiers of which some do the same with every request; the seed decides the rest.
pub fn run_plan(seed: u64, plan: Plan, always: &[(&str, Act)]) -> Left {
    let (log, state, papers) = (Log::default(), papers::folder(), papers());
    let world =
        World { seed, log: log.clone(), lives: Arc::default(), down: Arc::default(), state: state.path().to_owned() };
    let mut snapshots = Snapshots::new(&Dice::of(seed, "policy"), plan.roomy, plan.hedge);
    let operator = Operator::new(event(snapshots.newest()));
    let mut sim = turmoil::Builder::new()
        .rng_seed(seed)
        .tick_duration(TICK)
        .simulation_duration(Duration::from_secs(3600))
        .tcp_capacity(1024)
        .build();
    let tiers = tiers(&mut sim, seed, plan.roomy, &log);
    for (name, act) in always {
        let tier = tiers.iter().find(|tier| tier.name == *name).unwrap();
        *tier.always.lock().unwrap() = Some(*act);
    }
    operator_host(&mut sim, &operator);
    router_host(&mut sim, &world);
    let fates = Arc::new(Mutex::new(Vec::new()));
    clients_host(&mut sim, &plan, &fates, &log);
    for (host, latency) in &plan.links {
        sim.set_link_latency(ROUTER, *host, *latency);
    }

    let mut faults = plan.faults.iter();
    let mut next = faults.next();
    let (mut refused_snapshots, mut quiet_since) = (0, None);
    loop {
        sim.step().unwrap();
        let at = sim.elapsed();
        while let Some((_, fault)) = next.filter(|(due, _)| *due <= at) {
            log.at(at, format_args!("fault: {fault:?}"));
            refused_snapshots += apply(&mut sim, &world, &mut snapshots, &operator, *fault);
            next = faults.next();
        }
        watch(&world, at);
        if next.is_none() && fates.lock().unwrap().len() == plan.asks.len() {
            let since = *quiet_since.get_or_insert(at);
            if at - since >= QUIET || calm(&world, &tiers) {
                break;
            }
        }
    }
    let took = sim.elapsed();
    drop(sim);
    let lives = std::mem::take(&mut *world.lives.lock().unwrap());
    let fates = std::mem::take(&mut *fates.lock().unwrap());
    let ledger = state.path().join("egress.jsonl");
    Left { plan, fates, tiers, operator, lives, ledger, refused_snapshots, log, took, _state: state, _papers: papers }
}

/// Whether nothing is in flight any more: what is checked afterwards, and if it never becomes so the checks say what.
fn calm(world: &World, tiers: &[Arc<Tier>]) -> bool {
    let lives = world.lives.lock().unwrap();
    lives.iter().all(|life| life.drained.is_none() || life.ended.is_some())
        && lives.iter().all(|life| crate::check::in_flight(&life.app).is_empty())
        && tiers.iter().all(|tier| tier.running.load(std::sync::atomic::Ordering::SeqCst) == 0)
}

fn tiers(sim: &mut Sim<'_>, seed: u64, roomy: bool, log: &Log) -> Vec<Arc<Tier>> {
    let dice = Dice::of(seed, "slots");
    let slots = |most: u64| if roomy { 64 } else { u32::try_from(dice.between(1, most)).unwrap() };
    let edge = ("uid-edge", "small");
    let agents = [
        (EDGE[0], Tier::new(seed, "edge-0", edge, slots(2), log), "edge"),
        (EDGE[1], Tier::new(seed, "edge-1", edge, slots(2), log), "edge"),
        (NODE, Tier::new(seed, "node-0", ("uid-node", "medium"), slots(4), log), "node"),
    ];
    let cloud = Tier::new(seed, "cloud", ("uid-cloud", "big"), slots(20), log);
    let mut tiers = Vec::new();
    for (ip, tier, name) in agents {
        tiers.push(Arc::clone(&tier));
        sim.host(ip, move || {
            let (tier, identity) = (Arc::clone(&tier), Identity::tier(CLUSTER, NAMESPACE, name));
            async move {
                let identities = papers().identities(&identity);
                let stop = CancellationToken::new();
                terrace_identity::serve(listen(8443).await, identities, tier.routes(), stop, Duration::ZERO).await;
                Ok(())
            }
        });
    }
    tiers.push(Arc::clone(&cloud));
    sim.host(CLOUD, move || {
        let cloud = Arc::clone(&cloud);
        async move {
            let config = || Arc::clone(&papers().cloud);
            let stop = CancellationToken::new();
            terrace_identity::serve_tls(listen(443).await, config, cloud.routes(), stop, Duration::ZERO).await;
            Ok(())
        }
    });
    tiers
}

fn operator_host(sim: &mut Sim<'_>, operator: &Arc<Operator>) {
    let operator = Arc::clone(operator);
    sim.host(OPERATOR, move || {
        let operator = Arc::clone(&operator);
        async move {
            let identities = papers().identities(&Identity::operator(CLUSTER));
            let stop = CancellationToken::new();
            terrace_identity::serve(listen(9443).await, identities, operator.routes(), stop, Duration::ZERO).await;
            Ok(())
        }
    });
}

fn router_host(sim: &mut Sim<'_>, world: &World) {
    let world = world.clone();
    sim.host(ROUTER, move || {
        let world = world.clone();
        async move {
            loop {
                let life = world.lives.lock().unwrap().len();
                let (stop, started) = (CancellationToken::new(), now());
                let outside = Outside {
                    network: Arc::new(Sea),
                    clock: Clock::at(EPOCH_US + u64::try_from(started.as_micros())?),
                    random: Arc::new(Random::seeded(world.seed ^ (life as u64) << 32)),
                };
                let running = Box::pin(run::start_in(outside, args(&world), stop.clone(), None)).await?;
                world.log.note("the router runs");
                let app = Arc::clone(&running.app);
                let life = Life { app, stop, started, drained: None, ended: None, killed: false, policies: vec![] };
                world.lives.lock().unwrap().push(life);
                running.ended().await;
                world.log.note("the router has ended");
                if let Some(life) = world.lives.lock().unwrap().last_mut() {
                    life.ended = Some(now());
                }
                let down = world.down.lock().unwrap().unwrap_or_default();
                pass(down).await;
            }
        }
    });
}

fn args(world: &World) -> Args {
    let dir = |name: &str| papers().path(name).display().to_string();
    Args::parse_from([
        "terrace-router".to_owned(),
        format!("--policy={POLICY}"),
        format!("--namespace={NAMESPACE}"),
        "--listen=0.0.0.0:8080".into(),
        "--admin-listen=0.0.0.0:9090".into(),
        format!("--operator={}:9443", sea::OPERATOR_NAME),
        format!("--identity-dir={}", dir("identity")),
        format!("--credentials-dir={}", dir("credentials")),
        format!("--api-keys-dir={}", dir("api-keys")),
        format!("--state-dir={}", world.state.display()),
        format!("--drain-timeout={}", GRACE.as_secs()),
        "--pod-uid=router-1".into(),
    ])
}

fn clients_host(sim: &mut Sim<'_>, plan: &Plan, fates: &Arc<Mutex<Vec<Fate>>>, log: &Log) {
    let (asks, fates, log) = (plan.asks.clone(), Arc::clone(fates), log.clone());
    sim.host(CLIENTS, move || {
        let all = asks.clone().into_iter().map(|ask| client::ask(ask, Arc::clone(&fates), log.clone()));
        let all = futures::future::join_all(all);
        async move {
            all.await;
            Ok(())
        }
    });
}

/// Makes a fault happen; 1 if it is a snapshot that the router must refuse.
fn apply(sim: &mut Sim<'_>, world: &World, snapshots: &mut Snapshots, operator: &Operator, fault: Fault) -> u64 {
    let at = sim.elapsed();
    match fault {
        Fault::Crash(host) => {
            sim.crash(host);
            if host == ROUTER
                && let Some(life) = world.lives.lock().unwrap().last_mut().filter(|life| life.ended.is_none())
            {
                (life.ended, life.killed) = (Some(at), true);
            }
        }
        Fault::Bounce(host) => sim.bounce(host),
        Fault::Partition(host) => sim.partition(ROUTER, host),
        Fault::PartitionTo(host) => sim.partition_oneway(ROUTER, host),
        Fault::PartitionFrom(host) => sim.partition_oneway(host, ROUTER),
        Fault::Repair(host) => sim.repair(ROUTER, host),
        Fault::Hold(host) => sim.hold(ROUTER, host),
        Fault::Release(host) => sim.release(ROUTER, host),
        Fault::Latency(host, latency) => sim.set_link_latency(ROUTER, host, latency),
        Fault::Snapshot(change) => {
            let now_us = EPOCH_US + u64::try_from(at.as_micros()).unwrap();
            let (event, good) = snapshots.change(change, now_us);
            operator.newest.send_replace(event);
            return u64::from(!good);
        }
        Fault::Drain(down) => {
            *world.down.lock().unwrap() = Some(down);
            if let Some(life) = world.lives.lock().unwrap().last_mut().filter(|life| life.ended.is_none()) {
                life.drained = Some(at);
                life.stop.cancel();
            }
        }
    }
    0
}

/// Notes when the router takes a snapshot into use.
fn watch(world: &World, at: Duration) {
    let mut lives = world.lives.lock().unwrap();
    let Some(life) = lives.last_mut() else { return };
    let Some(used) = life.app.fleet.in_use() else { return };
    if life.policies.last().is_none_or(|(_, known)| !Arc::ptr_eq(known, &used.snapshot)) {
        world.log.at(at, format_args!("in use: generation {}", used.snapshot.generations.policy));
        life.policies.push((at, Arc::clone(&used.snapshot)));
    }
}
