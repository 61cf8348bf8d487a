//! The snapshots of a seed: the ladder edge > node > cloud, and what a fault makes of it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use bytes::Bytes;
use terrace_contract::policy::*;
use terrace_contract::snapshot::{Generations, Snapshot};
use terrace_contract::tier::{
    Backend, Capability, Cost, Device, Endpoint, EndpointLimits, Energy, Feature, Fleet, Tier,
};
use terrace_contract::trust::{Boundaries, Boundary, Class};
use terrace_identity::Identity;
use terrace_wire::sse;

use crate::dice::Dice;
use crate::papers::{CLUSTER, NAMESPACE, POLICY, papers};
use crate::sea;

/// When simulated time begins, microseconds since the Unix epoch.
pub const EPOCH_US: u64 = 1_800_000_000_000_000;
/// Features, the time that each has in all, milliseconds, and that to its first token. The last is every other feature.
pub const BUDGETS: [(&str, u64, u64); 4] =
    [("quick", 1_000, 150), ("slow", 4_000, 1_000), ("patient", 60_000, 2_000), ("", 6_000, 2_000)];

/// A change of the snapshot that the operator sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Internal and Confidential no longer leave the device.
    Narrow,
    /// As at the beginning.
    Widen,
    /// A tier leaves the ladder, and comes back.
    Remove(&'static str),
    Restore,
    /// The first device is not ready, and is again.
    Unready,
    Ready,
    /// What a router must refuse.
    Forged,
    Older,
    OtherPolicy,
    Garbage,
}

/// Makes one snapshot after another.
pub struct Snapshots {
    newest: Snapshot,
    whole: Vec<Tier>,
}

impl Snapshots {
    pub fn new(dice: &Dice, roomy: bool, hedge: HedgeMode) -> Self {
        let whole = vec![
            tier("edge", Boundary::Device, fleet("edge", "small")),
            tier("node", Boundary::Private, fleet("node", "medium")),
            tier("cloud", Boundary::Public, endpoint(dice, roomy)),
        ];
        let devices = sea::EDGE.iter().enumerate().map(|(i, ip)| device("edge", &format!("edge-{i}"), *ip));
        let newest = Snapshot {
            schema_version: 1,
            cluster_uid: CLUSTER.into(),
            revision: String::new(),
            generations: Generations {
                policy: 1,
                tiers: whole.iter().map(|t| (t.uid.clone(), 1)).collect(),
                budgets: BTreeMap::new(),
            },
            issued_at_us: EPOCH_US,
            policy: Policy { hedge: Hedge { mode: hedge, percentile: 90 }, ..policy(dice, roomy) },
            tiers: whole.clone(),
            budgets: BUDGETS.iter().map(budget).collect(),
            routers: 1,
            devices: devices.chain([device("node", "node-0", sea::NODE)]).collect(),
            signature: String::new(),
        };
        let mut snapshots = Self { newest, whole };
        sign(&mut snapshots.newest);
        snapshots
    }

    pub fn newest(&self) -> &Snapshot {
        &self.newest
    }

    /// What the operator sends next: an event, and whether a router may take it.
    pub fn change(&mut self, change: Change, now_us: u64) -> (Bytes, bool) {
        let mut next = self.newest.clone();
        next.issued_at_us = now_us;
        next.generations.policy += 1;
        let bad = match change {
            Change::Forged => {
                sign(&mut next);
                papers().forger.sign(&mut next);
                Some(next)
            }
            Change::Older => {
                next.generations.policy = 0;
                sign(&mut next);
                Some(next)
            }
            Change::OtherPolicy => {
                next.policy.name = "another".into();
                sign(&mut next);
                Some(next)
            }
            Change::Garbage => return (Bytes::from_static(b"data: {\"schemaVersion\": 1}\n\n"), false),
            good => {
                self.apply(&mut next, good);
                sign(&mut next);
                self.newest = next;
                None
            }
        };
        let sent = bad.as_ref().unwrap_or(&self.newest);
        (event(sent), bad.is_none())
    }

    fn apply(&self, next: &mut Snapshot, change: Change) {
        let boundaries = &mut next.policy.sensitivity.boundaries;
        match change {
            Change::Narrow => (boundaries.internal, boundaries.confidential) = (Boundary::Device, Boundary::Device),
            Change::Widen => (boundaries.internal, boundaries.confidential) = (Boundary::Private, Boundary::Private),
            // An empty ladder is no snapshot: the last tier stays.
            Change::Remove(name) if next.tiers.len() > 1 => next.tiers.retain(|tier| tier.name != name),
            Change::Remove(_) => {}
            Change::Restore => next.tiers.clone_from(&self.whole),
            Change::Unready => next.devices[0].ready = false,
            _ => next.devices[0].ready = true,
        }
        if next.policy.sensitivity.boundaries.internal == Boundary::Device {
            next.policy.sensitivity.boundaries.restricted = Boundary::Device;
        } else {
            next.policy.sensitivity.boundaries = Boundaries::default();
        }
    }
}

