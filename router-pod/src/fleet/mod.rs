//! What is out there now: the snapshot in use, and the state of each device and endpoint it names.
//!
//! One [`Fleet`] a router. [`Fleet::plan`] is where a request meets it: view, decision and the count of the request
//! that is about to be sent are one step under one lock, so that two requests never take the same last slot.

pub mod accept;
pub mod device;
pub mod dns;
pub mod endpoint;
pub mod overflow;
pub mod place;
pub mod poll;
pub mod source;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwap, ArcSwapOption};
use terrace_contract::report::Reachability;
use terrace_contract::snapshot::Snapshot;
use terrace_contract::status::AgentStatus;
use terrace_contract::tier::{self, Backend, Tier};
use terrace_decide::affinity::Prefix;
use terrace_decide::hedge::FirstTokens;
use terrace_decide::track::Dispatch;
use terrace_decide::{FleetView, Plan, Serving, TierView};
use terrace_privacy::Rules;

use crate::dispatch::credentials::Credentials;
use crate::dispatch::target::Target;
use crate::ledger::spend::Day;
use crate::queue::Waiters;
use device::Device;
use endpoint::Endpoint;
use place::Place;

/// The snapshot in use, taken apart for sharing.
pub struct InUse {
    /// The document.
    pub snapshot: Arc<Snapshot>,
    /// Its ladder.
    pub tiers: Vec<Arc<Tier>>,
    /// Where each tier's endpoint is; none: its tier has devices.
    pub targets: Vec<Option<Arc<Target>>>,
    /// What finds and judges content, compiled for this policy.
    pub rules: Rules,
}

/// State of what a tier's name stands for.
#[derive(Debug, Clone, Default)]
struct Table {
    /// In order, so that they are asked in the same order each time.
    devices: BTreeMap<String, Vec<Arc<Device>>>,
    endpoints: HashMap<String, Arc<Endpoint>>,
    turns: HashMap<String, Arc<AtomicU64>>,
    first_tokens: HashMap<String, Arc<FirstTimes>>,
}

/// A tier's first tokens, of streams and of whole answers.
#[derive(Debug, Default)]
struct FirstTimes([Mutex<FirstTokens>; 2]);

impl FirstTimes {
    fn of(&self, streams: bool) -> MutexGuard<'_, FirstTokens> {
        self.0[usize::from(streams)].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The fleet as this router knows it.
pub struct Fleet {
    in_use: ArcSwapOption<InUse>,
    table: ArcSwap<Table>,
    /// Devices found by name while no device of a snapshot answers, by tier UID.
    found: Mutex<HashMap<String, Vec<tier::Device>>>,
    /// Pod UID and node of what answers at a found address.
    identified: Mutex<HashMap<String, (String, String)>>,
    overflow: overflow::Window,
    refused: ArcSwapOption<String>,
    /// When the operator last showed that the snapshot in use is still its newest; 0: never.
    confirmed_us: AtomicU64,
    node: String,
    picking: Mutex<()>,
    credentials: Arc<Credentials>,
    waiters: Arc<Waiters>,
}

impl Fleet {
    /// A fleet of which nothing is known yet, seen from `node`.
    pub fn new(node: &str, credentials: Arc<Credentials>) -> Self {
        Self {
            in_use: ArcSwapOption::empty(),
            table: ArcSwap::default(),
            found: Mutex::default(),
            identified: Mutex::default(),
            overflow: overflow::Window::default(),
            refused: ArcSwapOption::empty(),
            confirmed_us: AtomicU64::new(0),
            node: node.to_owned(),
            picking: Mutex::default(),
            credentials,
            waiters: Arc::default(),
        }
    }

    /// Requests that wait for room.
    pub fn waiters(&self) -> &Arc<Waiters> {
        &self.waiters
    }

    /// A first token of a tier came after so long, or had not when it was given up; of a whole answer, its end.
    pub fn began(&self, tier_uid: &str, streams: bool, us: u64) {
        if let Some(first_tokens) = self.table.load().first_tokens.get(tier_uid) {
            first_tokens.of(streams).observe(us);
        }
    }

    /// When a second attempt is started beside one at this tier, microseconds from its start; none: not at all yet.
    pub fn hedge_after(&self, tier_uid: &str, streams: bool, percentile: u8, forecast_us: f64) -> Option<u64> {
        self.table.load().first_tokens.get(tier_uid)?.of(streams).after(percentile, forecast_us)
    }

    /// The snapshot in use; none yet: `no_policy`.
    pub fn in_use(&self) -> Option<Arc<InUse>> {
        self.in_use.load_full()
    }

    /// Takes a snapshot that passed [`accept::check`] into use.
    pub fn take(&self, snapshot: Snapshot, rules: Rules) {
        let tiers = snapshot.tiers.iter().cloned().map(Arc::new).collect();
        let targets = snapshot.tiers.iter().map(target).collect();
        self.refused.store(None);
        self.confirmed_us.store(0, Ordering::Release);
        let named = |uid: &String| snapshot.devices.iter().any(|d| d.tier == *uid);
        self.found.lock().unwrap_or_else(PoisonError::into_inner).retain(|uid, _| !named(uid));
        self.in_use.store(Some(Arc::new(InUse { snapshot: Arc::new(snapshot), tiers, targets, rules })));
        self.sync();
    }

