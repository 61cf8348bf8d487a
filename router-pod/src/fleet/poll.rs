//! Asks devices that have been quiet for their status, so that their load is known before the next request.
//!
//! Answers carry the load line already; only what has not said anything for [`QUIET_US`] is asked.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full, Limited};
use terrace_contract::load::Load;
use terrace_contract::status::AgentStatus;
use terrace_contract::{check_version, headers};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Fleet;
use super::device::Device;
use crate::clock::{Clock, micros};
use crate::dispatch::connect::Connector;
use crate::dispatch::connection::ConnectError;

/// How often devices are looked at.
const EVERY: Duration = Duration::from_millis(250);
/// A device that reported this recently is not asked.
const QUIET_US: u64 = 250_000;
/// A device that does not answer is asked this often.
const SILENT_EVERY: u32 = 4;
/// How long a status may take.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Longest status that is read.
const STATUS_BYTES: usize = 64 << 10;

/// Polls until the shutdown.
pub async fn run(fleet: Arc<Fleet>, connector: Arc<Connector>, clock: Clock, shutdown: CancellationToken) {
    let mut tick = tokio::time::interval(EVERY);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let mut round = 0u32;
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            _ = tick.tick() => {}
        }
        round = round.wrapping_add(1);
        let now = clock.now_us();
        let due = fleet.all_devices().into_iter().filter(|device| {
            let quiet = now.saturating_sub(device.last_report_us()) >= QUIET_US;
            (quiet || device.is_provisional())
                && (device.reachability().is_empty() || round.is_multiple_of(SILENT_EVERY))
        });
        for device in due {
            if let Some(asking) = device.ask() {
                let (fleet, connector) = (Arc::clone(&fleet), Arc::clone(&connector));
                tokio::spawn(async move {
                    ask(&fleet, &connector, &device, clock).await;
                    drop(asking);
                });
            }
        }
    }
}

async fn ask(fleet: &Fleet, connector: &Connector, device: &Arc<Device>, clock: Clock) {
    let begun = Instant::now();
    match tokio::time::timeout(TIMEOUT, status(fleet, connector, device)).await {
        Ok(Ok(status)) => {
            device.polled(status.load, status.draining, micros(begun.elapsed()), clock.now_us());
            fleet.waiters().wake();
            fleet.identified(device, &status);
        }
        Ok(Err(Failed::Connect(error))) => device.unreachable(error.reachable()),
        Ok(Err(Failed::Answer)) | Err(_) => device.unreachable("Timeout"),
    }
}

enum Failed {
    Connect(ConnectError),
    Answer,
}

async fn status(fleet: &Fleet, connector: &Connector, device: &Device) -> Result<AgentStatus, Failed> {
    let (address, identity) = device.peer().ok_or(Failed::Answer)?;
    let tier = &device.facts().device.tier;
    let generation = fleet.generation(tier);
    let mut connection = connector.device(tier, generation, address, &identity).await.map_err(Failed::Connect)?;
    let uri = format!("https://{address}/terrace/status");
    let request = Request::get(uri).body(Full::<Bytes>::default()).map_err(|_| Failed::Answer)?;
    let sender = connection.sender().ok_or(Failed::Answer)?;
    let answer = sender.send(request).await.map_err(|_| Failed::Answer)?;
    if !answer.status().is_success() {
        return Err(Failed::Answer);
    }
    let load = answer.headers().get(headers::LOAD).and_then(|v| v.to_str().ok()).and_then(Load::from_header);
    let body = Limited::new(answer.into_body(), STATUS_BYTES).collect().await.map_err(|_| Failed::Answer)?;
    let mut status: AgentStatus = serde_json::from_slice(&body.to_bytes()).map_err(|_| Failed::Answer)?;
    check_version(status.schema_version).map_err(|_| Failed::Answer)?;
    status.load = load.unwrap_or(status.load);
    Ok(status)
}