/// A snapshot as the operator streams it.
pub fn event(snapshot: &Snapshot) -> Bytes {
    [Bytes::from(format!("id: {}\n", snapshot.revision)), sse::json_event(snapshot)].concat().into()
}

fn sign(snapshot: &mut Snapshot) {
    snapshot.revision = snapshot.digest();
    papers().key.sign(snapshot);
}

fn policy(dice: &Dice, roomy: bool) -> Policy {
    let concurrency = if roomy { 64 } else { u32::try_from(dice.between(6, 20)).unwrap() };
    Policy {
        uid: "p-1".into(),
        name: POLICY.into(),
        namespace: NAMESPACE.into(),
        weights: dice.pick(&[Weights::PRIVACY_FIRST, Weights::BALANCED, Weights::LATENCY_FIRST]),
        access: Access::Anonymous,
        listener_tls: false,
        sensitivity: Sensitivity {
            unlabelled: Class::Public,
            boundaries: Boundaries::default(),
            detector: Detector::Score,
            anonymise: None,
            consent: None,
            residency: vec![],
            entities: vec![],
            max_policy_age_us: 3_600_000_000,
        },
        complexity: Complexity { mode: ComplexityMode::Static, max_prompt_tokens: 100_000 },
        cascade: Cascade::Disabled,
        selection: if roomy {
            Strategy::ShortestExpectedCompletion
        } else {
            dice.pick(&[
                Strategy::ShortestExpectedCompletion,
                Strategy::ShortestExpectedCompletion,
                Strategy::BestFit,
                Strategy::RoundRobin,
                Strategy::LeastRequests,
                Strategy::PowerOfTwo,
            ])
        },
        hedge: Hedge::default(),
        overflow: Overflow {
            mode: dice.pick(&[OverflowMode::Predicted, OverflowMode::Saturated]),
            max_percent: if roomy { 100 } else { dice.pick(&[100, 100, 30]) },
        },
        degrade: dice.pick(&[Degrade::Mark, Degrade::Fail]),
        learning: LearningMode::Disabled,
        canary_percent: 0,
        ledger_on_write_failure: OnWriteFailure::Deny,
        limits: Limits { request_bytes: 1 << 20, max_output_tokens: 256, concurrency, spend_per_day_micros: None },
        trace_sample_percent: 0,
    }
}

fn budget((name, total_ms, first_token_ms): &(&str, u64, u64)) -> Budget {
    Budget {
        uid: format!("uid-b-{name}"),
        name: format!("b-{name}"),
        features: if name.is_empty() { vec![] } else { vec![(*name).to_owned()] },
        first_token_us: first_token_ms * 1000,
        total_us: total_ms * 1000,
        objective_basis_points: 9900,
        window_us: 1,
        on_miss: OnMiss::Overflow,
        priority: if name.is_empty() { Priority::Batch } else { Priority::Interactive },
        chain: (*name == "slow").then_some(Chain { max_hops: 3, total_us: 4_000_000 }),
    }
}

fn tier(name: &str, boundary: Boundary, backend: Backend) -> Tier {
    Tier {
        uid: format!("uid-{name}"),
        generation: 1,
        name: name.into(),
        namespace: NAMESPACE.into(),
        boundary,
        topology_key: None,
        region: "eu".into(),
        processor: "Shop".into(),
        backend,
        cost: Cost {
            currency: "USD".into(),
            per_million_input_micros: 1_000_000,
            per_million_output_micros: 2_000_000,
            per_device_hour_micros: 0,
        },
        energy: Energy::default(),
        capability: Capability { features: vec![Feature::Tools], context_tokens: 4096, quality: 60, tasks: vec![] },
    }
}

fn fleet(name: &str, model: &str) -> Backend {
    Backend::Fleet(Fleet {
        model: model.into(),
        max_sequences: 2,
        service: String::new(),
        port: 8443,
        server_name: Identity::tier(CLUSTER, NAMESPACE, name).uri(),
    })
}

fn endpoint(dice: &Dice, roomy: bool) -> Backend {
    let concurrency = if roomy { None } else { dice.pick(&[None, None, Some(2)]) };
    Backend::Endpoint(Endpoint {
        url: format!("https://{}/v1", sea::CLOUD_NAME),
        model: "big".into(),
        credential: Some("apiKey".into()),
        ca_certificate: Some("ca.crt".into()),
        allowed_cidrs: vec![],
        extra_fields: vec![],
        limits: EndpointLimits { concurrency, ..EndpointLimits::default() },
    })
}

fn device(tier: &str, name: &str, ip: IpAddr) -> Device {
    Device {
        tier: format!("uid-{tier}"),
        pod_uid: format!("pod-{name}"),
        pod: name.into(),
        node: name.into(),
        domain: String::new(),
        address: ip.to_string(),
        port: 8443,
        server_name: Identity::tier(CLUSTER, NAMESPACE, tier).uri(),
        ready: true,
    }
}
