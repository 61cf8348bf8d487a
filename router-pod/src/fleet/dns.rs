//! Finds devices by the name of their headless Service while the snapshot has none, or none of its own answers: the
//! mounted copy carries no devices, and the operator may be away while pods move.
//!
//! An address is a provisional key until the agent there says its pod UID and node. Dialling a stale address is
//! harmless: whoever answers must prove to be of the tier.

use std::sync::Arc;
use std::time::Duration;

use terrace_contract::tier::{Backend, Device, Fleet as FleetTier, Tier};
use terrace_identity::net::Network;
use tokio_util::sync::CancellationToken;

use super::Fleet;

/// How often names are resolved.
const EVERY: Duration = Duration::from_secs(2);

/// Resolves until the shutdown.
pub async fn run(fleet: Arc<Fleet>, network: Arc<dyn Network>, shutdown: CancellationToken) {
    let mut tick = tokio::time::interval(EVERY);
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            _ = tick.tick() => {}
        }
        let Some(in_use) = fleet.in_use() else { continue };
        for tier in &in_use.tiers {
            let Backend::Fleet(backend) = &tier.backend else { continue };
            // With what was found in use, it is looked up on: pods come and go.
            let named = in_use.snapshot.devices.iter().any(|d| d.tier == tier.uid);
            if backend.service.is_empty() || (named && !fleet.is_lost(&tier.uid)) {
                continue;
            }
            // It may take a minute while DNS does not answer.
            let found = tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                found = network.resolve(&backend.service, backend.port) => found,
            };
            // A name that does not resolve now keeps the devices that it gave before.
            if let Ok(addresses) = found {
                let mut devices: Vec<Device> =
                    addresses.iter().map(|a| provisional(tier, backend, a.ip().to_string())).collect();
                devices.sort_by(|a, b| a.address.cmp(&b.address));
                devices.dedup_by(|a, b| a.address == b.address);
                fleet.found(&tier.uid, devices);
            }
        }
    }
}

fn provisional(tier: &Tier, backend: &FleetTier, address: String) -> Device {
    Device {
        tier: tier.uid.clone(),
        pod_uid: address.clone(),
        pod: String::new(),
        node: String::new(),
        domain: String::new(),
        address,
        port: backend.port,
        server_name: backend.server_name.clone(),
        ready: true,
    }
}
