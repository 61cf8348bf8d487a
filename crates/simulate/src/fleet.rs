//! The fleet file: how fast everything on a ladder really is, what the traffic is like, and what goes wrong when.
//!
//! It stands beside the manifests, which say the rest: tiers, policy, budgets. Numbers carry their unit in their name.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use terrace_contract::load::STEP_LIMIT_MS;
use terrace_contract::snapshot::Snapshot;
use terrace_contract::tier::{Backend, Tier};
use terrace_contract::trust::Class;

use crate::world::{Device, Endpoint, Fault, FaultKind, Places, Rung, Traffic, World};

/// `apiVersion` of the document.
pub const API_VERSION: &str = "simulate.terrace.dev/v1alpha1";
/// `kind` of the document.
pub const KIND: &str = "Simulation";

/// The `spec` of a Simulation.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FleetFile {
    /// What answers at each tier of the ladder.
    pub tiers: Vec<TierTruth>,
    /// Router replicas; none: the policy's own number.
    #[serde(default)]
    pub routers: Option<u32>,
    /// How often a quiet device is asked for its load, milliseconds.
    #[serde(default = "reports_every_ms")]
    pub reports_every_ms: f64,
    /// Spread of a device's speed around its rated one, percent; it is drawn anew every five seconds.
    #[serde(default = "drift_percent")]
    pub drift_percent: f64,
    /// What requests are beyond their lengths.
    #[serde(default)]
    pub traffic: TrafficTruth,
    /// What goes wrong.
    #[serde(default)]
    pub faults: Vec<FaultTruth>,
}

fn reports_every_ms() -> f64 {
    250.0
}

fn drift_percent() -> f64 {
    10.0
}

/// What answers at one tier: devices or an endpoint.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TierTruth {
    /// The Tier's name.
    pub name: String,
    /// Devices, in groups of equal ones.
    #[serde(default)]
    pub devices: Vec<DeviceTruth>,
    /// The endpoint.
    #[serde(default)]
    pub endpoint: Option<EndpointTruth>,
}

/// Equal devices.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeviceTruth {
    /// What they are called; each gets a number behind it.
    pub name: String,
    /// How many.
    #[serde(default = "one")]
    pub count: u32,
    /// Sequences at once; none: the tier's `maxSequences`.
    #[serde(default)]
    pub slots: Option<u32>,
    /// Requests that may wait.
    #[serde(default = "queue")]
    pub queue: u32,
    /// Prompt tokens a second while nothing is decoded.
    pub prefill_tokens_per_second: f64,
    /// Answer tokens a second of one sequence that is alone.
    pub decode_tokens_per_second: f64,
    /// Part of a decode step that each sequence of the batch adds, percent of the step of one that is alone.
    #[serde(default = "per_sequence_percent")]
    pub per_sequence_percent: f64,
    /// Prompt tokens of one step at most.
    #[serde(default = "prefill_chunk")]
    pub prefill_chunk_tokens: u32,
    /// Time of one step while answers wait for their next token, milliseconds.
    #[serde(default = "step_limit_ms")]
    pub step_limit_ms: f64,
    /// Prompt tokens that the prefix cache holds.
    #[serde(default)]
    pub prefix_cache_tokens: u64,
    /// Round trip from the routers, milliseconds.
    #[serde(default = "device_rtt_ms")]
    pub rtt_ms: f64,
}

fn one() -> u32 {
    1
}

fn queue() -> u32 {
    4
}

fn per_sequence_percent() -> f64 {
    10.0
}

fn prefill_chunk() -> u32 {
    256
}

fn step_limit_ms() -> f64 {
    f64::from(STEP_LIMIT_MS)
}

fn device_rtt_ms() -> f64 {
    2.0
}

/// An endpoint.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EndpointTruth {
    /// Round trip, milliseconds.
    pub rtt_ms: f64,
    /// Time in its queue on average, milliseconds (exponential).
    #[serde(default)]
    pub queue_ms: f64,
    /// Prompt tokens a second.
    pub prefill_tokens_per_second: f64,
    /// Answer tokens a second.
    pub decode_tokens_per_second: f64,
}

/// What requests are beyond their lengths.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TrafficTruth {
    /// Features by weight; none: all are `other`.
    #[serde(default)]
    pub features: BTreeMap<String, u32>,
    /// Classes by weight; none: all are the policy's `unlabelled`.
    #[serde(default)]
    pub classes: BTreeMap<Class, u32>,
    /// Share of requests judged complex whatever their length, percent.
    #[serde(default)]
    pub complex_percent: u8,
    /// `max_tokens` that every client sends; none: they send none.
    #[serde(default)]
    pub max_output_tokens: Option<u32>,
}

