//! What is simulated, read from files: manifests with one Simulation, and a trace.

use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize as _;
use serde_json::Value;
use terrace_contract::snapshot::Snapshot;
use terrace_simulate::World;
use terrace_simulate::fleet::{API_VERSION, FleetFile, KIND};
use terrace_simulate::trace::{self, Arrival};

use crate::up::manifests::{self, Manifests};

/// The world that manifests and their Simulation describe.
///
/// # Errors
/// Something is refused or missing, with what to write instead.
pub fn world(files: &[PathBuf], policy: Option<&str>) -> Result<World> {
    let manifests = manifests::read(files)?;
    manifests.check()?;
    let snapshot = manifests.compile(manifests.policy(policy)?, "simulation", 0)?;
    let file = simulation(manifests.others())?;
    file.world(&snapshot).map_err(|wrong| anyhow::anyhow!("{KIND}: spec.{wrong}"))
}

/// The snapshot that manifests compile to, without devices and signature: what a router of this policy is told.
///
/// # Errors
/// Something is refused or missing, with what to write instead.
pub fn snapshot(files: &[PathBuf], policy: Option<&str>, cluster: &str) -> Result<Snapshot> {
    let manifests = manifests::read(files)?;
    manifests.check()?;
    manifests.compile(manifests.policy(policy)?, cluster, 0)
}

/// How fast the fleet is that a snapshot was compiled from, if a Simulation is among its manifests.
///
/// # Errors
/// There are several, or it does not fit the fleet.
pub fn speeds(manifests: &Manifests, snapshot: &Snapshot) -> Result<Option<World>> {
    let is_one = |document: &Value| document.get("kind").and_then(Value::as_str) == Some(KIND);
    if !manifests.others().iter().any(is_one) {
        return Ok(None);
    }
    let file = simulation(manifests.others())?;
    file.world(snapshot).map(Some).map_err(|wrong| anyhow::anyhow!("{KIND}: spec.{wrong}"))
}

fn simulation(documents: &[Value]) -> Result<FleetFile> {
    let text = |document: &Value, name: &str| document.get(name).and_then(Value::as_str).map(str::to_owned);
    let found: Vec<&Value> = documents.iter().filter(|d| text(d, "kind").as_deref() == Some(KIND)).collect();
    let [document] = found.as_slice() else {
        bail!(
            "the fleet needs one document of kind {KIND} (apiVersion: {API_VERSION}) that says how fast it is; there are {}: see docs/simulate.md",
            found.len()
        );
    };
    if text(document, "apiVersion").as_deref() != Some(API_VERSION) {
        bail!("{KIND}: apiVersion: write {API_VERSION}");
    }
    let spec = document.get("spec").with_context(|| format!("{KIND}: spec is missing"))?;
    FleetFile::deserialize(spec).with_context(|| format!("{KIND}: spec"))
}

/// The requests of a trace that a part of it has, the first at 0.
///
/// # Errors
/// The file cannot be read, is no trace, or the part holds nothing.
pub fn trace(file: &Path, part: Range<u32>) -> Result<Vec<Arrival>> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let arrivals = trace::read(&text).with_context(|| file.display().to_string())?;
    let part = trace::part(arrivals, part);
    if part.is_empty() {
        bail!("{}: this part of it holds no request", file.display());
    }
    Ok(part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_simulate::world::Places;

    fn example() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/simulate")
    }

    #[test]
    fn the_example_is_a_fleet_of_32_devices_and_an_endpoint() {
        let world = world(&[example()], None).unwrap();
        let [near, far] = world.rungs.as_slice() else { panic!("two rungs") };
        let (Places::Devices(devices), Places::Endpoint(endpoint)) = (&near.places, &far.places) else {
            panic!("a fleet and an endpoint")
        };
        assert_eq!(devices.len(), 32);
        assert_eq!((&*devices[5].node, devices[5].slots, devices[5].rtt_us), ("mini-0", 4, 2_000));
        assert!((devices[0].step_base_us + devices[0].step_per_sequence_us - 1e6 / 6.0).abs() < 1e-6);
        assert_eq!(endpoint.rtt_us, 60_000);
    }

    #[test]
    fn what_does_not_fit_is_named_by_its_place() {
        let text = std::fs::read_to_string(example().join("fleet.yaml")).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let error = |from: &str, to: &str| {
            let changed = text.replace(from, to);
            assert_ne!(changed, text, "{from}");
            std::fs::write(folder.path().join("fleet.yaml"), changed).unwrap();
            format!("{:#}", world(&[folder.path().to_owned()], None).unwrap_err())
        };
        let cases = [
            (
                "name: cloud\n      endpoint",
                "name: sky\n      endpoint",
                "spec.tiers[1].name: sky is no tier of the policy",
            ),
            ("rttMs: 60", "rttMs: -1", "spec.tiers[1].endpoint.rttMs"),
            (
                "count: 5, prefillTokensPerSecond: 72",
                "count: 5, prefillTokensPerSecond: 0",
                "devices[0].prefillTokensPerSecond",
            ),
            ("rttMs: 60", "rttMs: 1e300", "spec.tiers[1].endpoint.rttMs"),
            ("name: board, count: 5", "name: board, count: 0", "spec.tiers[0].devices[0].count"),
            ("routers: 1", "driftPercent: 100000", "spec.driftPercent"),
            ("queueMs: 200", "queueMillis: 200", "unknown field `queueMillis`"),
            ("kind: Simulation", "kind: Simulations", "one document of kind Simulation"),
            (
                "routers: 1",
                "faults: [{tier: edge, device: card-x, what: Down, fromSeconds: 1, untilSeconds: 2}]",
                "faults[0].device",
            ),
        ];
        for (from, to, expected) in cases {
            let said = error(from, to);
            assert!(said.contains(expected), "{from}: {said}");
        }
    }
}