    /// The operator is there, and the snapshot in use is its newest: policy does not age while the stream lives.
    pub fn confirm(&self, now_us: u64) {
        self.confirmed_us.store(now_us, Ordering::Release);
    }

    /// How old the policy is: since it was made, or since the operator last stood by it.
    pub fn policy_age_us(&self, snapshot: &Snapshot, now_us: u64) -> u64 {
        now_us.saturating_sub(snapshot.issued_at_us.max(self.confirmed_us.load(Ordering::Acquire)))
    }

    /// A snapshot was refused; the one in use stays.
    pub fn refuse(&self, why: String) {
        self.refused.store(Some(Arc::new(why)));
    }

    /// Why the newest snapshot was refused; none: it is in use.
    pub fn refused(&self) -> Option<String> {
        self.refused.load_full().map(|why| (*why).clone())
    }

    /// Devices of a tier that were found by its service's name.
    pub fn found(&self, tier_uid: &str, devices: Vec<tier::Device>) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if found.get(tier_uid) == Some(&devices) {
            return;
        }
        found.insert(tier_uid.to_owned(), devices);
        drop(found);
        self.sync();
    }

    /// A device that was found by name says who it is: from now on its pod UID is the key, as in a snapshot.
    pub fn identified(&self, device: &Device, status: &AgentStatus) {
        let facts = device.facts();
        if !device.is_provisional() || status.pod_uid.is_empty() {
            return;
        }
        let mut identified = self.identified.lock().unwrap_or_else(PoisonError::into_inner);
        identified.insert(facts.device.address.clone(), (status.pod_uid.clone(), status.node.clone()));
        device.update(&tier::Device {
            pod_uid: status.pod_uid.clone(),
            node: status.node.clone(),
            ..facts.device.clone()
        });
    }

    /// Makes the table match the snapshot: known pods keep their state, new ones start cold, others are let go.
    fn sync(&self) {
        let _picking = self.picking.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(in_use) = self.in_use.load_full() else { return };
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let identified = self.identified.lock().unwrap_or_else(PoisonError::into_inner);
        for device in found.values_mut().flatten() {
            if let Some((pod_uid, node)) = identified.get(&device.address) {
                (device.pod_uid, device.node) = (pod_uid.clone(), node.clone());
            }
        }
        let old = self.table.load();
        let mut new = Table::default();
        for tier in &in_use.tiers {
            new.turns.insert(tier.uid.clone(), old.turns.get(&tier.uid).cloned().unwrap_or_default());
            let known = old.first_tokens.get(&tier.uid).cloned();
            new.first_tokens.insert(tier.uid.clone(), known.unwrap_or_default());
            match &tier.backend {
                Backend::Endpoint(_) => {
                    new.endpoints.insert(tier.uid.clone(), old.endpoints.get(&tier.uid).cloned().unwrap_or_default());
                }
                Backend::Fleet(_) => {
                    let known = old.devices.get(&tier.uid).map(Vec::as_slice).unwrap_or_default();
                    let named = || in_use.snapshot.devices.iter().filter(|d| d.tier == tier.uid);
                    let found =
                        found.get(&tier.uid).into_iter().flatten().filter(|device| {
                            named().all(|d| d.pod_uid != device.pod_uid && d.address != device.address)
                        });
                    let devices = named().chain(found).map(|facts| keep_or_add(known, facts)).collect();
                    new.devices.insert(tier.uid.clone(), devices);
                }
            }
        }
        self.table.store(Arc::new(new));
    }

    /// Whether a tier has no device that can be reached, as far as is known.
    pub fn is_lost(&self, tier_uid: &str) -> bool {
        let table = self.table.load();
        table.devices.get(tier_uid).is_none_or(|devices| devices.iter().all(|d| !d.reachability().is_empty()))
    }

    /// The generation of a tier in use.
    pub fn generation(&self, tier_uid: &str) -> i64 {
        let in_use = self.in_use.load();
        let tier = in_use.iter().flat_map(|used| &used.tiers).find(|tier| tier.uid == tier_uid);
        tier.map_or(0, |tier| tier.generation)
    }

    /// Every device.
    pub fn all_devices(&self) -> Vec<Arc<Device>> {
        self.table.load().devices.values().flatten().cloned().collect()
    }