/// Something that goes wrong, and ends.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FaultTruth {
    /// Where: the Tier's name.
    pub tier: String,
    /// A device's name with its number (`pi-0`); none: all of the tier.
    #[serde(default)]
    pub device: Option<String>,
    /// What.
    pub what: What,
    /// With `Slow`: so many times.
    #[serde(default)]
    pub times: Option<f64>,
    /// When it begins, seconds of the run.
    pub from_seconds: f64,
    /// When it ends.
    pub until_seconds: f64,
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum What {
    /// It refuses connections, and what it was doing is lost.
    Down,
    /// Its reports do not arrive.
    Silent,
    /// It is slower.
    Slow,
}

/// A fleet file that does not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {problem}")]
pub struct FleetError {
    /// Where, as a path into the document's `spec`.
    pub at: String,
    /// What is wrong, and what to write.
    pub problem: String,
}

fn wrong(at: impl Into<String>, problem: impl Into<String>) -> FleetError {
    FleetError { at: at.into(), problem: problem.into() }
}

/// The longest time that a file may say.
const YEAR_MS: f64 = 366.0 * 86_400_000.0;
/// The longest way there and back.
const MINUTE_MS: f64 = 60_000.0;
/// Most devices of a group.
const GROUP_MOST: u32 = 100_000;
/// Widest spread of speeds, percent: past it a mean says nothing any more.
const DRIFT_MOST: f64 = 100.0;

/// A number above 0, or at least 0.
fn number(at: &str, value: f64, least: f64) -> Result<f64, FleetError> {
    let fits = value.is_finite() && if least > 0.0 { value > 0.0 } else { value >= 0.0 };
    let form = if least > 0.0 { "above 0" } else { "0 or more" };
    if fits { Ok(value) } else { Err(wrong(at, format!("{value} is not a number {form}"))) }
}

/// The same, and no more than what could be meant.
fn at_most(at: &str, value: f64, most: f64) -> Result<f64, FleetError> {
    let value = number(at, value, 0.0)?;
    if value > most { Err(wrong(at, format!("{value} is more than {most}"))) } else { Ok(value) }
}

fn micros(at: &str, ms: f64) -> Result<u64, FleetError> {
    Ok((at_most(at, ms, YEAR_MS)? * 1000.0) as u64)
}

/// Of a way there and back.
fn rtt(at: &str, ms: f64) -> Result<u64, FleetError> {
    micros(at, at_most(at, ms, MINUTE_MS)?)
}

impl FleetFile {
    /// The world of a compiled policy: its ladder with what this file says of each rung.
    ///
    /// # Errors
    /// A tier of the ladder is missing here, is here twice, or has the other kind of backend; a number makes no sense.
    pub fn world(&self, snapshot: &Snapshot) -> Result<World, FleetError> {
        for (i, tier) in self.tiers.iter().enumerate() {
            if !snapshot.tiers.iter().any(|t| t.name == tier.name) {
                let ladder: Vec<&str> = snapshot.tiers.iter().map(|t| t.name.as_str()).collect();
                let problem = format!("{} is no tier of the policy: there are {}", tier.name, ladder.join(", "));
                return Err(wrong(format!("tiers[{i}].name"), problem));
            }
            if self.tiers[..i].iter().any(|t| t.name == tier.name) {
                return Err(wrong(format!("tiers[{i}].name"), format!("{} is here twice", tier.name)));
            }
        }
        let rungs = snapshot.tiers.iter().map(|tier| self.rung(tier)).collect::<Result<Vec<_>, _>>()?;
        let faults = self.faults.iter().enumerate().map(|(i, f)| fault(i, f, &rungs)).collect::<Result<Vec<_>, _>>()?;
        let traffic = Traffic {
            features: self.traffic.features.iter().map(|(name, weight)| (name.clone(), *weight)).collect(),
            classes: self.traffic.classes.iter().map(|(class, weight)| (*class, *weight)).collect(),
            complex_percent: self.traffic.complex_percent,
            max_output_tokens: self.traffic.max_output_tokens,
        };
        Ok(World {
            policy: snapshot.policy.clone(),
            budgets: snapshot.budgets.clone(),
            rungs,
            traffic,
            routers: self.routers.unwrap_or(snapshot.routers).max(1),
            reports_every_us: micros("reportsEveryMs", self.reports_every_ms)?,
            own_dispatches: true,
            drift: at_most("driftPercent", self.drift_percent, DRIFT_MOST)? / 100.0,
            faults,
        })
    }

    fn rung(&self, tier: &Tier) -> Result<Rung, FleetError> {
        let Some(index) = self.tiers.iter().position(|t| t.name == tier.name) else {
            let problem = format!("tier {} of the policy is missing: say what answers there", tier.name);
            return Err(wrong("tiers", problem));
        };
        let (truth, at) = (&self.tiers[index], format!("tiers[{index}]"));
        let places = match (&tier.backend, &truth.endpoint, truth.devices.is_empty()) {
            (Backend::Endpoint(_), Some(endpoint), true) => {
                Places::Endpoint(endpoint.world(&format!("{at}.endpoint"))?)
            }
            (Backend::Fleet(fleet), None, false) => {
                let groups = truth.devices.iter().enumerate();
                let groups = groups.map(|(i, group)| group.world(&format!("{at}.devices[{i}]"), fleet.max_sequences));
                Places::Devices(groups.collect::<Result<Vec<_>, _>>()?.concat())
            }
            (Backend::Endpoint(_), ..) => {
                return Err(wrong(
                    at,
                    format!("Tier {} has an endpoint: write endpoint: {{…}}, no devices", tier.name),
                ));
            }
            (Backend::Fleet(_), ..) => {
                return Err(wrong(at, format!("Tier {} is a fleet: write devices: […], no endpoint", tier.name)));
            }
        };
        Ok(Rung { tier: Arc::new(tier.clone()), places })
    }
}

impl DeviceTruth {
    fn world(&self, at: &str, max_sequences: u32) -> Result<Vec<Device>, FleetError> {
        let positive = |name: &str, value: f64| number(&format!("{at}.{name}"), value, 1.0);
        let share = number(&format!("{at}.perSequencePercent"), self.per_sequence_percent, 0.0)? / 100.0;
        if share > 1.0 {
            return Err(wrong(format!("{at}.perSequencePercent"), "is more than the whole step: 0 to 100"));
        }
        if !(1..=GROUP_MOST).contains(&self.count) {
            return Err(wrong(
                format!("{at}.count"),
                format!("is from 1 to {GROUP_MOST}: leave the group out for none"),
            ));
        }
        let slots = self.slots.unwrap_or(max_sequences);
        if slots == 0 || self.prefill_chunk_tokens == 0 {
            return Err(wrong(at, "slots and prefillChunkTokens are at least 1"));
        }
        let step = 1e6 / positive("decodeTokensPerSecond", self.decode_tokens_per_second)?;
        let device = Device {
            node: Arc::from(""),
            slots,
            queue_limit: self.queue,
            prefill_rate: positive("prefillTokensPerSecond", self.prefill_tokens_per_second)?,
            step_base_us: step * (1.0 - share),
            step_per_sequence_us: step * share,
            prefill_chunk: self.prefill_chunk_tokens,
            step_limit_us: micros(&format!("{at}.stepLimitMs"), self.step_limit_ms)?,
            prefix_cache_tokens: self.prefix_cache_tokens,
            rtt_us: rtt(&format!("{at}.rttMs"), self.rtt_ms)?,
        };
        Ok((0..self.count).map(|i| Device { node: format!("{}-{i}", self.name).into(), ..device.clone() }).collect())
    }
}

impl EndpointTruth {
    fn world(&self, at: &str) -> Result<Endpoint, FleetError> {
        let positive = |name: &str, value: f64| number(&format!("{at}.{name}"), value, 1.0);
        Ok(Endpoint {
            rtt_us: rtt(&format!("{at}.rttMs"), self.rtt_ms)?,
            queue_us: micros(&format!("{at}.queueMs"), self.queue_ms)?,
            prefill_rate: positive("prefillTokensPerSecond", self.prefill_tokens_per_second)?,
            step_us: 1e6 / positive("decodeTokensPerSecond", self.decode_tokens_per_second)?,
        })
    }
}

fn fault(i: usize, fault: &FaultTruth, rungs: &[Rung]) -> Result<Fault, FleetError> {
    let at = format!("faults[{i}]");
    let Some(rung) = rungs.iter().position(|rung| rung.tier.name == fault.tier) else {
        return Err(wrong(format!("{at}.tier"), format!("{} is no tier of the policy", fault.tier)));
    };
    let device = match (&fault.device, &rungs[rung].places) {
        (None, _) => None,
        (Some(name), Places::Devices(devices)) => {
            let found = devices.iter().position(|device| &*device.node == name.as_str());
            Some(found.ok_or_else(|| wrong(format!("{at}.device"), format!("the tier has no device {name}")))?)
        }
        (Some(_), Places::Endpoint(_)) => return Err(wrong(format!("{at}.device"), "the tier is an endpoint")),
    };
    let kind = match (fault.what, fault.times) {
        (What::Down, None) => FaultKind::Down,
        (What::Silent, None) => FaultKind::Silent,
        (What::Slow, Some(times)) => FaultKind::Slow(number(&format!("{at}.times"), times, 1.0)?),
        (What::Slow, None) => return Err(wrong(format!("{at}.times"), "is required with Slow: how many times slower")),
        (_, Some(_)) => return Err(wrong(format!("{at}.times"), "goes with Slow only")),
    };
    let from_us = micros(&format!("{at}.fromSeconds"), fault.from_seconds * 1000.0)?;
    let until_us = micros(&format!("{at}.untilSeconds"), fault.until_seconds * 1000.0)?;
    if until_us <= from_us {
        return Err(wrong(format!("{at}.untilSeconds"), "is not after fromSeconds"));
    }
    Ok(Fault { rung, device, kind, from_us, until_us })
}