    /// The fleet at `now_us`, for a request whose prompt begins like that.
    pub fn view(&self, in_use: &InUse, day: Day, prefix: &Prefix, now_us: u64) -> FleetView {
        let table = self.table.load();
        let (snapshot, routers) = (&in_use.snapshot, in_use.snapshot.routers);
        let tiers = in_use.tiers.iter().map(|tier| TierView {
            tier: Arc::clone(tier),
            turn: table.turns.get(&tier.uid).map_or(0, |n| n.load(Ordering::Relaxed)),
            serving: match &tier.backend {
                Backend::Fleet(_) => {
                    let devices = table.devices.get(&tier.uid).map(Vec::as_slice).unwrap_or_default();
                    Serving::Devices(devices.iter().map(|device| device.view(prefix, now_us)).collect())
                }
                Backend::Endpoint(facts) => {
                    let credential =
                        facts.credential.as_ref().is_none_or(|key| self.credentials.is_there(&tier.uid, key));
                    let state = table.endpoints.get(&tier.uid).cloned().unwrap_or_default();
                    Serving::Endpoint(state.view(&facts.limits, routers, credential, now_us))
                }
            },
        });
        let limit = snapshot.policy.limits.spend_per_day_micros;
        FleetView {
            tiers: tiers.collect(),
            now_us,
            snapshot_age_us: self.policy_age_us(snapshot, now_us),
            domain: self.domain(snapshot),
            overflow: self.overflow.now(now_us),
            spend_left_micros: limit.map(|limit| day.left(limit, routers)),
        }
    }

    /// The topology domain of this router's own node, as a device on the same node shows it; empty: unknown.
    fn domain(&self, snapshot: &Snapshot) -> String {
        let same = snapshot.devices.iter().find(|d| !self.node.is_empty() && d.node == self.node);
        same.map(|d| d.domain.clone()).unwrap_or_default()
    }

    /// Sees, decides and counts the first attempt's request, in one step.
    pub fn plan(
        &self,
        in_use: &InUse,
        day: Day,
        request: Dispatch,
        now_us: u64,
        decide: impl FnOnce(&FleetView) -> Plan,
    ) -> (Plan, Option<Place>) {
        let _picking = self.picking.lock().unwrap_or_else(PoisonError::into_inner);
        let plan = decide(&self.view(in_use, day, &request.prefix, now_us));
        if let Some(turn) = plan.decided.as_ref().and_then(|tier| self.table.load().turns.get(&tier.uid).cloned()) {
            turn.fetch_add(1, Ordering::Relaxed);
        }
        let first = plan.attempts.first().and_then(|attempt| {
            let device = attempt.devices.first().map(|d| &*d.pod_uid);
            self.admit(in_use, attempt.tier.index, device, request.insisting(attempt.insists), now_us)
        });
        (plan, first)
    }

    /// Counts a request that is about to be sent to a tier's device, or to its endpoint; none: it cannot take it.
    pub fn admit(
        &self,
        in_use: &InUse,
        tier: usize,
        pod_uid: Option<&str>,
        request: Dispatch,
        now_us: u64,
    ) -> Option<Place> {
        let (target, tier) = (in_use.targets.get(tier)?, in_use.tiers.get(tier)?);
        let table = self.table.load();
        match (&tier.backend, pod_uid) {
            (Backend::Fleet(fleet), Some(pod_uid)) => {
                let device = table.devices.get(&tier.uid)?.iter().find(|d| d.facts().device.pod_uid == pod_uid)?;
                Place::device(Arc::clone(tier), fleet, device.admit(request, now_us)?, &self.waiters)
            }
            (Backend::Endpoint(facts), None) => {
                let endpoint = table.endpoints.get(&tier.uid)?;
                let guard = endpoint.admit(&facts.limits, in_use.snapshot.routers, &request, now_us)?;
                Some(Place::endpoint(Arc::clone(tier), target.clone()?, guard, &self.waiters))
            }
            _ => None,
        }
    }

    /// What `overflow.maxPercent` caps.
    pub fn overflow(&self) -> &overflow::Window {
        &self.overflow
    }

    /// Whether each tier can be reached, for the report.
    pub fn reachability(&self, now_us: u64) -> Vec<Reachability> {
        let Some(in_use) = self.in_use.load_full() else { return Vec::new() };
        let table = self.table.load();
        let of = |tier: &Arc<Tier>| {
            let (reason, saturated) = match &tier.backend {
                Backend::Endpoint(_) => (table.endpoints.get(&tier.uid).map_or("", |e| e.reachability(now_us)), 0),
                Backend::Fleet(_) => {
                    let devices = table.devices.get(&tier.uid).map(Vec::as_slice).unwrap_or_default();
                    // A fleet is reachable while one of its devices is.
                    let reason = devices.iter().map(|d| d.reachability()).min_by_key(|reason| !reason.is_empty());
                    (reason.unwrap_or(""), devices.iter().filter(|d| d.saturated()).count())
                }
            };
            Reachability {
                tier: tier.uid.clone(),
                reason: reason.to_owned(),
                saturated: u32::try_from(saturated).unwrap_or(u32::MAX),
            }
        };
        in_use.tiers.iter().map(of).collect()
    }
}

/// Where a tier's endpoint is. [`accept::check`] takes no snapshot with a URL that is none.
fn target(tier: &Tier) -> Option<Arc<Target>> {
    let Backend::Endpoint(endpoint) = &tier.backend else { return None };
    Target::parse(&endpoint.url).ok().map(Arc::new)
}

fn keep_or_add(known: &[Arc<Device>], facts: &tier::Device) -> Arc<Device> {
    match known.iter().find(|d| d.facts().device.pod_uid == facts.pod_uid) {
        Some(device) => {
            device.update(facts);
            Arc::clone(device)
        }
        None => Device::new(facts.clone()),
    }
}
